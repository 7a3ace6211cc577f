//! Reading a whole volume: on one snapshot where the engine keeps it, else on one after the other. Calls
//! that fail because the engine cannot be reached are made again.

use crate::blob;
use crate::error::{Error, Kind, Result};
use crate::schema::{Form, Inode, VolumeDamage, VolumeRecord, hour_of};
use crate::session::Session;
use crate::tx::{Tx, number, time_of};
use crate::types::Ino;
use bytes::Bytes;
use kv::{ErrorKind, Failure, KeyRange, Page, Query, Read};
use std::time::Duration;

/// How often a call is made in all before its error is told.
const TRIES: u32 = 20;
/// How long is waited before the second try; twice as long before each other, up to the bound.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A volume that is being read.
pub(super) struct Reading<'a> {
    session: &'a Session,
    tx: Tx,
    bounded: bool,
    /// Snapshots that were too old to go on with.
    outlived: u64,
}

/// How often a call was made.
#[derive(Default)]
struct Tries(u32);

impl<'a> Reading<'a> {
    pub(super) async fn begin(session: &'a Session) -> Result<Self> {
        let store = &session.0.volume.world.store;
        let bounded = store.capabilities().txn_lifetime_max.is_some();
        let mut tries = Tries::default();
        let txn = loop {
            match store.begin().await {
                Ok(txn) => break txn,
                Err(error) => tries.wait(session, error.into()).await?,
            }
        };
        Ok(Self { session, tx: Tx::view(&session.0, txn), bounded, outlived: 0 })
    }

    /// Whether all was read on one snapshot so far.
    pub(super) fn is_one_snapshot(&self) -> bool {
        self.outlived == 0
    }

    pub(super) fn tx_mut(&mut self) -> &mut Tx {
        &mut self.tx
    }

    pub(super) fn tx(&self) -> &Tx {
        &self.tx
    }

    /// Takes note of a failed call. Ok when it is to be made again.
    async fn again(&mut self, tries: &mut Tries, error: Error) -> Result<()> {
        let too_old = error.store_error().is_some_and(|error| error.kind() == ErrorKind::TooOld);
        if too_old && self.bounded {
            let outlived = self.outlived + 1;
            *self = Self::begin(self.session).await?;
            self.outlived = outlived;
            tries.0 += 1;
            return if tries.0 < TRIES { Ok(()) } else { Err(error) };
        }
        tries.wait(self.session, error).await
    }

    pub(super) async fn get(&mut self, key: &kv::Key) -> Result<Option<Bytes>> {
        let mut tries = Tries::default();
        loop {
            match self.tx.get(key, Read::Snapshot).await {
                Ok(value) => return Ok(value),
                Err(error) => self.again(&mut tries, error).await?,
            }
        }
    }

    pub(super) async fn range(&mut self, query: &Query) -> Result<Page> {
        let mut tries = Tries::default();
        loop {
            match self.tx.range(query, Read::Snapshot).await {
                Ok(page) => return Ok(page),
                Err(error) => self.again(&mut tries, error).await?,
            }
        }
    }

    /// The volume's record as it is stored: options may have changed since the session began.
    pub(super) async fn record(&mut self) -> Result<VolumeRecord> {
        let key = self.tx.keys.volume();
        let found = self.get(&key).await?.unwrap_or_default();
        VolumeRecord::decode(&key, &found).map_err(|damage| match damage {
            VolumeDamage::Damaged => self.tx.damaged(&key, "is damaged"),
            VolumeDamage::Newer(_) => {
                Error::new(Kind::Format, "the volume has a newer format: use a newer program")
            }
        })
    }

