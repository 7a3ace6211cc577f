//! readdir and readdirplus: the names of a directory, in byte order, `.` and `..` first.
//!
//! A listing of up to [`LISTING_ENTRIES`] names is one snapshot, taken when the listing begins. A
//! larger directory is read piece by piece, each behind the last name of the one before: what was
//! there throughout is seen exactly once.

use crate::error::Result;
use crate::schema::{Entry, Inode};
use crate::session::{OpKind, OpenDir, Session};
use crate::tx::{Sides, Tx, number};
use crate::types::{Attr, DirEntry, DirHandle, FileType, Ino};
use bytes::Bytes;
use kv::{KeyRange, Query, Read};

pub(super) const KIND: OpKind = OpKind::ReadOnly;

/// Names that are listed as of one instant.
pub const LISTING_ENTRIES: usize = 65_536;
/// The most bytes that they take in memory.
const LISTING_BYTES: usize = 8 << 20;
/// Entries of a page of the store.
const PAGE_ENTRIES: usize = 4096;

/// The part of a directory's names that an open directory has in memory.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The number of the first entry in `entries`.
    first: u64,
    entries: Vec<DirEntry>,
    /// Nothing is behind `entries`.
    complete: bool,
    /// Where each piece began: its first number, and the name before it.
    pieces: Vec<(u64, Bytes)>,
}

impl Listing {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The entries from number `from` on, when they are here.
    fn get(&self, from: u64, limit: usize) -> Option<Vec<DirEntry>> {
        if from < self.first || (from >= self.end() && !self.complete) {
            return None;
        }
        let at = (from - self.first) as usize;
        Some(self.entries.iter().skip(at).take(limit).cloned().collect())
    }

    /// Where to read to get at number `from`: the name before, and the number of what follows.
    fn piece_for(&self, from: u64) -> (u64, Bytes) {
        if from >= self.end()
            && let Some(last) = self.entries.last()
        {
            return (self.end(), last.name.clone());
        }
        let piece = self.pieces.iter().rev().find(|(first, _)| *first <= from);
        piece.cloned().unwrap_or_default()
    }
}

impl Session {
    /// Up to `limit` entries from `cookie` on: 0 begins anew, and each entry has the cookie of what
    /// follows it. No entry means the end.
    pub async fn readdir(
        &self,
        handle: DirHandle,
        cookie: u64,
        limit: usize,
    ) -> Result<Vec<DirEntry>> {
        let dir = self.0.handles.dir(handle)?;
        if cookie == 0 {
            *dir.listing.lock() = None;
        }
        loop {
            let piece = {
                let listing = dir.listing.lock();
                match listing.as_ref() {
                    Some(listing) => match listing.get(cookie, limit.max(1)) {
                        Some(entries) => return Ok(entries),
                        None => listing.piece_for(cookie),
                    },
                    None => (0, Bytes::new()),
                }
            };
            let (entries, complete) = self.load(&dir, piece.0, &piece.1).await?;
            let mut listing = dir.listing.lock();
            let mut pieces = listing.take().map(|old| old.pieces).unwrap_or_default();
            if pieces.last().is_none_or(|(first, _)| *first < piece.0) {
                pieces.push(piece.clone());
            }
            *listing = Some(Listing { first: piece.0, entries, complete, pieces });
        }
    }

    /// The same, with what is known of each entry's inode. Entries that were removed meanwhile are
    /// left out.
    pub async fn readdirplus(
        &self,
        handle: DirHandle,
        cookie: u64,
        limit: usize,
    ) -> Result<Vec<(DirEntry, Attr)>> {
        let mut from = cookie;
        loop {
            let entries = self.readdir(handle, from, limit).await?;
            let Some(last) = entries.last() else {
                return Ok(Vec::new());
            };
            from = last.cookie;
            let found = self.attrs(&entries).await?;
            let both: Vec<(DirEntry, Attr)> = entries
                .into_iter()
                .zip(found)
                .filter_map(|(entry, attr)| Some((entry, attr?)))
                .collect();
            if !both.is_empty() {
                return Ok(both);
            }
        }
    }

