//! Who may do what: other users, other daemons, links and limits; nothing that was not given is had.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "shared with the proofs on mounts, which use all of it")]
#[path = "../it/ground.rs"]
mod ground;
#[allow(dead_code, reason = "shared with the proofs on mounts, which use all of it")]
#[path = "../it/person.rs"]
mod person;
#[allow(dead_code, reason = "shared with the proofs on mounts, which use all of it")]
#[path = "../it/tool.rs"]
mod tool;

mod bits;
mod limits;
mod links;
mod privacy;
mod site;
mod socket;
mod store;
mod users;
mod xattrs;
