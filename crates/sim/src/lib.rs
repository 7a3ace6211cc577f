//! Seeded simulations: one seed is one run, and the same seed is the same run, byte for byte.
//!
//! The rooms of this crate:
//!
//! * [`args`]: the command line.
//! * [`seeds`]: runs one seed or many, counts failures, prints traces.
//! * [`life`]: a scripted life of a volume on a simulated disk. [`cuts`], [`faults`], [`rot`]: the same
//!   with power cut, the disk failing and files damaged, everywhere.
//! * [`scenario`]: what a seed does, one module for each part of Seamount.
//! * [`crash`], [`soak`], [`load`]: rounds on real mounts, where a seed decides what is tried and not what happens; [`real`]:
//!   what they share.
//!
//! To add a scenario: a module in [`scenario`] with a function from a seed to a [`seeds::Trial`], and
//! a line in [`scenario::ALL`].

pub mod args;
pub mod crash;
pub mod cuts;
pub mod faults;
pub mod life;
pub mod load;
#[allow(clippy::disallowed_methods, reason = "a real mount has real time and real threads")]
pub mod real;
pub mod rot;
pub mod scenario;
pub mod seeds;
pub mod soak;
