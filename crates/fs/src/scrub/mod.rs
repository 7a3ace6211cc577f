//! Scrubbing a volume that may be in use: every key is read, and every record, block and parity compared
//! with its checksum, in the order of keys, at a pace that leaves room for others.
//!
//! Each piece (a page of records, a chunk with its map entry and its parity) is read on one snapshot, on
//! which it is whole whatever is written meanwhile. How far it came is written down, so that whoever
//! comes later goes on there. With parity, what is damaged is rebuilt.

mod local;
mod paths;
mod piece;
mod record;

use crate::error::{Error, Kind, Result};
use crate::progress::{Progress, go_on};
use crate::schema::{Keys, ScrubFinding, ScrubRecord, ScrubState};
use crate::session::{OpKind, Session};
use crate::types::Ino;
use crate::volume::Volume;
use kv::{Key, Read};
use std::time::Duration;

/// Findings that are kept with their words; the rest is only counted.
pub const SCRUB_FINDINGS_MAX: usize = 32;
/// How often it is written down how far a scrub came: by time, and by pieces.
const SAVED_EVERY: Duration = Duration::from_secs(1);
const SAVED_PIECES: u32 = 64;
/// The longest it waits at once for its pace: then it looks whether it is to go on.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// The longest text that is kept of a finding.
const TEXT_BYTES_MAX: usize = 512;

/// How a scrub is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScrubOptions {
    /// Bytes that are read in a second at most.
    pub rate_bytes: Option<u64>,
    /// Begins anew, also where another one was stopped.
    pub restart: bool,
}

impl Volume {
    /// The scrub that is under way, or the last one.
    pub async fn scrub_status(&self) -> Result<Option<ScrubRecord>> {
        let key = self.keys.scrub();
        let mut txn = self.world.store.begin().await?;
        let found = txn.get(&key, Read::Snapshot).await?;
        Ok(found.and_then(|record| ScrubRecord::decode(&key, &record)))
    }
}

impl Session {
    /// Reads and verifies everything, from where the last scrub was stopped or died. Ends early, and can
    /// be gone on with, when `progress` does not want it to go on or somebody stops it. `progress`
    /// counts bytes.
    pub async fn scrub(
        &self,
        options: &ScrubOptions,
        progress: &dyn Progress,
    ) -> Result<ScrubRecord> {
        let record = self.begin_scrub(options.restart).await?;
        let clock = &self.0.volume.world.clock;
        let mut scrub = Scrub {
            session: self,
            keys: self.0.volume.keys,
            began_bytes: record.bytes,
            began: clock.now(),
            saved: clock.now(),
            pieces: 0,
            window: u64::MAX,
            failures: 0,
            local: Vec::new(),
            record,
            rate: options.rate_bytes.filter(|rate| *rate > 0),
        };
        let ended = scrub.run(progress).await;
        match ended {
            Ok(()) => Ok(scrub.record),
            Err(error) if error.kind() == Kind::Interrupted => {
                scrub.record.state = ScrubState::Stopped;
                scrub.save().await?;
                Ok(scrub.record)
            }
            Err(error) => {
                scrub.record.state = ScrubState::Stopped;
                // The error that ended it says more than one of writing that down.
                let _ = scrub.save().await;
                Err(error)
            }
        }
    }

    /// Stops a scrub of this volume, whoever does it. False when there is none under way.
    pub async fn stop_scrub(&self) -> Result<bool> {
        self.change(OpKind::Idempotent, |mut tx| async move {
            let key = tx.keys.scrub();
            let found = tx.get(&key, Read::Serializable).await?;
            let record = found.and_then(|record| ScrubRecord::decode(&key, &record));
            let Some(mut record) = record.filter(|found| found.state == ScrubState::Running) else {
                return Ok((tx, false));
            };
            record.state = ScrubState::Stopped;
            tx.put(&key, record.encode(&key))?;
            Ok((tx, true))
        })
        .await
    }

    /// Takes on what is to be done.
    async fn begin_scrub(&self, restart: bool) -> Result<ScrubRecord> {
        let volume = &self.0.volume;
        let run = volume.world.random.next_u64() >> 1;
        let (session, now) = (self.0.id, volume.world.now());
        self.change(OpKind::Idempotent, |mut tx| async move {
            let key = tx.keys.scrub();
            let found = tx.get(&key, Read::Serializable).await?;
            let found = found.and_then(|record| ScrubRecord::decode(&key, &record));
            if let Some(other) = found.as_ref().filter(|found| found.run != run)
                && other.state == ScrubState::Running
            {
                let theirs = tx.keys.session(other.session);
                if tx.get(&theirs, Read::Serializable).await?.is_some() {
                    let words =
                        "the volume is being scrubbed already: see how far it is, or stop it";
                    return Err(Error::new(Kind::Busy, words));
                }
            }
            let mut record = match found {
                Some(found) if found.state != ScrubState::Done && !restart => found,
                _ => ScrubRecord { began: now, ..ScrubRecord::default() },
            };
            (record.run, record.session, record.saved) = (run, session, now);
            record.state = ScrubState::Running;
            tx.put(&key, record.encode(&key))?;
            Ok((tx, ()))
        })
        .await?;
        let record = volume.scrub_status().await?;
        record.filter(|record| record.run == run).ok_or_else(|| {
            Error::new(Kind::Busy, "somebody else has begun to scrub the volume just now")
        })
    }
}

