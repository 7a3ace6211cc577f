//! The tests of this crate from outside: the conformance suite on the reference engine and on the
//! fault injector with each set of bounds, the history checker, and what is special to them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test binary")]

mod engines;
mod faults;
mod histories;
mod slow;
mod wrong_histories;
