//! See `fs::fuzzing::locks`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::locks(bytes));
