//! What a check remembers of every inode: 24 bytes each, and 16 more for one whose bytes were moved to
//! a blob of another number.

use crate::types::{FileType, Ino};

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
    /// A directory whose name was met.
    pub(in super::super) const NAMED: u16 = 1 << 4;
    /// A directory on the way that is being followed.
    pub(in super::super) const WALKING: u16 = 1 << 5;
    /// A directory whose way up was followed.
    pub(in super::super) const WALKED: u16 = 1 << 6;
    /// Its bytes are in a blob of another number.
    pub(in super::super) const MOVED: u16 = 1 << 7;
    /// Some of its chunks could not be counted.
    pub(in super::super) const UNSURE: u16 = 1 << 8;
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

/// All inodes, by number.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    /// Blob and inode, by blob, where they differ.
    pub(super) moved: Vec<(u64, Ino)>,
}

impl Table {
    pub(super) fn find(&self, ino: Ino) -> Option<usize> {
        self.rows.binary_search_by_key(&ino, |row| row.ino).ok()
    }

    pub(super) fn row(&self, at: usize) -> Option<&Row> {
        self.rows.get(at)
    }

    /// Changes a row.
    pub(super) fn change(&mut self, at: usize, change: impl FnOnce(&mut Row)) {
        if let Some(row) = self.rows.get_mut(at) {
            change(row);
        }
    }

    /// The file whose bytes are in a blob; a damaged inode of the same number may be it.
    pub(super) fn owner(&self, blob: u64) -> Option<usize> {
        if let Some(at) = self.find(blob)
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
        assert_eq!(size_of::<Row>(), 24);
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
        table.rows = vec![Row::new(3, FileType::File), moved, Row::new(7, FileType::Directory)];
        table.moved = vec![(9, 5)];
        assert_eq!(table.owner(3), Some(0));
        assert_eq!(table.owner(9), Some(1));
        assert_eq!(table.owner(5), None);
        assert_eq!(table.owner(7), None);
    }
}
