//! See `fuse::fuzzing::mount_table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuse::fuzzing::mount_table(bytes));
