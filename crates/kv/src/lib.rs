//! The store contract: an ordered map of bytes, edited by serializable transactions.
//!
//! The rooms of this crate:
//!
//! * [`Store`] and [`Txn`]: what the layers above use. [`Store::transact`] is the one retry loop.
//! * [`Engine`] and [`Snapshot`]: what an engine implements, kept small. Reading one's own writes,
//!   conflict ranges and limits are done once, in [`Txn`], never in an engine.
//! * [`mem`]: the reference engine. [`sim`]: any engine with faults from a seed.
//! * `conformance` (a feature): the suite that every engine passes, and with it
//!   `history`, which checks that what really happened was serializable.
//!
//! # The model
//!
//! A transaction reads one snapshot and its own writes on top. When it commits, it conflicts if
//! anything that it read *serializably* was written by a transaction that committed after its
//! snapshot. That covers keys that were not there: a range read conflicts with an insertion into
//! the range. Writes alone never conflict, so atomic operations on one key can race freely. A
//! transaction that wrote nothing always commits: it happened at its snapshot.

mod capabilities;
mod engine;
mod error;
mod future;
mod key;
mod page;
mod points;
mod retry;
mod store;
mod txn;
mod watch;
mod writes;

pub mod mem;
pub mod sim;

#[cfg(feature = "conformance")]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "asserting is its purpose"
)]
pub mod conformance;
#[cfg(feature = "conformance")]
pub mod history;

pub use capabilities::{Capabilities, Native};
pub use engine::{AtomicOp, Commit, Durability, Engine, OnSync, Op, Query, Snapshot, Version};
pub use error::{Error, ErrorKind, Result};
pub use future::Fut;
pub use key::{Key, KeyRange};
pub use page::Page;
pub use retry::{Attempt, Failure, Retry};
pub use store::{Committed, Store};
pub use txn::{Read, Txn};
pub use watch::{Watch, WatchTable};
