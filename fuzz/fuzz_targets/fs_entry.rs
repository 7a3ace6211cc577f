//! See `fs::fuzzing::entry`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::entry(bytes));
