//! Access times: kept in memory and written in the background, so that reading commits nothing.

use super::{Atime, OpKind, Session, Shared};
use crate::error::{Kind, Result};
use crate::schema::{Form, Inode, hour_of};
use crate::tx::Tx;
use crate::types::{Ino, Time};
use base::sync::Mutex;
use kv::Read;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most inodes whose access times wait to be written.
const WAITING_MAX: usize = 65_536;
/// Written in one transaction.
const BATCH: usize = 32;
/// How old a relative access time may get, and how coarse the one for cold storage is.
const DAY_SECS: i64 = 24 * 3600;
const DAY_HOURS: u32 = 24;

/// What waits to be written.
#[derive(Debug, Default)]
pub(crate) struct AccessTimes {
    waiting: Mutex<BTreeMap<Ino, Access>>,
    /// Whether some may wait: most who ask need not look.
    any: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Access {
    /// What callers see; `None` when the mount keeps no access times.
    atime: Option<Time>,
    hour: u32,
}

impl Access {
    fn write_to(self, inode: &mut Inode) {
        inode.atime = self.atime.unwrap_or(inode.atime);
        inode.accessed_hour = inode.accessed_hour.max(self.hour);
    }
}

impl AccessTimes {
    /// Whether one of an inode waits.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.any.load(Ordering::Acquire) && self.waiting.lock().contains_key(&ino)
    }

    /// Forgets what waits for an inode: the time was set by a caller.
    pub(crate) fn forget(&self, ino: Ino) {
        self.waiting.lock().remove(&ino);
    }
}

impl Shared {
    /// The access time that callers see.
    #[inline]
    pub(crate) fn access_time(&self, ino: Ino, inode: &Inode) -> Time {
        if !self.times.any.load(Ordering::Acquire) {
            return inode.atime;
        }
        let waiting = self.times.waiting.lock();
        waiting.get(&ino).and_then(|access| access.atime).unwrap_or(inode.atime)
    }

    /// Whether a read changes the access time.
    fn changes_atime(&self, ino: Ino, inode: &Inode, changed: u64, now: Time) -> bool {
        match self.options.atime {
            Atime::Strict => true,
            Atime::Off => false,
            Atime::Relative => {
                let mtime = if changed == 0 { inode.mtime } else { crate::tx::time_of(changed) };
                let seen = self.access_time(ino, inode);
                seen <= mtime.max(inode.ctime) || now.secs.saturating_sub(seen.secs) >= DAY_SECS
            }
        }
    }

    /// Notes that somebody has read an inode.
    pub(crate) fn note_read(&self, ino: Ino, inode: &Inode, changed: u64) {
        let now = self.volume.world.now();
        let atime = self.changes_atime(ino, inode, changed, now).then_some(now);
        let hour = hour_of(now);
        let cold = hour.saturating_sub(inode.accessed_hour) >= DAY_HOURS;
        if atime.is_none() && !cold {
            return;
        }
        let mut waiting = self.times.waiting.lock();
        self.times.any.store(true, Ordering::Release);
        // When it is full one of the others is lost: access times are advice, and memory has a bound.
        if waiting.len() >= WAITING_MAX && !waiting.contains_key(&ino) {
            waiting.pop_first();
        }
        let access = waiting.entry(ino).or_insert(Access { atime: None, hour });
        access.hour = hour;
        access.atime = atime.or(access.atime);
    }
}

impl Tx {
    /// Whether reading a file would change its access time.
    pub(crate) async fn read_is_due(&mut self, ino: Ino, inode: &Inode) -> Result<bool> {
        if self.session.options.atime == Atime::Off {
            return Ok(false);
        }
        let changed = match inode.form {
            Form::Inline | Form::Local => 0,
            Form::Mapped => self.changed(ino).await?,
        };
        let now = self.session.volume.world.now();
        Ok(self.session.changes_atime(ino, inode, changed, now))
    }
}

impl Session {
    /// Writes the access times that wait; returns how many there were.
    pub(crate) async fn flush_times(&self) -> Result<usize> {
        let mut written = 0;
        loop {
            let batch: Vec<(Ino, Access)> = {
                let waiting = self.0.times.waiting.lock();
                if waiting.is_empty() {
                    self.0.times.any.store(false, Ordering::Release);
                }
                waiting.iter().take(BATCH).map(|(ino, access)| (*ino, *access)).collect()
            };
            if batch.is_empty() {
                return Ok(written);
            }
            let batch_ref = &batch;
            self.change(OpKind::Idempotent, |mut tx| async move {
                // No record gets longer, and a session that ends must get this behind it.
                tx.frees_space();
                for (ino, access) in batch_ref {
                    let inode = match tx.find_inode(*ino, Read::Serializable).await {
                        // A damaged one must not keep all others from being written.
                        Err(error) if error.kind() == Kind::Corrupt => None,
                        found => found?,
                    };
                    let Some(mut inode) = inode else {
                        continue;
                    };
                    access.write_to(&mut inode);
                    tx.put_inode(*ino, &inode, &[])?;
                }
                Ok((tx, ()))
            })
            .await?;
            let mut waiting = self.0.times.waiting.lock();
            for (ino, access) in &batch {
                // A read that came meanwhile waits for the next round.
                if waiting.get(ino).is_some_and(|now| now.atime == access.atime) {
                    waiting.remove(ino);
                }
            }
            written += batch.len();
        }
    }

    /// Writes the access time of one inode, if it waits.
    pub(crate) async fn flush_time(&self, ino: Ino) -> Result<()> {
        let Some(access) = self.0.times.waiting.lock().remove(&ino) else {
            return Ok(());
        };
        self.change(OpKind::Idempotent, |mut tx| async move {
            tx.frees_space();
            if let Some(mut inode) = tx.find_inode(ino, Read::Serializable).await? {
                access.write_to(&mut inode);
                tx.put_inode(ino, &inode, &[])?;
            }
            Ok((tx, ()))
        })
        .await
    }
}
