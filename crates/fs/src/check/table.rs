//! What a check remembers of every inode: 24 bytes each, and 16 more for one whose bytes were moved to
//! a blob of another number. Several readers count in it at the same time.

use crate::types::{FileType, Ino};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What a row says beside its numbers. The four highest bits are the type bits of the mode.
pub(super) mod flag {
    /// It has bytes in chunks.
    pub(in super::super) const MAPPED: u16 = 1 << 0;
    /// It has inline bytes, which were not met yet.
    pub(in super::super) const INLINE: u16 = 1 << 1;
    /// It says that it has no names.
    pub(in super::super) const NAMELESS: u16 = 1 << 2;
    /// Nothing is known of it but its number.
    pub(in super::super) const DAMAGED: u16 = 1 << 3;
    /// A directory whose name was met; of what is damaged, one that an entry says is a directory.
    pub(in super::super) const NAMED: u16 = 1 << 4;
    /// A directory on the way that is being followed.
    pub(in super::super) const WALKING: u16 = 1 << 5;
    /// A directory whose way up was followed.
    pub(in super::super) const WALKED: u16 = 1 << 6;
    /// Its bytes are in a blob of another number.
    pub(in super::super) const MOVED: u16 = 1 << 7;
    /// Some of its chunks could not be counted.
    pub(in super::super) const UNSURE: u16 = 1 << 8;
    /// It is noted as garbage.
    pub(in super::super) const GARBAGE: u16 = 1 << 9;
    /// Entries are in it, although it is damaged or says that it was removed.
    pub(in super::super) const HOLDS: u16 = 1 << 10;
    /// A directory with several names, or with one that is not where it says.
    pub(in super::super) const TROUBLED: u16 = 1 << 11;
    /// A file whose bytes are in one of the local home. Only directories are followed.
    pub(in super::super) const LOCAL: u16 = WALKING;
    /// One that is lent a file of the local home.
    pub(in super::super) const LENT: u16 = WALKED;
}

/// One inode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) ino: Ino,
    /// Of a directory its parent; of an inline file the length of its bytes; of a mapped file the bytes
    /// that it says it takes, less those that were counted.
    pub(super) value: u64,
    /// Of a directory the directories that it says it has, of others the names, less those that were
    /// met. Below zero it wraps.
    pub(super) left: u32,
    pub(super) flags: u16,
}

impl Row {
    pub(super) fn new(ino: Ino, file_type: FileType) -> Self {
        // Four bits, shifted to the top.
        Self { ino, value: 0, left: 0, flags: (file_type.mode() & 0xf000) as u16 }
    }

    pub(super) fn damaged(ino: Ino) -> Self {
        Self { ino, value: 0, left: 0, flags: flag::DAMAGED }
    }

    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn file_type(&self) -> Option<FileType> {
        FileType::of_mode(u32::from(self.flags & 0xf000))
    }

    pub(super) fn is_dir(&self) -> bool {
        self.file_type() == Some(FileType::Directory)
    }
}

/// A row that several may change.
#[derive(Debug)]
pub(super) struct Slot {
    ino: Ino,
    value: AtomicU64,
    left: AtomicU32,
    flags: AtomicU16,
}

impl From<Row> for Slot {
    fn from(row: Row) -> Self {
        Self {
            ino: row.ino,
            value: AtomicU64::new(row.value),
            left: AtomicU32::new(row.left),
            flags: AtomicU16::new(row.flags),
        }
    }
}

/// All inodes, by number.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Slot>,
    /// Blob and inode, by blob, where they differ.
    pub(super) moved: Vec<(u64, Ino)>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn find(&self, ino: Ino) -> Option<usize> {
        self.rows.binary_search_by_key(&ino, |row| row.ino).ok()
    }

    /// The same; quicker when it is at `hint` or just behind.
    pub(super) fn find_near(&self, ino: Ino, hint: usize) -> Option<usize> {
        let is = |at: usize| self.rows.get(at).is_some_and(|row| row.ino == ino);
        let near = [hint.wrapping_add(1), hint].into_iter().find(|at| is(*at));
        near.or_else(|| self.find(ino))
    }

    /// A row as it is now.
    pub(super) fn row(&self, at: usize) -> Option<Row> {
        let slot = self.rows.get(at)?;
        Some(Row {
            ino: slot.ino,
            value: slot.value.load(Relaxed),
            left: slot.left.load(Relaxed),
            flags: slot.flags.load(Relaxed),
        })
    }

    /// Sets flags; tells which were set.
    pub(super) fn set(&self, at: usize, flags: u16) -> u16 {
        self.rows.get(at).map_or(0, |row| row.flags.fetch_or(flags, Relaxed))
    }

    /// Takes flags away.
    pub(super) fn clear(&self, at: usize, flags: u16) {
        if let Some(row) = self.rows.get(at) {
            row.flags.fetch_and(!flags, Relaxed);
        }
    }

    /// Counts one down.
    pub(super) fn count(&self, at: usize) {
        if let Some(row) = self.rows.get(at) {
            row.left.fetch_sub(1, Relaxed);
        }
    }

    /// Takes bytes off what a mapped file says that it takes.
    pub(super) fn take(&self, at: usize, bytes: u64) {
        if let Some(row) = self.rows.get(at) {
            row.value.fetch_sub(bytes, Relaxed);
        }
    }

    pub(super) fn set_value(&self, at: usize, value: u64) {
        if let Some(row) = self.rows.get(at) {
            row.value.store(value, Relaxed);
        }
    }

    /// The file whose bytes are in a blob; a damaged inode of the same number may be it.
    pub(super) fn owner(&self, blob: u64) -> Option<usize> {
        self.owner_near(blob, 0)
    }

    /// The same; quicker when it is at `hint` or just behind.
    pub(super) fn owner_near(&self, blob: u64, hint: usize) -> Option<usize> {
        if let Some(at) = self.find_near(blob, hint)
            && let Some(row) = self.row(at)
            && !row.has(flag::MOVED)
            && (row.has(flag::DAMAGED) || row.file_type() == Some(FileType::File))
        {
            return Some(at);
        }
        let at = self.moved.binary_search_by_key(&blob, |(blob, _)| *blob).ok()?;
        self.find(self.moved.get(at)?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_small_and_keeps_its_type() {
        assert_eq!(size_of::<Slot>(), 24);
        for file_type in [FileType::File, FileType::Directory, FileType::Socket, FileType::Fifo] {
            assert_eq!(Row::new(1, file_type).file_type(), Some(file_type));
        }
        assert_eq!(Row::damaged(1).file_type(), None);
    }

    #[test]
    fn bytes_are_found_by_their_blob() {
        let mut table = Table::default();
        let mut moved = Row::new(5, FileType::File);
        moved.flags |= flag::MOVED;
        let rows = [Row::new(3, FileType::File), moved, Row::new(7, FileType::Directory)];
        table.rows = rows.into_iter().map(Slot::from).collect();
        table.moved = vec![(9, 5)];
        for hint in 0..5 {
            assert_eq!(table.owner_near(3, hint), Some(0));
            assert_eq!(table.owner_near(9, hint), Some(1));
            assert_eq!(table.owner_near(5, hint), None);
            assert_eq!(table.owner_near(7, hint), None);
        }
    }
}
