//! One reader of a check: what it has found so far in its part of the keys, and what it would mend.

use super::finding::{CheckReport, DAMAGED_RECORD, UNKNOWN_KEY, UNREADABLE};
use super::ground::Ground;
use super::table::Slot;
use crate::error::{Error, Kind, Result};
use crate::progress::{Progress, go_on};
use crate::repair::{Fix, Mending};
use crate::schema::{Family, Inode, Job, Keys};
use crate::types::Ino;
use crate::volume::Volume;
use bytes::Bytes;
use kv::{Key, KeyRange, Page, Query};
use std::sync::Arc;

/// A check under way, or a part of one.
pub(crate) struct Scan<'a> {
    pub(super) ground: Arc<Ground>,
    pub(super) keys: Keys,
    pub(super) deep: bool,
    pub(super) found: Found,
    /// Where this check mends what it finds.
    pub(super) mending: Option<Mending>,
    progress: Option<&'a dyn Progress>,
}

/// What was found in a part of the keys.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) report: CheckReport,
    /// Inodes, and those whose bytes are in a blob of another number: blob and inode.
    pub(super) rows: Vec<Slot>,
    pub(super) moved: Vec<(u64, Ino)>,
    /// The highest number in use that was given out in sequence.
    pub(super) highest: u64,
    /// Something was damaged that would have been counted.
    pub(super) bytes_unsure: bool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(ground: Arc<Ground>, progress: Option<&'a dyn Progress>) -> Self {
        let (keys, deep) = (ground.volume.keys(), ground.deep);
        let found = Found {
            report: CheckReport { complete: true, ..CheckReport::default() },
            ..Found::default()
        };
        Self { ground, keys, deep, found, mending: None, progress }
    }

    /// A check of a part of the keys, by the same reader.
    pub(super) fn part(&mut self) -> Scan<'a> {
        let mut part = Scan::new(Arc::clone(&self.ground), self.progress);
        part.mending = self.mending.take();
        part
    }

    /// Adds what was found in the next part.
    pub(super) fn absorb(&mut self, mut part: Found) {
        self.found.report.absorb(part.report);
        self.found.rows.append(&mut part.rows);
        self.found.moved.append(&mut part.moved);
        self.found.highest = self.found.highest.max(part.highest);
        self.found.bytes_unsure |= part.bytes_unsure;
    }

    pub(super) fn volume(&self) -> &Volume {
        &self.ground.volume
    }

    /// What is known of the volume as a whole, to add to it. Nobody else has it between two phases.
    pub(super) fn ground_mut(&mut self) -> Result<&mut Ground> {
        Arc::get_mut(&mut self.ground)
            .ok_or_else(|| Error::new(Kind::Io, "a part of the check did not come to its end"))
    }

    /// Notes what is wrong with a key.
    pub(super) fn found(&mut self, kind: &'static str, key: &[u8], what: impl AsRef<str>) {
        let what = format!("{}: {}", self.volume().describe(key), what.as_ref());
        self.found.report.add(kind, what);
    }

    /// Whether what is found is mended.
    pub(super) fn mends(&self) -> bool {
        self.mending.is_some()
    }

    /// Mends what was found last, if this check does.
    pub(super) fn mend(&mut self, kind: &'static str, fix: impl FnOnce(&Keys) -> Fix) {
        if let Some(mending) = &mut self.mending {
            mending.add(kind, fix(&self.keys));
        }
    }

    pub(super) fn damaged(&mut self, key: &[u8]) {
        self.found(DAMAGED_RECORD, key, "is not what was written");
    }

    /// Notes damage that is mended by removing the key.
    pub(super) fn damaged_and_goes(&mut self, key: &[u8]) {
        self.damaged(key);
        self.mend(DAMAGED_RECORD, |_| Fix::Remove(Key::new(key)));
    }

    /// Notes what is wrong with a key that is of no use, and is mended by removing it.
    pub(super) fn useless(&mut self, kind: &'static str, key: &[u8], what: impl AsRef<str>) {
        self.found(kind, key, what);
        self.mend(kind, |_| Fix::Remove(Key::new(key)));
    }

    pub(super) fn unknown(&mut self, key: &[u8]) {
        self.useless(UNKNOWN_KEY, key, "is no key of a volume of this version");
    }

    /// A plain number; damage is noted and not mended.
    pub(super) fn plain(&mut self, key: &[u8], value: &[u8]) -> Option<u64> {
        let number = plain_number(value);
        if number.is_none() {
            self.damaged(key);
        }
        number
    }

    /// A plain number that can go where it is damaged: it is counted again, or nobody needs it.
    pub(super) fn plain_or_goes(&mut self, key: &[u8], value: &[u8]) -> Option<u64> {
        let number = plain_number(value);
        if number.is_none() {
            self.damaged_and_goes(key);
        }
        number
    }

    /// An error when it is to stop.
    pub(super) fn go_on(&self) -> Result<()> {
        if let Some(progress) = self.progress {
            go_on(progress)?;
        }
        self.ground.goes_on()
    }

    pub(super) async fn get(&mut self, key: &Key) -> Result<Option<Bytes>> {
        let ground = Arc::clone(&self.ground);
        ground.get(key).await.map_err(|error| self.unreadable(key, error))
    }

    /// An inode's record, when it is there and whole.
    pub(super) async fn inode(&mut self, ino: Ino) -> Result<Option<Inode>> {
        let key = self.keys.inode(ino);
        let record = self.get(&key).await?;
        Ok(record.and_then(|record| Inode::decode(&key, ino, &record)))
    }

    /// A job, when it is there and whole.
    pub(super) async fn job(&mut self, job: u64) -> Result<Option<Job>> {
        let key = self.keys.job(job);
        let record = self.get(&key).await?;
        Ok(record.and_then(|record| Job::decode(&key, &record)))
    }

    /// All keys of a family.
    pub(super) fn family(&self, family: Family) -> Cursor {
        Cursor::new(self.keys.family_range(family))
    }

    /// Ends the check where the store is broken; what was found until then is told.
    fn unreadable(&mut self, key: &[u8], error: Error) -> Error {
        if error.kind() == Kind::Corrupt {
            self.found.report.complete = false;
            self.found(UNREADABLE, key, format!("or what follows cannot be read: {error}"));
        }
        error
    }

    /// Writes what is to be mended when that is much, or now.
    pub(super) async fn write(&mut self, now: bool) -> Result<()> {
        match &mut self.mending {
            Some(mending) if now || mending.is_full() => mending.write().await,
            _ => Ok(()),
        }
    }
}

