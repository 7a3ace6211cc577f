//! Other sessions, judged by the progress of their heartbeats on this session's own clock.

use super::{OpKind, Session};
use crate::error::Result;
use crate::schema::{Job, Parsed};
use crate::tx::number;
use base::sync::Mutex;
use kv::{Query, Read};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What was last seen of others: their counter, and since when it has stood there.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<BTreeMap<u64, (u64, Duration)>>);

impl Session {
    /// Moves this session's own heartbeat on. Fails when the session was ended.
    pub async fn beat(&self) -> Result<()> {
        let id = self.0.id;
        let now = self.0.volume.world.clock.now().as_nanos();
        self.0.beaten.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.change(OpKind::Idempotent, |mut tx| async move {
            tx.frees_space();
            let key = tx.keys.heartbeat(id);
            tx.add(&key, 1)?;
            Ok((tx, ()))
        })
        .await
    }

    /// Whether the heartbeat should be written again.
    pub(super) fn is_beat_due(&self) -> bool {
        let last = Duration::from_nanos(self.0.beaten.load(Ordering::Relaxed));
        self.0.volume.world.clock.now().saturating_sub(last) >= self.0.options.heartbeat
    }

    /// For work that takes long: others must see that this session goes on.
    pub(crate) async fn beat_if_due(&self) -> Result<()> {
        if self.is_beat_due() { self.beat().await } else { Ok(()) }
    }

    /// Looks at all other sessions and ends those that have shown no progress for too long. Returns
    /// how many it ended.
    pub async fn judge_peers(&self) -> Result<usize> {
        let seen = self.heartbeats().await?;
        let now = self.0.volume.world.clock.now();
        let mut dead = Vec::new();
        {
            let mut peers = self.0.peers.0.lock();
            peers.retain(|id, _| seen.contains_key(id));
            for (&id, &counter) in seen.iter().filter(|(id, _)| **id != self.0.id) {
                let (last, since) = peers.entry(id).or_insert((counter, now));
                if *last != counter {
                    (*last, *since) = (counter, now);
                } else if now.saturating_sub(*since) >= self.0.options.dead_after {
                    dead.push((id, counter));
                }
            }
        }
        let mut ended = 0;
        for (id, counter) in dead {
            if self.end_peer(id, Some(counter)).await? {
                tracing::warn!(session = id, "ended a session that was silent for too long");
                ended += 1;
            }
        }
        Ok(ended)
    }

    async fn heartbeats(&self) -> Result<BTreeMap<u64, u64>> {
        self.view(|mut tx| async move {
            let mut seen = BTreeMap::new();
            let mut next = Some(Query::new(tx.keys.sessions()));
            while let Some(query) = next {
                let page = tx.range(&query, Read::Snapshot).await?;
                for (key, value) in page.iter() {
                    match tx.keys.parse(key) {
                        Some(Parsed::Session { session }) => {
                            seen.entry(session).or_insert(0);
                        }
                        Some(Parsed::Heartbeat { session }) => {
                            seen.insert(session, number(value));
                        }
                        _ => {}
                    }
                }
                next = if page.more { query.behind(&page) } else { None };
            }
            Ok((tx, seen))
        })
        .await
    }

    /// Ends a session, if its heartbeat still is what it was judged by; one that ends itself is not
    /// judged. From this commit on it can change nothing.
    pub(super) async fn end_peer(&self, id: u64, judged_by: Option<u64>) -> Result<bool> {
        let ended = self
            .change(OpKind::NeedsReplay, |mut tx| async move {
                tx.frees_space();
                let heartbeat = tx.keys.heartbeat(id);
                let own = tx.keys.session(id);
                let mut there = tx.get(&own, Read::Serializable).await?.is_some();
                if let Some(counter) = judged_by {
                    let found = tx.get(&heartbeat, Read::Serializable).await?;
                    if found.as_deref().map_or(0, number) != counter {
                        return Ok((tx, false));
                    }
                    there |= found.is_some();
                }
                tx.delete(&own)?;
                tx.delete(&heartbeat)?;
                let job = tx.fresh_job().await?;
                tx.put_job(job, &Job::Reap { session: id, next: 0 })?;
                Ok((tx, there))
            })
            .await?;
        if ended {
            self.0.counts.reaped_sessions.fetch_add(1, Ordering::Relaxed);
        }
        Ok(ended)
    }
}
