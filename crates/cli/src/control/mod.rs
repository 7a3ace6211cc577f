//! How commands reach the daemon that has a store open: a Unix socket in the store's directory.
//!
//! * `protocol`: requests and the frames of answers. `client`, `server`: the two ends.

pub mod client;
pub mod protocol;
pub mod server;

/// The name of the socket in the store's directory.
pub const SOCKET: &str = "control";