fn plain_number(value: &[u8]) -> Option<u64> {
    <[u8; 8]>::try_from(value).ok().map(u64::from_le_bytes)
}

/// A place in a range of keys, which goes forward.
pub(super) struct Cursor {
    next: Option<Query>,
    page: Page,
    at: usize,
    /// Whether keys count as looked at.
    counts: bool,
}

impl Cursor {
    pub(super) fn new(range: KeyRange) -> Self {
        Self { next: Some(Query::new(range)), page: Page::new(), at: 0, counts: true }
    }

    /// Over keys that were looked at before.
    pub(super) fn again(range: KeyRange) -> Self {
        Self { counts: false, ..Self::new(range) }
    }

    /// Reads on where that is needed. False at the end.
    pub(super) async fn fill(&mut self, scan: &mut Scan<'_>) -> Result<bool> {
        while self.at >= self.page.len() {
            let Some(query) = self.next.take() else {
                return Ok(false);
            };
            let ground = Arc::clone(&scan.ground);
            if let Some(progress) = scan.progress
                && let Err(error) = go_on(progress)
            {
                ground.stop();
                return Err(error);
            }
            ground.goes_on()?;
            let page = match ground.range(&query).await {
                Ok(page) => page,
                Err(error) => return Err(scan.unreadable(&query.range.start, error)),
            };
            let new = if self.counts { page.len() as u64 } else { 0 };
            scan.found.report.keys += new;
            let seen = ground.seen(new);
            if let Some(progress) = scan.progress {
                progress.advance(seen, None);
            }
            scan.write(false).await?;
            self.next = if page.more { query.behind(&page) } else { None };
            (self.page, self.at) = (page, 0);
        }
        Ok(true)
    }

    /// The key here and its value, after [`fill`](Self::fill).
    pub(super) fn head(&self) -> Option<(&[u8], &[u8])> {
        self.page.get(self.at)
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
    }
}
