//! The core, tested from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod acl;
mod audit;
mod basics;
mod bytes;
mod check;
mod dump;
mod format;
mod jobs;
mod limits;
mod locks;
mod names;
mod probe;
mod races;
mod replay;
mod report;
mod sessions;
mod world;
