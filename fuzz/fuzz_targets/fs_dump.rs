//! See `fs::fuzzing::dump`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::dump(bytes));