/// A scrub under way.
struct Scrub<'a> {
    session: &'a Session,
    keys: Keys,
    record: ScrubRecord,
    rate: Option<u64>,
    began: Duration,
    began_bytes: u64,
    saved: Duration,
    pieces: u32,
    /// How many numbers of inodes or blobs a piece may be of: fewer where the store is damaged.
    window: u64,
    /// Pieces in a row that cannot be read.
    failures: u32,
    /// Inodes of the last page whose bytes are in files of the local home.
    local: Vec<Ino>,
}

impl Scrub<'_> {
    async fn run(&mut self, progress: &dyn Progress) -> Result<()> {
        let mut next = match self.record.next.is_empty() {
            true => Some(self.keys.all().start),
            false => Some(Key::new(&self.record.next)),
        };
        while let Some(at) = next {
            go_on(progress)?;
            next = self.piece(&at).await?;
            self.local_files(progress).await?;
            self.record.next = next.as_ref().map(|next| next.to_vec()).unwrap_or_default();
            progress.advance(self.record.bytes, None);
            self.pieces += 1;
            self.save_if_due().await?;
            self.keep_pace(progress).await?;
        }
        self.find_paths().await?;
        (self.record.state, self.record.next) = (ScrubState::Done, Vec::new());
        self.save().await?;
        self.session.sync_store().await
    }

    /// Notes damage that stays.
    fn found(&mut self, kind: &str, ino: u64, what: String) {
        self.record.damaged += 1;
        tracing::warn!(volume = self.session.0.volume.name(), kind, what, "a scrub found damage");
        if self.record.findings.len() < SCRUB_FINDINGS_MAX {
            let what = what.chars().take(TEXT_BYTES_MAX / 4).collect();
            let path = Vec::new();
            self.record.findings.push(ScrubFinding { kind: kind.to_owned(), what, ino, path });
        }
    }

    async fn save_if_due(&mut self) -> Result<()> {
        let now = self.session.0.volume.world.clock.now();
        let due = now.saturating_sub(self.saved) >= SAVED_EVERY || self.pieces >= SAVED_PIECES;
        if due { self.save().await } else { Ok(()) }
    }

    /// Writes down how far it came, unless somebody has stopped it or begun another.
    async fn save(&mut self) -> Result<()> {
        let volume = &self.session.0.volume;
        let bound = volume.world.store.capabilities().value_bytes_max;
        self.record.saved = volume.world.now();
        let key = &self.keys.scrub();
        let mut record = self.record.clone();
        while record.encode(key).len() > bound && record.findings.pop().is_some() {}
        let mine = &record;
        let kept = self
            .session
            .change(OpKind::Idempotent, |mut tx| async move {
                let found = tx.get(key, Read::Serializable).await?;
                let found = found.and_then(|record| ScrubRecord::decode(key, &record));
                let Some(found) = found.filter(|found| found.run == mine.run) else {
                    return Ok((tx, false));
                };
                let mut record = mine.clone();
                let stopped = found.state == ScrubState::Stopped;
                if stopped && record.state == ScrubState::Running {
                    record.state = ScrubState::Stopped;
                }
                tx.put(key, record.encode(key))?;
                Ok((tx, !stopped || mine.state != ScrubState::Running))
            })
            .await?;
        (self.saved, self.pieces) = (volume.world.clock.now(), 0);
        match kept {
            true => Ok(()),
            false => Err(Error::new(Kind::Interrupted, "the scrub was stopped")),
        }
    }

    /// Waits until as much time has gone by as the bytes are worth.
    async fn keep_pace(&mut self, progress: &dyn Progress) -> Result<()> {
        let Some(rate) = self.rate else { return Ok(()) };
        let bytes = u128::from(self.record.bytes - self.began_bytes);
        let worth = bytes.saturating_mul(1_000_000_000) / u128::from(rate);
        let worth = Duration::from_nanos(u64::try_from(worth).unwrap_or(u64::MAX));
        loop {
            let clock = &self.session.0.volume.world.clock;
            let left = worth.saturating_sub(clock.now().saturating_sub(self.began));
            if left.is_zero() {
                return Ok(());
            }
            go_on(progress)?;
            clock.sleep(left.min(WAIT_MAX)).await;
            self.save_if_due().await?;
        }
    }
}
