//! What actions are made of: names, callers, inodes, sizes and offsets, few of each.

use super::tree::{Model, OpenFile};
use crate::types::{Caller, FILE_BYTES_MAX, Handle, Ino, ROOT, XATTR_BYTES_MAX};
use base::Random;
use bytes::Bytes;

/// A number that no inode has.
const NOBODY: Ino = (1 << 62) + 12_345;

/// The sizes at which the core changes its ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The largest file that is kept in its inode.
    pub inline_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// The longest value of an extended attribute that the engine takes.
    pub xattr_bytes: usize,
    /// The largest file that there is room for.
    pub file_bytes: u64,
}

impl Sizes {
    /// Whether files are in a home, where the kernel may use them by itself.
    pub(super) fn is_local(&self) -> bool {
        self.file_bytes < FILE_BYTES_MAX
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            inline_bytes: 16 << 10,
            block_bytes: 64 << 10,
            chunk_bytes: 1 << 20,
            xattr_bytes: XATTR_BYTES_MAX,
            file_bytes: FILE_BYTES_MAX,
        }
    }
}

/// What kind of actions come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// All kinds.
    Everything,
    /// Nearly only bytes, many at once and over each other, in two or three files: what a file went
    /// through before matters more than how it is called.
    Bytes,
}

impl Mix {
    /// Any of them.
    pub fn draw(random: &dyn Random) -> Self {
        if random.one_in(3) { Self::Bytes } else { Self::Everything }
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callers {
    /// Anybody, and the core has to check what they may.
    Checked,
    /// Mostly those whom a kernel has checked, as a mount tells of them.
    Mounted,
}

/// What an action is drawn from.
pub(super) struct Draw<'a> {
    pub(super) random: &'a dyn Random,
    pub(super) model: &'a Model,
    pub(super) sizes: &'a Sizes,
    pub(super) mix: Mix,
    pub(super) callers: Callers,
}

impl Draw<'_> {
    /// A directory, a name that may or may not be in it, and somebody who asks.
    pub(super) fn place(&self) -> (Ino, Bytes, Caller) {
        let parent = if self.random.one_in(40) { self.any_ino() } else { self.dir() };
        (parent, self.name(), self.caller())
    }

    /// A name that is there, mostly.
    pub(super) fn old_place(&self) -> (Ino, Bytes, Caller) {
        let names = self.all_names();
        if names.is_empty() || self.random.one_in(8) {
            return self.place();
        }
        let (parent, name) = self.pick(&names);
        (parent, name, self.caller())
    }

    pub(super) fn all_names(&self) -> Vec<(Ino, Bytes)> {
        let mut all = Vec::new();
        for &ino in self.model.inodes.keys() {
            let Ok(names) = self.model.names(ino) else { continue };
            all.extend(names.keys().map(|name| (ino, name.clone())));
        }
        all
    }

    pub(super) fn name(&self) -> Bytes {
        const USUAL: [&[u8]; 5] = [b"a", b"b", b"c", b"ab", b"d"];
        const ODD: [&[u8]; 10] = [
            b"\x01",
            b"a\x01",
            b"\xfe",
            b"\xff",
            b"a\xff",
            b"\xff\xff",
            b" ",
            b"a ",
            b"...",
            b"a\n",
        ];
        let odd = self.random.below(60);
        Bytes::from_static(match odd {
            0 => b".",
            1 => b"..",
            2 if self.random.one_in(2) => b"",
            3 if self.random.one_in(2) => b"a/b",
            4 if self.random.one_in(2) => b"a\0b",
            5 => &[b'l'; 255],
            6 => &[b'l'; 256],
            7 => &[0xff; 255],
            8..=20 => ODD[self.random.below(ODD.len() as u64) as usize],
            _ => USUAL[self.random.below(USUAL.len() as u64) as usize],
        })
    }

    pub(super) fn caller(&self) -> Caller {
        let mut caller = match self.random.below(8) {
            0..=3 => Caller::root(),
            4 | 5 => Caller::user(1000, 1000),
            _ => Caller { groups: vec![1000], ..Caller::user(1001, 1001) },
        };
        caller.umask = self.pick(&[0, 0, 0, 0o022, 0o077]);
        if self.callers == Callers::Mounted && !self.random.one_in(8) {
            // A request does not say in which other groups its caller is.
            caller.groups.clear();
            caller.checked_here = false;
        }
        caller
    }

