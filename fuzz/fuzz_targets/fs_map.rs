//! See `fs::fuzzing::map`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::map(bytes));
