//! The disk, injected: files in one flat directory, with the durability of POSIX and no more.
//!
//! What a caller may rely on after power is lost: bytes that were written before a [`File::sync`]
//! that returned, and names that were made before a [`Disk::sync_dir`] that returned. Anything else
//! may be there, be gone, or be there in part. After the death of the process alone, everything
//! that returned is there.

mod fault;
mod overlaid;
mod sim;
mod system;
mod window;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

pub use fault::{Cut, Fault, FaultKind, SLOW};
pub use overlaid::Overlaid;
pub use sim::SimDisk;
pub use system::SystemDisk;
pub use window::memory_window;

/// One directory of files. Names are plain file names.
pub trait Disk: Send + Sync + Debug {
    /// All file names, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes a new, empty file; an error when the name exists.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name, replacing what had it, atomically.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name. Open handles stay good.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all changes of names durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// Takes the lock of this directory for this process until the guard is dropped. When somebody
    /// else holds it, the error is [`io::ErrorKind::WouldBlock`] and names the owner.
    fn lock(&self, name: &str) -> io::Result<Lock>;

    /// Takes the lock together with others who only read, and writes nothing. `None` when there is
    /// no file of this name: nobody can have it.
    fn lock_shared(&self, name: &str) -> io::Result<Option<Lock>>;

    /// Where this is, for people.
    fn describe(&self) -> String;
}

/// An open file. Offsets are explicit, so a handle can be shared.
pub trait File: Send + Sync + Debug {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether it holds no byte.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buffer` from `offset`; [`io::ErrorKind::UnexpectedEof`] when the file is shorter.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`. After an error any part may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes room on the disk up to `len` bytes, so that writes below it do not run out of space.
    /// The length becomes at least `len`; new bytes are zero.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Cuts or extends to exactly `len` bytes; new bytes are zero.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Makes all that was written durable.
    fn sync(&self) -> io::Result<()>;

    /// These bytes will be written over soon, and not in whole pages: who has them on a disk alone reads them into
    /// memory meanwhile. Waits for nothing.
    fn will_write(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Bytes of it in memory, from a multiple of 4096 on, where room was taken: writing there needs no call. What
    /// is written is as good as by [`write_at`](Self::write_at). `None` where it cannot be had.
    fn window(&self, offset: u64, len: usize) -> Option<Box<dyn Window>> {
        let _ = (offset, len);
        None
    }
}

/// A part of a file in memory. The file must not be cut there while it lasts.
pub trait Window: Send + Sync + Debug {
    /// How many bytes it has.
    fn len(&self) -> usize;

    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes at an offset in it. False when they do not fit: nothing was written.
    fn write(&mut self, at: usize, bytes: &[u8]) -> bool;
}

/// Holds a directory's lock until it is dropped.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held for its drop")] Box<dyn LockGuard>);

impl Lock {
    fn new(guard: impl LockGuard + 'static) -> Self {
        Self(Box::new(guard))
    }
}

/// What is dropped to unlock.
trait LockGuard: Send + Sync + Debug {}
