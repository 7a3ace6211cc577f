//! See `kv_local::fuzzing::store`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kv_local::fuzzing::store(bytes));
