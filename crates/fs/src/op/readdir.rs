//! readdir and readdirplus: the names of a directory, in byte order, `.` and `..` first.
//!
//! Names are read in pieces, each one snapshot, behind the last name of the one before: what was there
//! throughout is seen exactly once. A cookie stands for a name, for everybody and for ever ([`Cookies`]),
//! since the kernel may go on with one handle where it stopped with another: see docs/adr/0011.

mod piece;

pub(crate) use piece::{Cookies, Piece};

use crate::error::Result;
use crate::schema::{Entry, Inode};
use crate::session::{OpKind, OpenDir, Session};
use crate::tx::{Sides, Tx, number};
use crate::types::{Attr, DirEntry, DirHandle, FileType, Ino};
use bytes::Bytes;
use kv::{Key, KeyRange, Query, Read};
use piece::{BEHIND_DOT, BEHIND_DOTS};
use std::ops::Range;
use std::sync::Arc;

pub(super) const KIND: OpKind = OpKind::ReadOnly;

/// The most names that are listed as of one instant.
pub const LISTING_ENTRIES: usize = 65_536;
/// Names that are, where a reader begins or goes on at a place of its choice: few, as it waits for them, and
/// may want no more.
pub const FIRST_ENTRIES: usize = 2_048;
/// How much larger than the one before the next piece is.
const GROWTH: usize = 8;
/// The most bytes that they take in memory.
const LISTING_BYTES: usize = 8 << 20;
/// Entries of a page of the store.
const PAGE_ENTRIES: usize = 4096;

/// Where the reader of an open directory is.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// What it has in memory.
    piece: Arc<Piece>,
    /// What of it the last answer had.
    answered: Range<usize>,
    /// Names of the next piece.
    next: usize,
}

impl Reading {
    /// The place behind a cookie. Most readers go on where the last answer ended, or where the room for it
    /// did: they are looked for there first. That also lets them pass two names with the same cookie, as the
    /// next answer begins behind the first, and then only the second is in it.
    fn find(&self, cookie: u64) -> Option<usize> {
        let at = self.piece.find(cookie, self.answered.clone());
        at.or_else(|| self.piece.find(cookie, 0..self.piece.len()))
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
        let Reading { piece, answered, .. } = self.read_on(&dir, cookie, limit).await?;
        Ok(answered.filter_map(|at| piece.entry(at)).collect())
    }

    /// The same, told one by one to `each`, until it wants no more.
    pub async fn readdir_each(
        &self,
        handle: DirHandle,
        cookie: u64,
        limit: usize,
        mut each: impl FnMut(DirEntry<&[u8]>) -> bool,
    ) -> Result<()> {
        let dir = self.0.handles.dir(handle)?;
        let Reading { piece, mut answered, .. } = self.read_on(&dir, cookie, limit).await?;
        answered.all(|at| piece.look(at).is_none_or(&mut each));
        Ok(())
    }

    /// The same, with what is known of each entry's inode. An entry is what its name stands for now, and is
    /// left out when that is nothing any more: the kernel keeps what it is told here.
    pub async fn readdirplus(
        &self,
        handle: DirHandle,
        cookie: u64,
        limit: usize,
    ) -> Result<Vec<(DirEntry, Attr)>> {
        let dir = self.0.handles.dir(handle)?;
        let mut from = cookie;
        loop {
            let Reading { piece, answered, .. } = self.read_on(&dir, from, limit).await?;
            let entries: Vec<DirEntry> = answered.filter_map(|at| piece.entry(at)).collect();
            let Some(last) = entries.last() else {
                return Ok(Vec::new());
            };
            from = last.cookie;
            let found = self.attrs(dir.ino, &piece, &entries).await?;
            let both: Vec<(DirEntry, Attr)> = entries
                .into_iter()
                .zip(found)
                .filter_map(|(entry, attr)| {
                    let attr = attr?;
                    Some((DirEntry { ino: attr.ino, file_type: attr.file_type(), ..entry }, attr))
                })
                .collect();
            if !both.is_empty() {
                return Ok(both);
            }
        }
    }

