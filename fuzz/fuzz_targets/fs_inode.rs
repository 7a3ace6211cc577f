//! See `fs::fuzzing::inode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fs::fuzzing::inode(bytes));
