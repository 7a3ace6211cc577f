//! See `fs::fuzzing::xattr`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::xattr(bytes));
