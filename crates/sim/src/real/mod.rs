//! What the rounds on real mounts share: this program as `seamount`, a daemon that can be killed, a
//! process that maps files, and bytes that a number names.

mod bytes;
mod daemon;
mod mapper;
mod program;

pub use bytes::fill;
pub use daemon::{Daemon, Ended, Place, deadline, is_mounted, keep, wait_until};
pub use mapper::{Mapper, serve as serve_mapper};
pub use program::{Role, role, seamount, why_not};
