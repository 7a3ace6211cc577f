//! See `fs::fuzzing::replies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::replies(bytes));
