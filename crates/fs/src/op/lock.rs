//! Byte-range locks and flock, kept in the store, so that they hold between sessions. Who waits
//! watches the lock that is in the way; a session that dies loses its locks.

use crate::error::{Error, Kind, Result, bad_handle, invalid};
use crate::schema::{Parsed, decode_locks, encode_locks};
use crate::session::{OpKind, OpenFile, Session};
use crate::tx::Tx;
use crate::types::{Handle, Ino, Lock, LockKind};
use kv::{Key, Query, Read};

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

/// Ranges that one owner may have locked in one file.
const RANGES_MAX: usize = 1024;

/// Who has a lock, and of which of the two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    session: u64,
    owner: u64,
    flock: bool,
}

/// A lock in the way, and the key that changes when it goes.
struct Obstacle {
    lock: Lock,
    key: Key,
}

impl Session {
    /// A lock that would be in the way of `lock`, if there is one.
    pub async fn getlk(&self, handle: Handle, owner: u64, lock: Lock) -> Result<Option<Lock>> {
        check_range(lock)?;
        let ino = self.0.handles.file(handle)?.ino;
        let owner = Owner { session: self.0.id, owner, flock: false };
        self.view(|mut tx| async move {
            let obstacle = obstacle(&mut tx, ino, owner, lock, Read::Snapshot).await?;
            Ok((tx, obstacle.map(|obstacle| obstacle.lock)))
        })
        .await
    }

    /// Locks or frees a range for an owner. Waits for those in the way when `wait` says so; dropping
    /// the future stops waiting.
    pub async fn setlk(&self, handle: Handle, owner: u64, lock: Lock, wait: bool) -> Result<()> {
        check_range(lock)?;
        let file = self.0.handles.file(handle)?;
        let allowed = match lock.kind {
            LockKind::Read => file.flags.read,
            LockKind::Write => file.flags.write || file.flags.append,
            LockKind::Unlock => true,
        };
        if !allowed {
            return Err(bad_handle("the handle is not open for such a lock"));
        }
        self.lock(&file, Owner { session: self.0.id, owner, flock: false }, lock, wait).await
    }

    /// Locks or frees a whole file, as flock(2) does: apart from byte-range locks.
    pub async fn flock(
        &self,
        handle: Handle,
        owner: u64,
        kind: LockKind,
        wait: bool,
    ) -> Result<()> {
        let file = self.0.handles.file(handle)?;
        let lock = Lock { kind, start: 0, end: u64::MAX, pid: 0 };
        self.lock(&file, Owner { session: self.0.id, owner, flock: true }, lock, wait).await
    }

    /// Frees all byte-range locks of an owner in a file: what closing any of its descriptors does.
    pub async fn unlock_all(&self, handle: Handle, owner: u64) -> Result<()> {
        let file = self.0.handles.file(handle)?;
        let all = Lock { kind: LockKind::Unlock, start: 0, end: u64::MAX, pid: 0 };
        self.lock(&file, Owner { session: self.0.id, owner, flock: false }, all, false).await
    }

    async fn lock(&self, file: &OpenFile, owner: Owner, lock: Lock, wait: bool) -> Result<()> {
        let ino = file.ino;
        self.0.open.locked(ino);
        loop {
            let granted = self
                .change(KIND, |mut tx| async move {
                    let free = lock.kind == LockKind::Unlock
                        || obstacle(&mut tx, ino, owner, lock, Read::Serializable).await?.is_none();
                    if free {
                        apply(&mut tx, ino, owner, lock).await?;
                    }
                    Ok((tx, free))
                })
                .await?;
            if granted {
                return Ok(());
            }
            if !wait {
                return Err(Error::new(Kind::WouldBlock, "another owner has a lock there"));
            }
            self.wait_for(ino, owner, lock).await?;
        }
    }

    /// Waits until what was in the way of a lock may have gone; takes nothing. Dropping the future
    /// stops waiting.
    pub async fn lock_freed(
        &self,
        handle: Handle,
        owner: u64,
        lock: Lock,
        flock: bool,
    ) -> Result<()> {
        let ino = self.0.handles.file(handle)?.ino;
        self.wait_for(ino, Owner { session: self.0.id, owner, flock }, lock).await
    }

    /// Waits until the lock in the way may have gone.
    async fn wait_for(&self, ino: Ino, owner: Owner, lock: Lock) -> Result<()> {
        let watch = self
            .view(|mut tx| async move {
                let watch = match obstacle(&mut tx, ino, owner, lock, Read::Snapshot).await? {
                    Some(obstacle) => Some(tx.watch(&obstacle.key).await?),
                    None => None,
                };
                Ok((tx, watch))
            })
            .await?;
        match watch {
            // An engine that cannot tell any more is asked again.
            Some(watch) => watch.await.map_err(Error::from),
            None => Ok(()),
        }
    }
}

