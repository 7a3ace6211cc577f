//! A piece of a directory's names, as it was read, and the cookies that stand for places in it.

use crate::schema::VolumeRecord;
use crate::types::{DirEntry, FileType, Ino};
use base::checksum::hash64;
use bytes::Bytes;
use kv::Version;
use std::ops::Range;

/// The cookie of the place behind `.`, and of the one behind `..`.
pub(crate) const BEHIND_DOT: u64 = 1;
pub(crate) const BEHIND_DOTS: u64 = 2;
/// The smallest cookie of a name.
const FIRST_COOKIE: u64 = 3;
/// Says that a hash is one of cookies.
const SEED: u64 = u64::from_le_bytes(*b"listings");

/// What gives names their cookies: the same for all handles, sessions and processes of a volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cookies(u64);

impl Cookies {
    pub(crate) fn of(volume: &VolumeRecord) -> Self {
        Self(hash64(SEED, &volume.uuid.to_le_bytes()))
    }

    #[cfg(test)]
    pub(super) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The cookie of the place behind a name. The kernel's positions are signed, so it has 63 bits.
    pub(crate) fn behind(self, name: &[u8]) -> u64 {
        (hash64(self.0, name) >> 1).max(FIRST_COOKIE)
    }
}

/// Names that follow each other in a directory, as of one version of the store. It never changes, so that
/// all who need it share it.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The version.
    pub(crate) at: Version,
    /// When it was read, as [`Places`](crate::session::Places) counts: before it was.
    pub(crate) begun: u64,
    /// Nothing is behind it.
    pub(crate) complete: bool,
    /// The names, one after the other, in parts that are not copied.
    parts: Vec<Bytes>,
    cookies: Vec<u64>,
    entries: Vec<Named>,
}

/// What a piece has of a name.
#[derive(Debug, Clone, Copy)]
struct Named {
    ino: Ino,
    part: u32,
    start: u32,
    len: u32,
    file_type: FileType,
}

impl Piece {
    pub(crate) fn new(at: Version, begun: u64) -> Self {
        let (parts, cookies, entries) = (Vec::new(), Vec::new(), Vec::new());
        Self { at, begun, complete: false, parts, cookies, entries }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds names, all of which are in `part`.
    pub(crate) fn add(
        &mut self,
        part: Bytes,
        names: impl ExactSizeIterator<Item = (Range<usize>, Ino, FileType, u64)>,
    ) {
        let number = self.parts.len() as u32;
        self.entries.reserve(names.len());
        self.cookies.reserve(names.len());
        for (range, ino, file_type, cookie) in names {
            let (start, len) = (range.start as u32, range.len() as u32);
            self.entries.push(Named { ino, part: number, start, len, file_type });
            self.cookies.push(cookie);
        }
        self.parts.push(part);
    }

    /// The entry at a place.
    pub(crate) fn entry(&self, at: usize) -> Option<DirEntry> {
        let DirEntry { ino, file_type, cookie, .. } = self.look(at)?;
        Some(DirEntry { name: self.name(at)?, ino, file_type, cookie })
    }

    /// The same, with the name where it is.
    pub(crate) fn look(&self, at: usize) -> Option<DirEntry<&[u8]>> {
        let (named, cookie) = (self.entries.get(at)?, *self.cookies.get(at)?);
        let &Named { ino, part, start, len, file_type } = named;
        let start = start as usize;
        let name = self.parts.get(part as usize)?.get(start..start + len as usize)?;
        Some(DirEntry { name, ino, file_type, cookie })
    }

    pub(crate) fn name(&self, at: usize) -> Option<Bytes> {
        let named = self.entries.get(at)?;
        let start = named.start as usize;
        let part = self.parts.get(named.part as usize)?;
        Some(part.slice(start..start + named.len as usize))
    }

    /// The place behind the entry that has this cookie, looked for in a part of the piece. Of several the
    /// first, so that nothing is left out.
    pub(crate) fn find(&self, cookie: u64, within: Range<usize>) -> Option<usize> {
        let cookies = self.cookies.get(within.clone())?;
        Some(within.start + cookies.iter().position(|it| *it == cookie)? + 1)
    }

    /// The name that a cookie stands for; none for that of a dot, which is in no order.
    pub(crate) fn name_of(&self, cookie: u64) -> Option<Bytes> {
        if cookie < FIRST_COOKIE {
            return None;
        }
        self.name(self.find(cookie, 0..self.len())? - 1)
    }

    /// Whether another piece has just these names.
    pub(crate) fn has_names_of(&self, other: &Self) -> bool {
        self.cookies == other.cookies
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let names: usize = self.parts.iter().map(Bytes::len).sum();
        size_of::<Self>() + names + self.entries.len() * (size_of::<Named>() + size_of::<u64>())
    }
}
