//! What a session does without being asked: its heartbeat, judging others, jobs, garbage, access
//! times.

use super::Session;
use crate::error::{Kind, Result};
use kv::Read;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How soon a job that this session has made is begun.
const TICK: Duration = Duration::from_secs(1);

/// What one round of background work did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maintained {
    /// Sessions that were ended.
    pub ended: usize,
    /// Steps of jobs.
    pub job_steps: usize,
    /// Inodes without a name that were removed.
    pub collected: usize,
    /// Access times that were written.
    pub times: usize,
}

impl Maintained {
    /// Whether there was nothing to do.
    pub fn is_quiet(&self) -> bool {
        *self == Self::default()
    }
}

impl Session {
    /// One round of background work.
    pub async fn maintain(&self) -> Result<Maintained> {
        self.beat().await?;
        let ended = if self.0.private { 0 } else { self.judge_peers().await? };
        let times = self.flush_times().await?;
        self.leave_abandoned().await?;
        let job_steps = self.run_jobs().await?;
        let collected = self.collect_garbage().await?;
        Ok(Maintained { ended, job_steps, collected, times })
    }

    /// Does background work until the session ends. A frontend runs this beside its requests.
    pub async fn run(&self) {
        let clock = &self.0.volume.world.clock;
        let pause = self.0.options.heartbeat.min(TICK);
        while !self.is_ended() {
            let due = self.is_beat_due();
            if self.0.jobs_waiting.swap(false, Ordering::Relaxed) || due {
                match self.maintain().await {
                    Ok(_) => {}
                    Err(error) if error.kind() == Kind::Stale => return,
                    Err(error) => {
                        tracing::warn!(%error, "background work failed, and is tried again");
                    }
                }
            }
            clock.sleep(pause).await;
        }
    }

    /// Waits until this session's own key is changed or gone, and ends the session then. Returns
    /// when the session has ended.
    pub async fn watch_self(&self) {
        while !self.is_ended() {
            let watch = self
                .view(|mut tx| async move {
                    let key = tx.session.session_key.clone();
                    let there = tx.get(&key, Read::Snapshot).await?.is_some();
                    let watch = if there { Some(tx.watch(&key).await?) } else { None };
                    Ok((tx, watch))
                })
                .await;
            match watch {
                Ok(Some(watch)) => {
                    // Whatever it says: look again.
                    let _ = watch.await;
                }
                Ok(None) => {
                    self.0.end();
                    return;
                }
                Err(error) if error.kind() == Kind::Stale => return,
                Err(_) => self.0.volume.world.clock.sleep(Duration::from_secs(1)).await,
            }
        }
    }
}
