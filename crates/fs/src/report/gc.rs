//! Collecting garbage on demand: all work that waits is done now, not when the background gets to it.

use crate::error::{Kind, Result};
use crate::progress::{Progress, go_on};
use crate::schema::{Job, Parsed};
use crate::session::Session;
use kv::{KeyRange, Query, Read};

/// The most rounds: others may make new garbage all the time.
const ROUNDS_MAX: usize = 16;

/// What was done, and what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// Sessions of the dead that were ended.
    pub sessions: u64,
    /// Steps of jobs.
    pub job_steps: u64,
    /// Inodes without names that were removed.
    pub inodes: u64,
    /// Bytes that data takes less than before. What others wrote meanwhile is taken off.
    pub bytes: u64,
    /// Jobs that are left: those of large writes that are under way, and those that met damage.
    pub jobs_left: u64,
}

impl Session {
    /// Runs jobs and collects garbage until nothing is left that this session may remove. `progress`
    /// counts steps and inodes.
    pub async fn gc(&self, progress: &dyn Progress) -> Result<Collected> {
        let (before, _) = self.usage().await?;
        let mut done = Collected::default();
        for _ in 0..ROUNDS_MAX {
            let at_first = done;
            self.beat().await?;
            if !self.0.private {
                done.sessions += self.judge_peers().await? as u64;
            }
            self.leave_abandoned().await?;
            done.jobs_left = self.run_all_jobs(&mut done.job_steps, progress).await?;
            done.inodes += self.collect_garbage().await? as u64;
            progress.advance(done.job_steps + done.inodes, None);
            if done == (Collected { jobs_left: done.jobs_left, ..at_first }) {
                break;
            }
        }
        done.bytes = before.saturating_sub(self.usage().await?.0);
        Ok(done)
    }

    /// Runs every job that may be run to its end. Returns how many are left.
    async fn run_all_jobs(&self, steps: &mut u64, progress: &dyn Progress) -> Result<u64> {
        let mut left = 0;
        let mut from = 0;
        while let Some((id, may_run)) = self.job_from(from).await? {
            from = id.saturating_add(1);
            let mut more = may_run;
            while more {
                go_on(progress)?;
                more = match self.step_job(id).await {
                    // It waits until what is damaged is mended.
                    Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Busy) => break,
                    stepped => stepped?,
                };
                *steps += 1;
                progress.advance(*steps, None);
                self.beat_if_due().await?;
            }
            left += u64::from(more || !may_run);
        }
        Ok(left)
    }

    /// The first job with this number or a higher one, and whether this session may run it: not the
    /// blocks that somebody is still staging.
    async fn job_from(&self, from: u64) -> Result<Option<(u64, bool)>> {
        self.view(|mut tx| async move {
            let range = KeyRange { start: tx.keys.job(from), end: tx.keys.jobs().end };
            let page = tx.range(&Query::new(range).limit(1), Read::Snapshot).await?;
            let Some((key, value)) = page.get(0) else {
                return Ok((tx, None));
            };
            let Some(Parsed::Job { job: id }) = tx.keys.parse(key) else {
                return Err(tx.damaged(key, "is no key of a job"));
            };
            let may_run = match Job::decode(key, value) {
                None => false,
                Some(Job::Stage { session, generation, .. }) if session == tx.session.id => {
                    !tx.session.staging.lock().contains(&generation)
                }
                Some(Job::Stage { session, .. }) => {
                    let key = tx.keys.session(session);
                    tx.get(&key, Read::Snapshot).await?.is_none()
                }
                Some(_) => true,
            };
            Ok((tx, Some((id, may_run))))
        })
        .await
    }
}
