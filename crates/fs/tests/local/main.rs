//! Files of the local home: what every reader sees of them at every time, what becomes of them, and what is left
//! after a crash. Without a kernel: one that takes every file stands in for it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../it/audit.rs"]
mod audit;
mod crash;
mod crowd;
mod forms;
mod fsck;
mod habit;
#[cfg(feature = "model")]
mod model;
mod races;
mod removal;
mod saved;
#[cfg(feature = "model")]
mod short;
mod suspect;
mod times;
#[cfg(feature = "model")]
mod twin;
mod whole;
mod world;
