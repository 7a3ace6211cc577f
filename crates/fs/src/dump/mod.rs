//! A whole volume as one stream: [`dump`] writes it, [`load`] makes a new volume of it, on whichever
//! engine. docs/format.md has the stream's form.
//!
//! The stream is logical: inodes, attributes, names and bytes in one order, and nothing that depends on
//! the engine or on the size of blocks. It holds no sessions, leases, locks, op logs and jobs, and no
//! inode without a name.
//!
//! A dump is the volume at one instant. Where the engine keeps a snapshot for as long as it takes, that
//! is the beginning. Where transactions have a bound, it is read in many snapshots, and at the end all
//! inodes are looked at again: if one has changed meanwhile, the dump ends with [`Kind::Busy`] and
//! without its end, so that nothing can load it.
//!
//! * `stream`: frames and their checksums. `record`: what is in them.
//! * `save`, `file`, `reading`: from the volume. `restore`, `batch`, `unfinished`: to a new one.
//! * `structure`: whether names and inodes fit together, in bounded memory.

mod batch;
mod file;
mod reading;
mod record;
mod restore;
mod save;
mod stream;
mod structure;
mod unfinished;

pub use restore::{load, load_with};
pub use save::dump;
pub use unfinished::loading_name;

#[cfg(feature = "fuzzing")]
pub(crate) use stream::Outgoing;

#[allow(unused_imports, reason = "for the documentation")]
use crate::Kind;
use std::io;

/// Takes the bytes of a dump, in order.
pub trait Sink {
    /// Takes all of `bytes`.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl<W: io::Write + ?Sized> Sink for W {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }
}

/// Gives the bytes of a dump, in order.
pub trait Source {
    /// Fills the beginning of `buf`, and returns how many bytes that were; 0 at the end.
    fn get(&mut self, buf: &mut [u8]) -> io::Result<usize>;
}

impl<R: io::Read + ?Sized> Source for R {
    fn get(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read(buf)
    }
}

/// What a dump holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DumpCounts {
    /// Inodes of all types.
    pub inodes: u64,
    /// Names.
    pub entries: u64,
    /// Extended attributes.
    pub xattrs: u64,
    /// Bytes of files, without pages of zeros.
    pub data_bytes: u64,
    /// Bytes that are zeros and take space all the same.
    pub reserved_bytes: u64,
    /// Bytes of the stream itself.
    pub stream_bytes: u64,
}

/// What of the new volume is not taken from the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// Bytes of a block; what the engine's values hold when `None`, 64 KiB at most.
    pub block_bytes: Option<u32>,
    /// The largest file that is kept inline; a quarter of a block when `None`.
    pub inline_bytes_max: Option<u32>,
}

/// Bytes are left out of the stream in units of this many zeros: the smallest block, so that no hole is
/// lost, whatever the size of blocks.
const PAGE_BYTES: u64 = 1024;
/// No frame of data crosses a multiple of this, the smallest chunk.
const WINDOW_BYTES: u64 = 1 << 20;
