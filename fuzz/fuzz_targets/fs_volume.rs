//! See `fs::fuzzing::volume`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::volume(bytes));
