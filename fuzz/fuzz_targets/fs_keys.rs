//! See `fs::fuzzing::keys`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::keys(bytes));
