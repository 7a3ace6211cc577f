//! What all readers of a check share: the snapshot, and what is known of the volume as a whole.

use super::table::Table;
use crate::error::{Error, Kind, Result};
use crate::types::Ino;
use crate::volume::Volume;
use base::sync::Mutex;
use bytes::Bytes;
use kv::{ErrorKind, Key, Page, Query, Snapshot};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How often one call is made on newer and newer snapshots before its error is told.
const SNAPSHOTS_MAX: u32 = 20;

/// The volume, while it is checked.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(super) volume: Volume,
    pub(super) deep: bool,
    pub(super) table: Table,
    pub(super) sessions: BTreeSet<u64>,
    /// Sessions that a job reaps.
    pub(super) reaped: BTreeSet<u64>,
    /// Blobs that a job removes, and the jobs.
    pub(super) dropped: BTreeSet<(u64, u64)>,
    /// Blob and number of jobs that remove some of its blocks, by blob.
    pub(super) sweeps: Vec<(u64, u64)>,
    /// What the volume says of itself: bytes, inodes.
    pub(super) counted: [u64; 2],
    /// The first number that is not given out yet.
    pub(super) next_inode: u64,
    /// The files that were in the local home before the snapshot was taken, so that each of them was noted by then;
    /// or why they cannot be listed.
    pub(super) files: std::result::Result<Vec<u64>, String>,
    snapshot: Mutex<Arc<dyn Snapshot>>,
    /// Nobody had a session when this began: a later snapshot is the same.
    quiet: bool,
    seen: AtomicU64,
    stopped: AtomicBool,
}

impl Ground {
    pub(super) async fn new(volume: &Volume, deep: bool) -> Result<Self> {
        let files = match &volume.world.home {
            Some(home) => home.numbers(volume.keys.volume_number()).map_err(|it| it.to_string()),
            None => Ok(Vec::new()),
        };
        let snapshot: Arc<dyn Snapshot> = Arc::from(volume.world.store.engine().snapshot().await?);
        let quiet = is_quiet(volume, &*snapshot).await;
        Ok(Self {
            volume: volume.clone(),
            deep,
            table: Table::default(),
            sessions: BTreeSet::new(),
            reaped: BTreeSet::new(),
            dropped: BTreeSet::new(),
            sweeps: Vec::new(),
            counted: [0; 2],
            next_inode: u64::MAX,
            files,
            snapshot: Mutex::new(snapshot),
            quiet,
            seen: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        })
    }

    /// Whether something of a session may still be there.
    pub(super) fn is_known(&self, session: u64) -> bool {
        self.sessions.contains(&session) || self.reaped.contains(&session)
    }

    /// Whether a job removes this blob.
    pub(super) fn is_dropped(&self, blob: u64) -> bool {
        self.dropped.range((blob, 0)..=(blob, u64::MAX)).next().is_some()
    }

    /// Whether there is an inode of this number, or a file whose bytes are in this blob.
    pub(super) fn is_taken(&self, number: Ino) -> bool {
        self.table.find(number).is_some() || self.table.owner(number).is_some()
    }

    /// Ends every reader soon.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(super) fn goes_on(&self) -> Result<()> {
        match self.stopped.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Error::new(Kind::Interrupted, "it was asked to stop before it was done")),
        }
    }

    /// Counts keys that were read, and tells how many were in all.
    pub(super) fn seen(&self, keys: u64) -> u64 {
        self.seen.fetch_add(keys, Ordering::Relaxed) + keys
    }

    pub(super) async fn get(&self, key: &Key) -> Result<Option<Bytes>> {
        let mut tries = 0;
        loop {
            let snapshot = Arc::clone(&self.snapshot.lock());
            match snapshot.get(key).await {
                Ok(value) => return Ok(value),
                Err(error) => self.renew(&mut tries, &snapshot, error).await?,
            }
        }
    }

    pub(super) async fn range(&self, query: &Query) -> Result<Page> {
        let mut tries = 0;
        loop {
            let snapshot = Arc::clone(&self.snapshot.lock());
            match snapshot.range(query).await {
                Ok(page) => return Ok(page),
                Err(error) => self.renew(&mut tries, &snapshot, error).await?,
            }
        }
    }

    /// Takes a new snapshot where the engine does not keep one for long and nobody can have changed
    /// anything; else tells the error.
    async fn renew(
        &self,
        tries: &mut u32,
        old: &Arc<dyn Snapshot>,
        error: kv::Error,
    ) -> Result<()> {
        *tries += 1;
        if error.kind() != ErrorKind::TooOld || *tries > SNAPSHOTS_MAX {
            return Err(error.into());
        }
        let engine = self.volume.world.store.engine();
        let new: Arc<dyn Snapshot> = Arc::from(engine.snapshot().await?);
        if !self.quiet || !is_quiet(&self.volume, &*new).await {
            let words = "a check of a volume in use needs one snapshot from its beginning to its end, and \
                         this store's engine does not keep one for so long: unmount the volume \
                         everywhere, then check it";
            return Err(Error::new(Kind::Unsupported, words));
        }
        let mut snapshot = self.snapshot.lock();
        // Another reader may have been here meanwhile.
        if Arc::ptr_eq(&snapshot, old) {
            *snapshot = new;
        }
        Ok(())
    }
}

/// Whether nobody has a session in the volume.
async fn is_quiet(volume: &Volume, snapshot: &dyn Snapshot) -> bool {
    let query = Query::new(volume.keys().sessions()).limit(1);
    matches!(snapshot.range(&query).await, Ok(page) if page.is_empty())
}
