//! A volume as a mounted filesystem: decodes what the kernel asks, calls the core, encodes the answer.
//!
//! The rooms of this crate, from the kernel inwards:
//!
//! * [`mount`] mounts a session; [`Mount`] is what is mounted. [`unmount`], [`mounted`], [`is_stale`].
//! * `device`: the descriptor of `/dev/fuse`; `watch`: how a thread waits there. `wire`: the kernel's protocol, read and written.
//! * `request`, `reply`: the same in words of our own, which any other transport can bring too.
//! * `channel`: how requests come and replies go: by the `device`, or by `uring`.
//! * `server`, `seat`: threads, and whose turn it is to hear the kernel. `dispatch`: which handler a request is for.
//!   `ticket`: a request that is answered by another thread.
//! * `handler`: what is done for each request.
//! * `backings`, `opens`: what the kernel knows that the next process must know too, in `notes`.
//! * `stats`: counts and latencies.

mod backings;
mod channel;
mod connection;
mod device;
mod dispatch;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod mount;
mod notes;
mod opens;
mod reply;
mod request;
mod seat;
mod server;
mod slots;
mod stats;
mod ticket;
mod uring;
mod watch;
mod wire;

pub use connection::{Inherited, Mount, mount, resume};
pub use mount::{
    MountEntry, MountError, MountErrorKind, MountOptions, Transport, has_device, is_stale, mounted,
    unmount,
};
pub use stats::{BUCKETS, OpStats};
