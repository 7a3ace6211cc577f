//! Requests that a client asks again when the process that answers it has died: which were done, and
//! what the answer was.
//!
//! The reply of each is written in the transaction of its operation, under a slot that the client gives
//! to no other request until this one is answered. Whoever takes over reads them all, and keeps them
//! until it ends itself, as it may die in its turn before it has answered.

use super::{LoggedOp, Session, Shared};
use crate::error::{Error, Result};
use crate::reply::{self, Reply};
use crate::schema::{Keys, Parsed};
use crate::tx::Tx;
use crate::volume::Volume;
use base::sync::Mutex;
use bytes::Bytes;
use kv::{Durability, Key, Query, Read};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Where slots begin among the numbers of operations: the others never get there.
const SLOTS: u64 = 1 << 62;
/// Where the replies of those before begin.
const INHERITED: u64 = SLOTS | 1 << 61;
/// The most replies of those before that are kept: far more than can be under way at once. The latest.
const INHERITED_MAX: usize = 4096;
/// How many one transaction writes.
const WRITTEN_AT_ONCE: usize = 256;

/// Which request an operation is done for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The client's number for it, of which it never uses one twice.
    pub number: u64,
    /// A small number that no other request has before this one is answered.
    pub slot: u32,
    /// It was asked before, and that may have been done.
    pub again: bool,
}

impl Asked {
    /// Where its reply is kept.
    pub(super) fn key(self, keys: Keys, session: u64) -> Key {
        keys.op(session, SLOTS + u64::from(self.slot))
    }
}

/// Replies of those before, by the number of the request.
#[derive(Debug, Default)]
pub(crate) struct Replies(Mutex<BTreeMap<u64, Bytes>>);

impl Session {
    /// This session for one request: an operation that was done for it before answers what it answered
    /// then. For operations of one transaction only.
    pub fn asked(&self, asked: Asked) -> Session {
        Session(self.0.clone(), self.0.options.survives.then_some(asked))
    }

    /// What was answered when this was asked before.
    pub(super) fn answered_before<T: Reply>(&self) -> Option<Result<T>> {
        let asked = self.1.filter(|asked| asked.again)?;
        let record = self.0.replies.0.lock().get(&asked.number).cloned()?;
        self.0.counts.replays.fetch_add(1, Ordering::Relaxed);
        let damaged = || crate::error::corrupt("the reply of a request is damaged: run fsck");
        Some(reply::decode_bare(&record).ok_or_else(damaged))
    }
}

impl LoggedOp<'_> {
    /// What was recorded for this very request, after a commit whose outcome is unknown.
    pub(super) async fn replay_asked<T: Reply>(
        &self,
        tx: &mut Tx,
        asked: Asked,
    ) -> Result<Option<T>> {
        let key = asked.key(tx.keys, self.shared.id);
        let Some(record) = tx.get(&key, Read::Serializable).await? else {
            return Ok(None);
        };
        match reply::decode_asked(&key, &record) {
            Some((number, _)) if number != asked.number => Ok(None),
            Some((_, bare)) => match reply::decode_bare(bare) {
                Some(value) => Ok(Some(value)),
                None => Err(tx.damaged(&key, "is damaged")),
            },
            None => Err(tx.damaged(&key, "is damaged")),
        }
    }

    pub(super) fn record_asked<T: Reply>(
        &self,
        tx: &mut Tx,
        asked: Asked,
        value: &T,
    ) -> Result<()> {
        let key = asked.key(tx.keys, self.shared.id);
        tx.put(&key, reply::encode_for(&key, asked.number, value))
    }
}

/// Reads what those before have answered, or were about to.
pub(super) async fn inherit(volume: &Volume) -> Result<Replies> {
    let keys = volume.keys;
    let read = volume.world.store.transact_send(Durability::Process, |mut txn, _| async move {
        let mut found = BTreeMap::new();
        let mut next = Some(Query::new(keys.all_ops()));
        while let Some(query) = next {
            let page = txn.range(&query, Read::Snapshot).await?;
            for (key, record) in page.iter() {
                let Some(Parsed::Op { op, .. }) = keys.parse(key) else { continue };
                if op < SLOTS {
                    continue;
                }
                match reply::decode_asked(key, record) {
                    Some((number, bare)) => {
                        found.insert(number, Bytes::copy_from_slice(bare));
                    }
                    None => {
                        let what = volume.describe(key);
                        tracing::error!(volume = volume.name(), key = what, "damaged");
                    }
                }
            }
            next = if page.more { query.behind(&page) } else { None };
        }
        Ok::<_, Error>((txn, found))
    });
    let mut found: BTreeMap<u64, Bytes> = read.await?.value;
    while found.len() > INHERITED_MAX {
        found.pop_first();
    }
    Ok(Replies(Mutex::new(found)))
}

impl Shared {
    /// Writes what was inherited under this session's own key: what is left of those before goes.
    pub(super) async fn keep_inherited(&self) -> Result<()> {
        let (keys, id) = (self.volume.keys, self.id);
        let all: Vec<(u64, Bytes)> =
            self.replies.0.lock().iter().map(|(number, bare)| (*number, bare.clone())).collect();
        for (piece, replies) in all.chunks(WRITTEN_AT_ONCE).enumerate() {
            let first = INHERITED + (piece * WRITTEN_AT_ONCE) as u64;
            let write = self.volume.world.store.transact_send(
                Durability::Process,
                |mut txn, _| async move {
                    for (at, (number, bare)) in replies.iter().enumerate() {
                        let key = keys.op(id, first + at as u64);
                        txn.put(&key, reply::encode_asked(&key, *number, bare))?;
                    }
                    Ok::<_, Error>((txn, ()))
                },
            );
            write.await?;
        }
        Ok(())
    }
}
