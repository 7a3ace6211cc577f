//! See `cli::fuzzing::control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cli::fuzzing::control(bytes));