    /// Reads entries behind a name, the first of which has number `first`.
    async fn load(
        &self,
        dir: &OpenDir,
        first: u64,
        behind: &[u8],
    ) -> Result<(Vec<DirEntry>, bool)> {
        let ino = dir.ino;
        self.view(|mut tx| async move {
            let mut entries = Vec::new();
            let mut cookie = first;
            let inode = tx.inode_seen(ino).await?;
            if first == 0 {
                for (name, ino) in [(&b"."[..], ino), (b"..", inode.parent)] {
                    cookie += 1;
                    let name = Bytes::from_static(name);
                    entries.push(DirEntry { name, ino, file_type: FileType::Directory, cookie });
                }
            }
            let mut range = tx.keys.entries(ino);
            if !behind.is_empty() {
                range.start = tx.keys.entry(ino, behind).successor();
            }
            let mut next = Some(Query::new(range).limit(PAGE_ENTRIES));
            let mut bytes = 0;
            while let Some(query) = next {
                let page = tx.range(&query, Read::Snapshot).await?;
                entries.reserve(page.len());
                bytes += page.bytes();
                // One allocation for the names of a page.
                let mut names = Vec::with_capacity(page.bytes());
                let mut found = Vec::with_capacity(page.len());
                for (key, value) in page.iter() {
                    let start = names.len();
                    let entry = Entry::decode(key, value);
                    let (Some(entry), true) = (entry, tx.keys.entry_name(key, &mut names)) else {
                        return Err(tx.damaged(key, "is damaged"));
                    };
                    found.push((entry, start..names.len()));
                }
                let names = Bytes::from(names);
                for (Entry { ino, file_type }, range) in found {
                    cookie += 1;
                    entries.push(DirEntry { name: names.slice(range), ino, file_type, cookie });
                }
                next = if page.more { query.behind(&page) } else { None };
                if next.is_some() && (entries.len() >= LISTING_ENTRIES || bytes >= LISTING_BYTES) {
                    return Ok((tx, (entries, false)));
                }
            }
            let changed = tx.sides(ino, &inode).await?.changed;
            tx.session.note_read(ino, &inode, changed);
            Ok((tx, (entries, true)))
        })
        .await
    }

    /// What is known of the inodes of entries; `None` for those that are gone.
    async fn attrs(&self, entries: &[DirEntry]) -> Result<Vec<Option<Attr>>> {
        self.view(|mut tx| async move {
            let mut inodes: Vec<Ino> = entries.iter().map(|entry| entry.ino).collect();
            inodes.sort_unstable();
            inodes.dedup();
            // In the order of their numbers.
            let mut found: Vec<Attr> = Vec::with_capacity(inodes.len());
            // Inodes that were made together are neighbours: read them in one go.
            for run in runs(&inodes) {
                match run {
                    [one] => {
                        if let Some(inode) = tx.find_inode(*one, Read::Snapshot).await? {
                            let attr = tx.attr(*one, &inode).await?;
                            found.push(attr);
                        }
                    }
                    [first, .., last] => scan(&mut tx, *first, *last, &mut found).await?,
                    [] => {}
                }
            }
            let attr_of = |entry: &DirEntry| {
                let at = found.binary_search_by_key(&entry.ino, |attr| attr.ino).ok()?;
                found.get(at).copied()
            };
            let attrs = entries.iter().map(attr_of).collect();
            Ok((tx, attrs))
        })
        .await
    }
}

/// Cuts sorted numbers into runs without wide gaps.
fn runs(inodes: &[Ino]) -> impl Iterator<Item = &[Ino]> {
    const GAP: u64 = 8;
    inodes.chunk_by(|a, b| b - a <= GAP)
}

/// What is known of the inodes between two numbers, in their order.
pub(crate) async fn scan(tx: &mut Tx, first: Ino, last: Ino, found: &mut Vec<Attr>) -> Result<()> {
    let range: KeyRange = tx.keys.inodes(first, last);
    let mut next = Some(Query::new(range));
    let mut at: Option<(Ino, Inode, Sides)> = None;
    while let Some(query) = next {
        let page = tx.range(&query, Read::Snapshot).await?;
        for (key, value) in page.iter() {
            match tx.keys.inode_key(key) {
                Some((ino, None)) => {
                    if let Some((ino, inode, sides)) = at.take() {
                        found.push(tx.attr_with(ino, &inode, sides)?);
                    }
                    let Some(inode) = Inode::decode(key, ino, value) else {
                        return Err(tx.damaged(key, "is damaged"));
                    };
                    at = Some((ino, inode, Sides::default()));
                }
                Some((ino, Some(side))) => {
                    if let Some((of, inode, sides)) = &mut at
                        && *of == ino
                        && inode.has_sides()
                    {
                        sides.set(side, number(value));
                    }
                }
                None => {}
            }
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    if let Some((ino, inode, sides)) = at {
        found.push(tx.attr_with(ino, &inode, sides)?);
    }
    Ok(())
}
