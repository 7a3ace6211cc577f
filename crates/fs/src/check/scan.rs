//! The snapshot that a check reads, key by key, and what it has found so far.

use super::finding::{CheckReport, DAMAGED_RECORD, UNKNOWN_KEY, UNREADABLE};
use super::table::Table;
use crate::error::{Error, Kind, Result};
use crate::progress::{Progress, go_on};
use crate::schema::{Family, Inode, Job, Keys};
use crate::types::Ino;
use crate::volume::Volume;
use bytes::Bytes;
use kv::{Key, KeyRange, Page, Query, Read, Txn};
use std::collections::BTreeSet;

/// A check under way.
pub(super) struct Scan<'a> {
    pub(super) volume: &'a Volume,
    pub(super) keys: Keys,
    pub(super) deep: bool,
    pub(super) report: CheckReport,
    pub(super) table: Table,
    pub(super) sessions: BTreeSet<u64>,
    /// Sessions that a job reaps.
    pub(super) reaped: BTreeSet<u64>,
    /// Blobs that a job removes.
    pub(super) dropped: BTreeSet<u64>,
    /// Blob and number of jobs that remove some of its blocks, by blob.
    pub(super) sweeps: Vec<(u64, u64)>,
    /// What the volume says of itself: bytes, inodes.
    pub(super) counted: [u64; 2],
    /// The first number that is not given out yet.
    pub(super) next_inode: u64,
    /// Something was damaged that would have been counted.
    pub(super) bytes_unsure: bool,
    txn: Txn,
    progress: &'a dyn Progress,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        volume: &'a Volume,
        deep: bool,
        txn: Txn,
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            volume,
            keys: volume.keys(),
            deep,
            report: CheckReport { complete: true, ..CheckReport::default() },
            table: Table::default(),
            sessions: BTreeSet::new(),
            reaped: BTreeSet::new(),
            dropped: BTreeSet::new(),
            sweeps: Vec::new(),
            counted: [0; 2],
            next_inode: u64::MAX,
            bytes_unsure: false,
            txn,
            progress,
        }
    }

    /// Notes what is wrong with a key.
    pub(super) fn found(&mut self, kind: &'static str, key: &[u8], what: impl AsRef<str>) {
        let what = format!("{}: {}", self.volume.describe(key), what.as_ref());
        self.report.add(kind, what);
    }

    pub(super) fn damaged(&mut self, key: &[u8]) {
        self.found(DAMAGED_RECORD, key, "is not what was written");
    }

    pub(super) fn unknown(&mut self, key: &[u8]) {
        self.found(UNKNOWN_KEY, key, "is no key of a volume of this version");
    }

    /// A plain number; damage is noted.
    pub(super) fn plain(&mut self, key: &[u8], value: &[u8]) -> Option<u64> {
        match <[u8; 8]>::try_from(value) {
            Ok(bytes) => Some(u64::from_le_bytes(bytes)),
            Err(_) => {
                self.damaged(key);
                None
            }
        }
    }

    /// Whether something of a session may still be there.
    pub(super) fn is_known(&self, session: u64) -> bool {
        self.sessions.contains(&session) || self.reaped.contains(&session)
    }

    pub(super) async fn get(&mut self, key: &Key) -> Result<Option<Bytes>> {
        let found = self.txn.get(key, Read::Snapshot).await;
        found.map_err(|error| self.unreadable(key, error))
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
        let mut prefix = self.keys.all().start.to_vec();
        prefix.push(family.byte());
        Cursor::new(KeyRange::prefix(&prefix))
    }

    /// Ends the check where the store is broken; what was found until then is told.
    fn unreadable(&mut self, key: &[u8], error: kv::Error) -> Error {
        let error = Error::from(error);
        if error.kind() == Kind::Corrupt {
            self.report.complete = false;
            self.found(UNREADABLE, key, format!("or what follows cannot be read: {error}"));
        }
        error
    }
}

/// A place in a range of keys, which goes forward.
pub(super) struct Cursor {
    next: Option<Query>,
    page: Page,
    at: usize,
}

impl Cursor {
    pub(super) fn new(range: KeyRange) -> Self {
        Self { next: Some(Query::new(range)), page: Page::new(), at: 0 }
    }

    /// Reads on where that is needed. False at the end.
    pub(super) async fn fill(&mut self, scan: &mut Scan<'_>) -> Result<bool> {
        while self.at >= self.page.len() {
            let Some(query) = self.next.take() else {
                return Ok(false);
            };
            go_on(scan.progress)?;
            let page = match scan.txn.range(&query, Read::Snapshot).await {
                Ok(page) => page,
                Err(error) => return Err(scan.unreadable(&query.range.start, error)),
            };
            scan.report.keys += page.len() as u64;
            scan.progress.advance(scan.report.keys, None);
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