    pub(super) fn mode(&self) -> u32 {
        let mode = self.pick(&[
            0o644, 0o666, 0o777, 0o600, 0o755, 0, 0o4755, 0o2755, 0o6777, 0o2644, 0o1777, 0o7777,
            0o2775, 0o070, 0o007,
        ]);
        // Who may write by the kernel alone loses these bits at once, whoever it is.
        if self.sizes.is_local() { mode & !0o6000 } else { mode }
    }

    /// A directory: any, or one that lies deepest.
    pub(super) fn dir(&self) -> Ino {
        let dirs: Vec<Ino> =
            self.model.inodes.keys().copied().filter(|&it| self.model.is_directory(it)).collect();
        match self.random.below(4) {
            0 => ROOT,
            1 => dirs.last().copied().unwrap_or(ROOT),
            _ => self.pick(&dirs),
        }
    }

    pub(super) fn file(&self) -> Ino {
        let is_file = |ino: &Ino| self.model.sparse(*ino).is_ok();
        let files: Vec<Ino> = self.model.inodes.keys().copied().filter(is_file).collect();
        if files.is_empty() { ROOT } else { self.pick(&files) }
    }

    pub(super) fn any_ino(&self) -> Ino {
        if self.random.one_in(60) {
            return NOBODY;
        }
        let all: Vec<Ino> = self.model.inodes.keys().copied().collect();
        self.pick(&all)
    }

    pub(super) fn handle(&self, fits: impl Fn(&OpenFile) -> bool) -> Option<Handle> {
        let found = self.model.files.iter().filter(|(_, file)| fits(file));
        let found: Vec<Handle> = found.map(|(&handle, _)| Handle(handle)).collect();
        if found.is_empty() { None } else { Some(self.pick(&found)) }
    }

    /// A size on one side or the other of where something changes.
    pub(super) fn edge(&self) -> u64 {
        let Sizes { inline_bytes, block_bytes, chunk_bytes, .. } = *self.sizes;
        let few = 1 + self.random.below(3);
        let edge = match self.random.below(16) {
            0 => 0,
            1 | 2 => self.random.below(600),
            3 => 512,
            4 | 5 => 4096 * few,
            6..=8 => inline_bytes,
            9..=11 => block_bytes * few,
            12 => chunk_bytes,
            13 => chunk_bytes * few,
            14 => self.random.below(block_bytes * 3),
            _ => self.random.below(inline_bytes * 2),
        };
        match self.random.below(4) {
            0 => edge + self.random.below(3),
            1 => edge.saturating_sub(self.random.below(3)),
            _ => edge,
        }
    }

    pub(super) fn len(&self) -> usize {
        let len = self.edge();
        // What is long takes long, and teaches little more.
        let seldom = if self.mix == Mix::Bytes { 1 } else { 4 };
        match len > 2 * self.sizes.block_bytes && !self.random.one_in(seldom) {
            true => 1 + self.random.below(5000) as usize,
            false => len as usize,
        }
    }

    pub(super) fn size_for(&self, ino: Ino) -> u64 {
        let size = self.model.getattr(ino).map_or(0, |attr| attr.size);
        match self.random.below(20) {
            0 => self.sizes.file_bytes - self.random.below(2),
            1 => FILE_BYTES_MAX + 1,
            2 => size,
            3 | 4 => size.saturating_sub(1 + self.random.below(5000)),
            5..=7 => self.random.below(size.min(FILE_BYTES_MAX) + 1),
            _ => self.edge(),
        }
    }

    pub(super) fn offset(&self, handle: Handle) -> u64 {
        let file = self.model.open_file(handle.0);
        let size = file.and_then(|file| self.model.getattr(file.ino)).map_or(0, |attr| attr.size);
        match self.random.below(24) {
            0 => self.sizes.file_bytes - self.random.below(20_000),
            1..=4 => size,
            5 => size.saturating_sub(1 + self.random.below(5000)),
            6 => size.min(1 << 40) + self.random.below(5000),
            7..=9 => self.random.below(size.min(FILE_BYTES_MAX) + 1),
            10..=13 => 0,
            _ => self.edge(),
        }
    }

    pub(super) fn maybe<T: Clone>(&self, of: &[T]) -> Option<T> {
        if self.random.one_in(3) { None } else { Some(self.pick(of)) }
    }

    pub(super) fn pick<T: Clone>(&self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize].clone()
    }
}
