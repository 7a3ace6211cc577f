//! See `fs::fuzzing::job`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::job(bytes));