    /// Moves the reader of a directory behind a cookie, and up to `limit` entries on.
    async fn read_on(&self, dir: &OpenDir, cookie: u64, limit: usize) -> Result<Reading> {
        let ino = dir.ino;
        let reading = if cookie == 0 { None } else { dir.reading.lock().clone() };
        let found = reading.and_then(|reading| Some((reading.find(cookie)?, reading)));
        let (piece, at, next) = match found {
            Some((at, reading)) if self.may_tell(ino, &reading.piece) => {
                let Reading { piece, next, .. } = reading;
                if at < piece.len() || piece.complete {
                    (piece, at, next)
                } else {
                    let last = piece.name(at - 1);
                    let piece = self.load(ino, last.as_deref(), next.max(limit)).await?;
                    (piece, 0, next.saturating_mul(GROWTH))
                }
            }
            // What is in memory is too old, or does not have the cookie.
            found => {
                let known = found.and_then(|(at, reading)| reading.piece.name(at - 1));
                let name = match (known, cookie) {
                    (_, 0..=BEHIND_DOTS) => None,
                    (Some(name), _) => Some(name),
                    (None, _) => self.name_of(ino, cookie).await?,
                };
                let at = match (&name, cookie) {
                    (Some(_), _) => 0,
                    (None, 0..=BEHIND_DOTS) => cookie as usize,
                    // A name that is gone, and forgotten. What follows it is not known, so that all names come
                    // again: none is left out, and from here on the reader knows where it is.
                    (None, _) => BEHIND_DOTS as usize,
                };
                if cookie == 0 {
                    self.0.places.begin(ino);
                }
                let piece = self.load(ino, name.as_deref(), FIRST_ENTRIES.max(limit)).await?;
                (piece, at, FIRST_ENTRIES * GROWTH)
            }
        };
        let end = at.saturating_add(limit.max(1)).min(piece.len());
        let reading = Reading { piece, answered: at.min(end)..end, next };
        *dir.reading.lock() = Some(reading.clone());
        Ok(reading)
    }

    /// Whether a piece may be told behind a cookie. The kernel keeps one listing for all handles, each part of
    /// it from whoever came first to where it ended, and believes it to be no older than its beginning. So
    /// when somebody has begun after this piece was read, it must still be true.
    fn may_tell(&self, ino: Ino, piece: &Piece) -> bool {
        !self.0.places.begun_since(ino, piece)
            || self.0.volume.world.store.engine().newest() == Some(piece.at)
    }

    /// Reads a piece, from the start or behind a name, of about so many entries.
    async fn load(&self, ino: Ino, behind: Option<&[u8]>, entries: usize) -> Result<Arc<Piece>> {
        let entries_max = entries.min(LISTING_ENTRIES);
        // Before anything is read: who begins meanwhile began later.
        let begun = self.0.places.now();
        let cookies = Cookies::of(&self.0.volume.record);
        let piece = self
            .view(|mut tx| async move {
                let mut piece = Piece::new(tx.version(), begun);
                let inode = tx.inode_seen(ino).await?;
                if behind.is_none() {
                    let dots = [(0..1, ino, BEHIND_DOT), (0..2, inode.parent, BEHIND_DOTS)];
                    let dots =
                        dots.map(|(name, ino, cookie)| (name, ino, FileType::Directory, cookie));
                    piece.add(Bytes::from_static(b".."), dots.into_iter());
                }
                let mut next = Some(names(&tx, ino, behind));
                let mut bytes = 0;
                while let Some(query) = next {
                    let query = query
                        .limit(PAGE_ENTRIES.min(entries_max.saturating_sub(piece.len()).max(1)));
                    let page = tx.range(&query, Read::Snapshot).await?;
                    bytes += page.bytes();
                    // One allocation for the names of a page.
                    let mut names = Vec::with_capacity(page.bytes());
                    let mut found = Vec::with_capacity(page.len());
                    for (key, value) in page.iter() {
                        let start = names.len();
                        let entry = Entry::decode(key, value);
                        let (Some(entry), true) = (entry, tx.keys.entry_name(key, &mut names))
                        else {
                            return Err(tx.damaged(key, "is damaged"));
                        };
                        let cookie = cookies.behind(names.get(start..).unwrap_or_default());
                        found.push((start..names.len(), entry.ino, entry.file_type, cookie));
                    }
                    // It is kept for long.
                    names.shrink_to_fit();
                    piece.add(Bytes::from(names), found.into_iter());
                    next = if page.more { query.behind(&page) } else { None };
                    if next.is_some() && (piece.len() >= entries_max || bytes >= LISTING_BYTES) {
                        return Ok((tx, piece));
                    }
                }
                let changed = tx.sides(ino, &inode).await?.changed;
                tx.session.note_read(ino, &inode, changed);
                piece.complete = true;
                Ok((tx, piece))
            })
            .await?;
        let piece = Arc::new(piece);
        self.0.places.keep(ino, &piece);
        Ok(piece)
    }

