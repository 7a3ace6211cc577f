//! A volume as a mounted filesystem: decodes what the kernel asks, calls the core, encodes the answer.
//!
//! The rooms of this crate, from the kernel inwards:
//!
//! * [`mount`] mounts a session; [`Mount`] is what is mounted. [`unmount`], [`mounted`], [`is_stale`].
//! * `device`: the descriptor of `/dev/fuse`. `wire`: the kernel's protocol, read and written.
//! * `request`, `reply`: the same in words of our own, which any other transport can bring too.
//! * `server`: threads, and who polls what. `handler`: what is done for each request.
//! * `stats`: counts and latencies.

mod backings;
mod connection;
mod device;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod mount;
mod reply;
mod request;
mod server;
mod slots;
mod stats;
mod wire;

pub use connection::{Mount, mount, resume};
pub use mount::{
    MountEntry, MountError, MountErrorKind, MountOptions, has_device, is_stale, mounted, unmount,
};
pub use stats::{BUCKETS, OpStats};
