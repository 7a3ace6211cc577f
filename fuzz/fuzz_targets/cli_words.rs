//! See `cli::fuzzing::words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cli::fuzzing::words(bytes));
