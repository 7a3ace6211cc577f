//! Whether names and inodes fit together, in a few numbers whatever the size of the volume.
//!
//! Every inode adds to one sum as often as it says that it has names, every name to another; if the two
//! are the same, so are the names, unless a hash with a random seed collides. The same for directories
//! and the directories that they are in.

use crate::types::{FileType, Ino, ROOT};
use base::checksum::hash64;

/// Sums over a whole volume.
#[derive(Debug, Clone, Copy)]
pub(super) struct Structure {
    seed: u64,
    names: u64,
    parents: u64,
    /// Some directory is in one with a higher number: only then can there be a circle.
    pub(super) upward: bool,
}

impl Structure {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, names: 0, parents: 0, upward: false }
    }

    fn hash(&self, tag: u8, a: u64, b: u64) -> u64 {
        let mut bytes = [tag; 17];
        let (numbers, _) = bytes.as_chunks_mut::<8>();
        for (into, number) in numbers.iter_mut().zip([a, b]) {
            *into = number.to_le_bytes();
        }
        hash64(self.seed, &bytes)
    }

    pub(super) fn inode(&mut self, ino: Ino, file_type: FileType, nlink: u32, parent: Ino) {
        if ino == ROOT {
            return;
        }
        let name = self.hash(1, ino, file_type.mode().into());
        self.names = self.names.wrapping_add(name.wrapping_mul(nlink.into()));
        if file_type == FileType::Directory {
            self.parents = self.parents.wrapping_add(self.hash(2, ino, parent));
            self.upward |= parent > ino;
        }
    }

    pub(super) fn entry(&mut self, dir: Ino, ino: Ino, file_type: FileType) {
        self.names = self.names.wrapping_sub(self.hash(1, ino, file_type.mode().into()));
        if file_type == FileType::Directory {
            self.parents = self.parents.wrapping_sub(self.hash(2, ino, dir));
        }
    }

    /// Whether every name has its inode, and every inode its names.
    pub(super) fn fits(&self) -> bool {
        self.names == 0 && self.parents == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_more_or_less_does_not_fit() {
        let file = FileType::File;
        let mut whole = Structure::new(7);
        whole.inode(ROOT, FileType::Directory, 1, ROOT);
        whole.inode(300, FileType::Directory, 1, ROOT);
        whole.inode(301, file, 2, 0);
        whole.entry(ROOT, 300, FileType::Directory);
        whole.entry(ROOT, 301, file);
        let mut wrong = whole;
        whole.entry(300, 301, file);
        assert!(whole.fits() && !whole.upward && !wrong.fits());
        // Another inode, and another type.
        wrong.entry(300, 302, file);
        assert!(!wrong.fits());
        let mut other = whole;
        other.entry(ROOT, 301, file);
        other.inode(301, FileType::Fifo, 1, 0);
        assert!(!other.fits());
        // In another directory than it says.
        let mut moved = Structure::new(7);
        moved.inode(300, FileType::Directory, 1, 301);
        moved.entry(ROOT, 300, FileType::Directory);
        assert!(!moved.fits() && moved.upward);
    }
}
