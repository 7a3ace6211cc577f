//! The core: a POSIX filesystem whose every operation is one transaction of a key-value store.
//!
//! The rooms of this crate:
//!
//! * [`Volume`]: one filesystem inside a store. [`Session`]: one client of it, with a method for each
//!   operation ([`op`] has a file for each). [`types`]: what callers say and are told.
//! * [`schema`]: every key and every record. `tx`: one transaction, through which every record is
//!   written. `reply`: replies in the op log.
//! * [`blob`]: bytes of files, inline and mapped. [`acl`], `access`: who may do what.
//! * `session`: heartbeat, leases, handles, numbers, access times. `job`: work of many transactions.
//! * `model` (a feature): the same filesystem as a plain tree in memory, for tests.

mod access;
pub mod acl;
pub mod blob;
mod check;
pub mod dump;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod job;
mod local;
#[cfg(feature = "model")]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "asserting is its purpose"
)]
pub mod model;
pub mod op;
mod progress;
mod repair;
mod reply;
mod report;
pub mod schema;
mod scrub;
mod session;
mod tx;
pub mod types;
mod volume;

pub use check::{Check, CheckReport, FINDING_KINDS, FINDINGS_MAX, Finding};
pub use error::{Error, Kind, Result};
pub use local::{Registrar, Settled};
pub use op::{Ahead, Opened};
pub use progress::{NoProgress, Progress};
pub use repair::{DEAD_SESSION, LOST_AND_FOUND, Repair, RepairReport, Repaired};
pub use report::{Collected, DataForm, Extent, Info, LeaseInfo, SessionInfo, Summary, Walk};
pub use schema::{ScrubFinding, ScrubRecord, ScrubState};
pub use scrub::{SCRUB_FINDINGS_MAX, ScrubOptions};
pub use session::{
    Asked, Atime, Maintained, Observer, OpKind, Session, SessionCounts, SessionOptions, Sharing,
    Way,
};
pub use types::*;
pub use volume::{FormatOptions, Volume, VolumeChanges, World};
