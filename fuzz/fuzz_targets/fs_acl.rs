//! See `fs::fuzzing::acl`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::acl(bytes));
