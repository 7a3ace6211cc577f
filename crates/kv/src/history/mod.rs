//! What really happened, and whether it was strictly serializable.
//!
//! * [`Plan`] and [`Recorder`]: random transactions from a seed, each written down as a [`Record`].
//! * [`simulate`] runs a plan on a seeded schedule, [`on_threads`] on real threads.
//! * [`check`] replays a [`History`] in the order of its versions and says what is wrong with it.
//!
//! The checker knows nothing of engines. It has its own plain words for what an operation means
//! ([`model`]), so that a mistake in the contract's code is not repeated in its proof.

mod check;
pub mod model;
mod record;
mod run;
mod timeline;
mod verdict;
mod workload;

pub use check::{Rules, check};
pub use record::{History, Outcome, Record, Recorder, Step};
pub use run::{on_threads, simulate};
pub use verdict::{Summary, Violation, Wrong};
pub use workload::Plan;
