//! The embedded engine, tested from outside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod conformance;
mod cuts;
mod faults;
mod kill;
mod life;
mod model;
mod rot;
mod store;
mod window;
