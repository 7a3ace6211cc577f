//! See `kv_local::fuzzing::replay_raw`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kv_local::fuzzing::replay_raw(bytes));
