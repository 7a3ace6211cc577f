//! The program, proved on real mounts with the default options: what people and their programs rely
//! on.
//!
//! `cargo test -p cli` runs everything; with `PROOF_DIR=DIR` the same proofs run in a
//! plain directory, which shows that they ask nothing that a native filesystem does not give.
//! Longer ones are ignored by default: `cargo test --release -p cli --test it -- --ignored`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod acl;
mod archive;
mod bulk;
mod cli;
mod draw;
mod errors;
mod exercise;
mod fsx;
mod git;
mod ground;
mod handover;
mod holes;
mod life;
mod listing;
mod local;
mod locks;
mod mapped;
mod open;
mod peer;
mod person;
mod pjdfstest;
mod rename;
mod scale;
mod special;
mod sqlite;
mod survive;
mod times;
mod tool;
mod tree;
mod users;
mod volumes;
mod work;
mod xattr;
