//! What can go wrong with a simulated disk, and when.

use std::io;
use std::time::Duration;

/// What one operation of a slow disk takes.
pub const SLOW: Duration = Duration::from_secs(7);

/// What becomes of changes that were not synced when power is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// All of them are there: also what the death of the process alone leaves.
    Kept,
    /// None of them are.
    Dropped,
    /// Each is there or not by itself, as a disk that reorders leaves them.
    Reordered,
    /// Each sector of each write is there or not by itself.
    Torn,
}

/// What goes wrong at one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Power is lost: this operation and every later one fail, until [`SimDisk::reboot`].
    ///
    /// [`SimDisk::reboot`]: super::SimDisk::reboot
    PowerCut,
    /// Operations that need room fail with "no space", from this one on, until
    /// [`SimDisk::clear_faults`], also where room was taken before. Half of a failing write is on
    /// the disk.
    ///
    /// [`SimDisk::clear_faults`]: super::SimDisk::clear_faults
    Full,
    /// From this operation on the disk has no more room than is in use now, until the faults are
    /// cleared: what a file has can be written, and what is given back can be taken again.
    Fills,
    /// This operation alone fails with an I/O error; of a write, half is on the disk.
    Error,
    /// Operations fail with an I/O error from this one on, until the faults are cleared.
    Errors,
    /// The first write at or behind this operation stops half way.
    ShortWrite,
    /// The first sync at or behind this operation fails, and what it should have written is
    /// forgotten.
    SyncError,
    /// Operations that change something fail as on a read-only filesystem, from this one on, until
    /// the faults are cleared.
    ReadOnly,
    /// From this operation on each takes [`SLOW`] of the clock that the disk was given.
    Slow,
    /// This read alone fails with an I/O error. Reads have numbers of their own.
    ReadError,
    /// Reads fail with an I/O error from this one on, until the faults are cleared.
    ReadErrors,
}

impl FaultKind {
    /// Whether [`Fault::at`] counts reads.
    pub(super) fn counts_reads(self) -> bool {
        matches!(self, FaultKind::ReadError | FaultKind::ReadErrors)
    }
}

/// A fault and where it strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The number of the changing operation, or of the read, counted from zero since the disk was
    /// made.
    pub at: u64,
    /// What happens there.
    pub kind: FaultKind,
}

/// What an operation is to a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A new name: it needs room in the directory.
    Create,
    Write,
    Allocate,
    Sync,
    /// It needs no room.
    Other,
}

pub(super) fn power_lost() -> io::Error {
    io::Error::other("simulated power cut")
}

pub(super) fn input_output() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())
}

pub(super) fn no_space() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error())
}

pub(super) fn read_only() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::ROFS.raw_os_error())
}

pub(super) fn stopped_short() -> io::Error {
    io::Error::new(io::ErrorKind::WriteZero, "simulated: the write stopped half way")
}
