//! See `fs::fuzzing::block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::block(bytes));