    /// A number above that of every inode, and that no new one would get either.
    pub(super) async fn next_inode(&mut self) -> Result<u64> {
        let key = self.tx.keys.next_inode();
        let Some(next) = self.get(&key).await? else {
            return Err(self.tx.damaged(&key, "is missing"));
        };
        let next = number(&next).max(crate::volume::FIRST_INODE);
        let all = self.tx.keys.inodes(0, u64::MAX);
        let end = all.start.len();
        let page = self.range(&Query::new(all).limit(1).reverse()).await?;
        let last = page.get(0).and_then(|(key, _)| key.get(end - 8..end)?.try_into().ok());
        let last = last.map_or(0, u64::from_be_bytes);
        Ok(next.max(last.saturating_add(1)))
    }

    /// An inode of a page, with all times as callers see them; `None` when it has no name.
    pub(super) async fn inode(
        &mut self,
        ino: Ino,
        key: &[u8],
        record: &[u8],
    ) -> Result<Option<Inode>> {
        let Some(mut inode) = Inode::decode(key, ino, record) else {
            return Err(self.tx.damaged(key, "is damaged"));
        };
        if inode.nlink == 0 {
            return Ok(None);
        }
        if inode.has_sides() {
            let key = self.tx.keys.changed(ino);
            let changed = self.get(&key).await?.as_deref().map_or(0, number);
            if changed != 0 {
                inode.mtime = time_of(changed);
                inode.ctime = inode.ctime.max(inode.mtime);
            }
        }
        let atime = self.session.0.access_time(ino, &inode);
        if atime != inode.atime {
            inode.atime = atime;
            inode.accessed_hour = inode.accessed_hour.max(hour_of(atime));
        }
        Ok(Some(inode))
    }

    /// Bytes of a file, whose inode must be what it was where a later snapshot is read.
    pub(super) async fn bytes(
        &mut self,
        ino: Ino,
        inode: &Inode,
        offset: u64,
        len: u64,
    ) -> Result<Bytes> {
        let mut tries = Tries::default();
        loop {
            let error = match self.still_there(ino, inode).await {
                Ok(true) => {
                    match blob::read(&mut self.tx, inode, offset, len, Read::Snapshot).await {
                        Ok(found) => return Ok(found.bytes),
                        Err(error) => error,
                    }
                }
                Ok(false) => return Err(changed()),
                Err(error) => error,
            };
            self.again(&mut tries, error).await?;
        }
    }

    async fn still_there(&mut self, ino: Ino, inode: &Inode) -> Result<bool> {
        if self.is_one_snapshot() {
            return Ok(true);
        }
        let place = |inode: &Inode| (inode.form, inode.blob, inode.size, inode.inline_len);
        let found = self.tx.find_inode(ino, Read::Snapshot).await?;
        Ok(found.is_some_and(|found| place(&found) == place(inode)))
    }

    /// The map of a file, without what a truncation cut off and a job still has to remove.
    pub(super) fn map(&self, inode: &Inode) -> Option<Query> {
        if inode.form != Form::Mapped {
            return None;
        }
        let mut range: KeyRange = self.tx.keys.map_from(inode.blob, 0);
        if inode.trim != 0 {
            range.end = self.tx.keys.map(inode.blob, inode.trim_from);
        }
        Some(Query::new(range))
    }
}

impl Tries {
    /// Waits before the next try of what failed because the engine was not reached; otherwise fails.
    async fn wait(&mut self, session: &Session, error: Error) -> Result<()> {
        let kind = error.store_error().map(kv::Error::kind);
        self.0 += 1;
        if kind != Some(ErrorKind::Unavailable) || self.0 >= TRIES {
            return Err(error);
        }
        let pause = PAUSE_MIN.saturating_mul(1 << (self.0 - 1).min(16)).min(PAUSE_MAX);
        session.0.volume.world.clock.sleep(pause).await;
        Ok(())
    }
}

/// The error of a dump that would be of no one instant.
pub(super) fn changed() -> Error {
    Error::new(
        Kind::Busy,
        "the volume changed while it was read, and this engine keeps no snapshot for so long: \
         try again when nobody writes to it",
    )
}
