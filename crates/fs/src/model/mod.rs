//! A reference model of the filesystem, and random tests of the core against it.
//!
//! * [`Model`]: a plain tree in memory, with a method for each operation of the core.
//! * [`Action`]: one operation that can be printed; [`Action::random`] draws one that is likely to
//!   meet others.
//! * [`compare`]: does the same to the core and to the model and compares all that can be seen.
//! * [`race`]: several sessions at once, whose answers some serial order must explain.
//! * [`Mounted`]: does them as a mount does, and counts which way they went; [`Jostled`]: an engine on which
//!   others commit at every moment, for what is done without a transaction.
//!
//! The model shares no code with the core, so that a mistake is not repeated in its proof. It says
//! what ext4 says, and where callers can see no difference or Linux never asks, it is settled so:
//!
//! * Setting a size changes the times, even to the same size. So does every fallocate that
//!   succeeds, and every extended attribute that is set or removed changes the ctime. A write of no
//!   bytes changes nothing, and neither does a `setattr` of nothing.
//! * A write that would end behind the largest size is cut there; an fallocate fails as a whole.
//!   Writes and copies may always be shorter than asked, but not empty.
//! * `open` is for files: a directory is one, a symbolic link a loop, a special file no device.
//! * A name that can never be may be told before or after what else is wrong; and where an inode
//!   is named that is not there, another error may come first.
//! * An inode that only an open directory or file keeps can still be named by its number.
//! * A listing of a removed directory fails with not-found or has nothing but the dots.
//! * A file without a name that was made as such can be linked once, unless it was made exclusive.

pub mod action;
mod agree;
mod attrs;
pub mod compare;
pub mod crew;
pub mod data;
mod draw;
mod files;
mod generate;
pub mod jostled;
pub mod mounted;
mod names;
pub mod race;
mod rename;
mod serial;
mod sparse;
pub mod target;
mod translate;
mod tree;
mod walk;
mod whole;

#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod tests;

pub use action::{Action, Answer};
pub use draw::{Callers, Mix, Sizes};
pub use files::Side;
pub use jostled::Jostled;
pub use mounted::Mounted;
pub use rename::Place;
pub use sparse::Sparse;
pub use target::Target;
pub use translate::Translate;
pub use tree::{Answered, Body, Inode, Model, OpenFile};
