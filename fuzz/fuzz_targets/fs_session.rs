//! See `fs::fuzzing::session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::session(bytes));
