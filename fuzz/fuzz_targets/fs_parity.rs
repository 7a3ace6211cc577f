//! See `fs::fuzzing::parity`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::parity(bytes));
