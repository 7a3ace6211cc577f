//! See `fuse::fuzzing::request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuse::fuzzing::request(bytes));