    /// The name that a cookie stands for: one that was told lately, or one that is there.
    async fn name_of(&self, ino: Ino, cookie: u64) -> Result<Option<Bytes>> {
        if let Some(name) = self.0.places.find(ino, cookie) {
            return Ok(Some(name));
        }
        let cookies = Cookies::of(&self.0.volume.record);
        let mut behind: Option<Bytes> = None;
        // A page for each snapshot: no name moves meanwhile, and a large directory takes its time.
        loop {
            let from = behind.as_deref();
            let (found, last) = self
                .view(|mut tx| async move {
                    let query = names(&tx, ino, from).limit(PAGE_ENTRIES);
                    let page = tx.range(&query, Read::Snapshot).await?;
                    let mut name = Vec::new();
                    for (key, _) in page.iter() {
                        name.clear();
                        if !tx.keys.entry_name(key, &mut name) {
                            return Err(tx.damaged(key, "is damaged"));
                        }
                        if cookies.behind(&name) == cookie {
                            return Ok((tx, (Some(Bytes::from(name)), None)));
                        }
                    }
                    let last = page.more.then(|| Bytes::from(name)).filter(|name| !name.is_empty());
                    Ok((tx, (None, last)))
                })
                .await?;
            match last {
                None => return Ok(found),
                last => behind = last,
            }
        }
    }

    /// What is known of what entries stand for, all at one version; `None` for those that are gone.
    async fn attrs(
        &self,
        ino: Ino,
        piece: &Piece,
        entries: &[DirEntry],
    ) -> Result<Vec<Option<Attr>>> {
        self.view(|mut tx| async move {
            let mut now: Vec<Option<Ino>> = entries.iter().map(|entry| Some(entry.ino)).collect();
            if tx.version() != piece.at {
                named_now(&mut tx, ino, entries, &mut now).await?;
            }
            let mut inodes: Vec<Ino> = now.iter().flatten().copied().collect();
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
            let attr_of = |ino: &Option<Ino>| {
                let at = found.binary_search_by_key(&(*ino)?, |attr| attr.ino).ok()?;
                found.get(at).copied()
            };
            let attrs = now.iter().map(attr_of).collect();
            Ok((tx, attrs))
        })
        .await
    }
}

/// All names of a directory behind one, or all.
fn names(tx: &Tx, ino: Ino, behind: Option<&[u8]>) -> Query {
    let mut range = tx.keys.entries(ino);
    if let Some(name) = behind {
        range.start = tx.keys.entry(ino, name).successor();
    }
    Query::new(range)
}

/// The inodes that entries stand for now, but for the dots.
async fn named_now(
    tx: &mut Tx,
    ino: Ino,
    entries: &[DirEntry],
    now: &mut [Option<Ino>],
) -> Result<()> {
    let is_name = |entry: &DirEntry| entry.cookie > BEHIND_DOTS;
    let keys: Vec<Key> = entries
        .iter()
        .filter(|entry| is_name(entry))
        .map(|entry| tx.keys.entry(ino, &entry.name))
        .collect();
    let wanted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let records = tx.get_many(&wanted, Read::Snapshot).await?;
    let named = now.iter_mut().zip(entries).filter(|(_, entry)| is_name(entry));
    for ((now, _), (key, record)) in named.zip(keys.iter().zip(records)) {
        *now = match record.map(|record| Entry::decode(key, &record)) {
            None => None,
            Some(Some(entry)) => Some(entry.ino),
            Some(None) => return Err(tx.damaged(key, "is damaged")),
        };
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(cookies: &[u64]) -> Arc<Piece> {
        let mut piece = Piece::new(1, 1);
        let names = cookies.iter().enumerate();
        let names = names.map(|(at, cookie)| (at..at + 1, 1, FileType::File, *cookie));
        piece.add(Bytes::from(vec![b'x'; cookies.len()]), names);
        piece.complete = true;
        Arc::new(piece)
    }

    #[test]
    fn names_with_the_same_cookie_hold_up_nobody() {
        let cookies = [10, 20, 7, 7, 30, 7, 40, 50, 7];
        for limit in 1..=cookies.len() {
            let piece = piece(&cookies);
            let mut reading = Reading { piece, answered: 0..0, next: 1 };
            let (mut at, mut seen) = (0, [0; 9]);
            let mut answers = 0;
            while at < cookies.len() {
                let end = (at + limit).min(cookies.len());
                reading.answered = at..end;
                seen[at..end].iter_mut().for_each(|times| *times += 1);
                let next = reading.find(cookies[end - 1]);
                assert!(next.is_some_and(|next| next > at), "{limit}: back from {at}");
                at = next.unwrap_or_default();
                answers += 1;
            }
            assert!(seen.iter().all(|times| *times > 0), "{limit}: one was left out: {seen:?}");
            assert!(answers <= cookies.len());
        }
    }

    #[test]
    fn cookies_are_positions_that_the_kernel_can_have() {
        let (one, other) = (Cookies::seeded(1), Cookies::seeded(2));
        for number in 0..10_000_u32 {
            let name = number.to_string();
            let cookie = one.behind(name.as_bytes());
            assert!(cookie > BEHIND_DOTS && i64::try_from(cookie).is_ok());
            assert_ne!(cookie, other.behind(name.as_bytes()));
        }
    }
}
