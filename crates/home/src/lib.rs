//! Homes: where bytes of files live outside the key-value store, one file for each.
//!
//! * [`Home`] is the contract, [`Backing`] a file of it.
//! * [`LocalHome`] is a directory of the host. The kernel can read, write and map its files by itself.
//! * [`SimHome`] is on a simulated disk, which loses power, runs full and fails.
//!
//! A home knows numbers, not names: which file belongs to whom stands in the store.

mod copy;
mod in_use;
mod local;
mod opened;
mod path;
mod sim;
mod unreadable;

pub use copy::write_anew;
pub use local::LocalHome;
pub use path::path_of;
pub use sim::SimHome;
pub use unreadable::Unreadable;

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Which file of a home: the volume's number, and the blob's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The volume.
    pub volume: u16,
    /// The blob.
    pub blob: u64,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Bytes.
    pub len: u64,
    /// Bytes that it takes.
    pub taken: u64,
    /// When its bytes last changed: seconds since 1970, and nanoseconds.
    pub changed: (i64, u32),
    /// When anything of it last changed.
    pub status_changed: (i64, u32),
}

/// What to look for in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The next byte that is stored.
    Data,
    /// The next hole; the end counts as one.
    Hole,
}

/// A place for files.
pub trait Home: Send + Sync + Debug {
    /// Makes a file, or takes the one that is there and empties it.
    fn make(&self, place: Place) -> io::Result<Arc<dyn Backing>>;

    /// Opens a file that is there.
    fn open(&self, place: Place) -> io::Result<Arc<dyn Backing>>;

    /// Removes a file. One that is not there is removed already.
    fn remove(&self, place: Place) -> io::Result<()>;

    /// Removes all files of a volume.
    fn remove_all(&self, volume: u16) -> io::Result<()>;

    /// The numbers of all files of a volume, in order.
    fn numbers(&self, volume: u16) -> io::Result<Vec<u64>>;

    /// Makes everything durable, names and bytes.
    fn sync_all(&self) -> io::Result<()>;

    /// Makes it durable that these files are there, or that they are not.
    fn sync_names(&self, places: &[Place]) -> io::Result<()>;

    /// A sync of names has failed, in this process or one before it: whoever makes one durable writes all that it
    /// depends on anew.
    fn distrust_names(&self) {}

    /// Changes whenever what was written and not synced may be gone: with every start of the machine.
    fn life(&self) -> u64;

    /// Whether nothing of it may be changed.
    fn is_read_only(&self) -> bool {
        false
    }

    /// How many files of it this process can have open, with all else that it has open.
    fn open_max(&self) -> usize {
        4096
    }

    /// How many are open.
    fn open_count(&self) -> usize {
        0
    }

    /// Where it is, for people.
    fn describe(&self) -> String;
}

/// An open file of a home. Offsets are explicit, so it can be shared.
pub trait Backing: Send + Sync + Debug {
    /// What is known of it.
    fn stat(&self) -> io::Result<Stat>;

    /// Fills `buffer` from `offset` as far as the file goes; returns how far that was.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The bytes from `offset` on, at most `len` and not past the end.
    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.stat()?.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(left)];
        let read = self.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Writes all of `bytes` at `offset`. After an error any part may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts or extends to exactly `len` bytes; new bytes are zero.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Cuts it to nothing, as a file that is new.
    fn empty(&self) -> io::Result<()> {
        self.truncate(0)
    }

    /// Takes room for a range; the file grows to its end unless `keep_len`.
    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> io::Result<()>;

    /// Makes a range zero and gives its room back.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes a range zero and keeps its room; the file grows to its end unless `keep_len`.
    fn zero(&self, offset: u64, len: u64, keep_len: bool) -> io::Result<()>;

    /// The first data or hole at or behind `offset`; `None` when there is none before the end.
    fn seek(&self, offset: u64, wanted: Wanted) -> io::Result<Option<u64>>;

    /// Copies from another file of the same home, as the host does it best. Fewer bytes at the end of
    /// the source.
    fn copy_from(&self, from: &dyn Backing, at: u64, to: u64, len: u64) -> io::Result<u64>;

    /// Sets when its bytes last changed.
    fn set_changed(&self, at: (i64, u32)) -> io::Result<()>;

    /// Makes its bytes and times durable.
    fn sync(&self) -> io::Result<()>;

    /// The same, but for times where the host can leave them out.
    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    /// Makes its name durable, unless that was done.
    fn sync_name(&self) -> io::Result<()>;

    /// Whether anybody else has it open or mapped, in any process.
    fn is_in_use(&self) -> io::Result<bool>;

    /// The descriptor, which the kernel can be given. `None` where there is no kernel.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}
