//! See `cli::fuzzing::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cli::fuzzing::config(bytes));
