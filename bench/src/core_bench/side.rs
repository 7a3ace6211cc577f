//! What both sides are: something that does operations on a store of its own.

use super::action::Action;
use super::work::Who;
use crate::error::{Error, Result};
use base::{Random, SeededRandom};
use std::sync::atomic::{AtomicU64, Ordering};

/// Inline files that are written and read.
pub(crate) const INLINE_FILES: u64 = 1000;

/// The size of the mapped file.
pub(crate) const MAPPED_BYTES: u64 = 64 << 20;

/// One side.
pub(crate) trait Side: Sync {
    fn run(&self, who: Who, action: &Action) -> Result<()>;

    /// Makes the files with bytes in them.
    fn prepare_data(&self) -> Result<()>;

    /// What is done in the background, between measurements.
    fn rest(&self) -> Result<()>;
}

/// How much there will be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Files that are loaded.
    pub(crate) files: u64,
    /// Directories in all.
    pub(crate) directories: u64,
}

/// Which inodes the directories and the loaded files have.
#[derive(Debug)]
pub(crate) struct Places {
    directories: Vec<AtomicU64>,
    files: Vec<AtomicU64>,
}

impl Places {
    pub(crate) fn new(extent: Extent) -> Self {
        let zeros = |count: u64| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { directories: zeros(extent.directories), files: zeros(extent.files) }
    }

    pub(crate) fn note_directory(&self, number: u64, inode: u64) -> Result<()> {
        let place = self.directories.get(number as usize);
        let place = place.ok_or_else(|| Error::new("more directories than were planned"))?;
        place.store(inode, Ordering::Relaxed);
        Ok(())
    }

    /// Files that were not loaded are only known by their names.
    pub(crate) fn note_file(&self, number: u64, inode: u64) {
        if let Some(place) = self.files.get(number as usize) {
            place.store(inode, Ordering::Relaxed);
        }
    }

    pub(crate) fn directory(&self, number: u64) -> u64 {
        self.directories[number as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn file(&self, number: u64) -> u64 {
        self.files[number as usize].load(Ordering::Relaxed)
    }
}

/// Bytes that do not compress, from which both sides write.
#[derive(Debug)]
pub(crate) struct Noise(Vec<u8>);

impl Noise {
    /// What is written begins at some place below this.
    const STARTS: u64 = 1 << 20;
    /// And has at most so many bytes.
    const LEN_MAX: usize = 1 << 20;

    pub(crate) fn new() -> Self {
        let random = SeededRandom::new(2);
        let words = (Self::STARTS as usize + Self::LEN_MAX) / 8;
        // No byte is zero: the core does not store zeros at the end of a block.
        Self((0..words).flat_map(|_| random.next_u64().to_le_bytes()).map(|b| b | 1).collect())
    }

    /// Other bytes each time.
    pub(crate) fn bytes(&self, turn: u64, len: usize) -> &[u8] {
        let start = (turn.wrapping_mul(4099) % Self::STARTS) as usize;
        &self.0[start..start + len]
    }
}