fn check_range(lock: Lock) -> Result<()> {
    if lock.start < lock.end { Ok(()) } else { Err(invalid("a range has at least one byte")) }
}

fn in_the_way(held: &Lock, wanted: Lock) -> bool {
    let overlap = held.start < wanted.end && wanted.start < held.end;
    overlap && (held.kind == LockKind::Write || wanted.kind == LockKind::Write)
}

/// The first lock of others that is in the way. Those of sessions that are gone do not count.
async fn obstacle(
    tx: &mut Tx,
    ino: Ino,
    own: Owner,
    wanted: Lock,
    read: Read,
) -> Result<Option<Obstacle>> {
    let mut next = Some(Query::new(tx.keys.locks(ino)));
    while let Some(query) = next {
        let page = tx.range(&query, read).await?;
        for (key, value) in page.iter() {
            let Some(Parsed::Lock { session, owner, flock, .. }) = tx.keys.parse(key) else {
                return Err(tx.damaged(key, "is damaged"));
            };
            if flock != own.flock || (Owner { session, owner, flock } == own) {
                continue;
            }
            let Some(locks) = decode_locks(key, value) else {
                return Err(tx.damaged(key, "is damaged"));
            };
            let Some(lock) = locks.into_iter().find(|held| in_the_way(held, wanted)) else {
                continue;
            };
            let session_key = tx.keys.session(session);
            if session == own.session || tx.get(&session_key, read).await?.is_some() {
                return Ok(Some(Obstacle { lock, key: Key::new(key) }));
            }
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    Ok(None)
}

/// Changes what an owner has locked.
async fn apply(tx: &mut Tx, ino: Ino, owner: Owner, lock: Lock) -> Result<()> {
    let key = tx.keys.lock(ino, owner.session, owner.owner, owner.flock);
    let held = match tx.get(&key, Read::Serializable).await? {
        None => Vec::new(),
        Some(record) => {
            decode_locks(&key, &record).ok_or_else(|| tx.damaged(&key, "is damaged"))?
        }
    };
    let locks = with(held, lock);
    if locks.len() > RANGES_MAX {
        return Err(Error::new(Kind::NoLocks, "this owner has too many locks in this file"));
    }
    if locks.is_empty() {
        return tx.delete(&key);
    }
    tx.put(&key, encode_locks(&key, &locks))?;
    // So that they are found when the session has died.
    let index = tx.keys.held(owner.session, ino);
    tx.max(&index, 0)
}

/// What an owner has after `lock`: its range belongs to it alone, and equal neighbours are one.
fn with(held: Vec<Lock>, lock: Lock) -> Vec<Lock> {
    let mut locks = Vec::with_capacity(held.len() + 2);
    for old in held {
        if old.end <= lock.start || lock.end <= old.start {
            locks.push(old);
            continue;
        }
        if old.start < lock.start {
            locks.push(Lock { end: lock.start, ..old });
        }
        if lock.end < old.end {
            locks.push(Lock { start: lock.end, ..old });
        }
    }
    if lock.kind != LockKind::Unlock {
        locks.push(lock);
    }
    locks.sort_by_key(|lock| lock.start);
    let mut merged: Vec<Lock> = Vec::with_capacity(locks.len());
    for lock in locks {
        match merged.last_mut() {
            Some(last) if last.end == lock.start && last.kind == lock.kind => last.end = lock.end,
            _ => merged.push(lock),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(kind: LockKind, start: u64, end: u64) -> Lock {
        Lock { kind, start, end, pid: 7 }
    }

    #[test]
    fn a_lock_in_the_middle_splits_and_a_lock_over_all_joins() {
        let read = |start, end| lock(LockKind::Read, start, end);
        let write = |start, end| lock(LockKind::Write, start, end);
        let held = with(vec![read(0, 100)], write(40, 60));
        assert_eq!(held, [read(0, 40), write(40, 60), read(60, 100)]);
        assert_eq!(with(held.clone(), read(40, 60)), [read(0, 100)]);
        assert_eq!(
            with(held.clone(), lock(LockKind::Unlock, 0, 50)),
            [write(50, 60), read(60, 100)]
        );
        assert_eq!(with(held, lock(LockKind::Unlock, 0, u64::MAX)), []);
    }
}
