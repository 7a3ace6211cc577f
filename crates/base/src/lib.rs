//! The ground floor: the only crate that touches the real clock, entropy, threads and the disk.
//!
//! Everything above receives these as traits, so that a simulation can own them and a seed can
//! replay a run:
//!
//! | module | trait | real | simulated |
//! |---|---|---|---|
//! | [`clock`] | [`Clock`] | [`SystemClock`] | [`SimClock`] |
//! | [`random`] | [`Random`] | [`OsRandom`] | [`SeededRandom`] |
//! | [`thread`] | [`Spawn`] | [`SystemThreads`] | none: simulated code runs in place |
//! | [`disk`] | [`Disk`], [`File`] | [`SystemDisk`] | [`SimDisk`] |
//! | [`exec`] | | [`block_on`] | [`Scheduler`] |

pub mod checksum;
pub mod clock;
pub mod disk;
pub mod exec;
pub mod pool;
pub mod random;
pub mod sync;
pub mod thread;

pub use clock::{Clock, SimClock, SystemClock};
pub use disk::{Disk, File, SimDisk, SystemDisk};
pub use exec::{Scheduler, block_on};
pub use random::{OsRandom, Random, SeededRandom};
pub use thread::{Spawn, SystemThreads};
