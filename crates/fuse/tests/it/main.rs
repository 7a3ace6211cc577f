//! Mounts in this process, on temporary stores. Needs /dev/fuse and the right to mount.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod ahead;
mod ground;
mod private;
mod shared;
mod uring;
