//! Durable work: each step is one transaction that reads the job's record and moves its cursor, so
//! whoever finds a job can go on with it, and two who find it do no harm.

mod drop_blob;
mod reap;
mod stage;
mod sweep;
mod trim;

use crate::error::{Error, Kind, Result, corrupt};
use crate::schema::{Job, Parsed};
use crate::session::{OpKind, Session};
use crate::tx::Tx;
use kv::{Query, Read};

/// Chunks, blocks or inodes that one step handles.
pub(crate) const STEP: usize = 16;

impl Session {
    /// Runs all jobs that this session may run, to their ends. Returns how many steps it took. One
    /// that meets damage waits until that is mended, and does not keep the others from running.
    pub(crate) async fn run_jobs(&self) -> Result<usize> {
        let mut steps = 0;
        let mut after = 0;
        while let Some((id, job)) = self.next_job(after).await? {
            after = id.saturating_add(1);
            let Some(job) = job else { continue };
            let mut more = self.may_run(&job).await?;
            while more {
                more = match self.step_job(id).await {
                    Err(error) if error.kind() == Kind::Corrupt => break,
                    stepped => stepped?,
                };
                steps += 1;
                self.beat_if_due().await?;
            }
            if let Job::Trim { ino, .. } = job {
                // It takes less space now.
                self.attributes_changed(ino);
            }
        }
        Ok(steps)
    }

    /// The first job with this number or a higher one; without its record when that is damaged.
    async fn next_job(&self, from: u64) -> Result<Option<(u64, Option<Job>)>> {
        self.view(|mut tx| async move {
            let range = kv::KeyRange { start: tx.keys.job(from), end: tx.keys.jobs().end };
            let page = tx.range(&Query::new(range).limit(1), Read::Snapshot).await?;
            let Some((key, value)) = page.get(0) else {
                return Ok((tx, None));
            };
            let Some(Parsed::Job { job: id }) = tx.keys.parse(key) else {
                return Err(tx.damaged(key, "is no key of a job"));
            };
            let job = Job::decode(key, value);
            if job.is_none() {
                tx.damaged(key, "is damaged");
            }
            Ok((tx, Some((id, job))))
        })
        .await
    }

    /// Blocks that a live session is still staging are its own.
    async fn may_run(&self, job: &Job) -> Result<bool> {
        let Job::Stage { session, generation, .. } = job else {
            return Ok(true);
        };
        if *session == self.0.id {
            return Ok(!self.0.staging.lock().contains(generation));
        }
        let session = *session;
        self.view(|mut tx| async move {
            let key = tx.keys.session(session);
            let alive = tx.get(&key, Read::Snapshot).await?.is_some();
            Ok((tx, !alive))
        })
        .await
    }

    /// One step of a job. True when there is more to do.
    pub(crate) async fn step_job(&self, id: u64) -> Result<bool> {
        self.change(OpKind::Idempotent, |mut tx| async move {
            // Every kind of job ends in less than there was.
            tx.frees_space();
            let more = match tx.job(id).await? {
                Some(job) => step(&mut tx, id, job).await?,
                None => false,
            };
            Ok((tx, more))
        })
        .await
    }

    /// Runs an operation on data; first the job that it has to wait for, if there is one.
    pub(crate) async fn change_data<T: crate::reply::Reply, F>(
        &self,
        kind: OpKind,
        body: impl Fn(Tx) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<(Tx, T)>>,
    {
        loop {
            match self.change(kind, &body).await {
                Err(error) => match error.waits_for_trim() {
                    Some(job) => while self.step_job(job).await? {},
                    None => return Err(error),
                },
                done => return done,
            }
        }
    }

    /// Gives up what this session itself holds, before it ends.
    pub(crate) async fn run_reap_of(&self, session: u64) -> Result<()> {
        let job = self
            .change(OpKind::NeedsReplay, |mut tx| async move {
                tx.frees_space();
                let job = tx.fresh_job().await?;
                tx.put_job(job, &Job::Reap { session, next: 0 })?;
                Ok((tx, job))
            })
            .await?;
        while self.step_job(job).await? {}
        Ok(())
    }

    /// Jobs that wait, for people and tests.
    pub async fn jobs(&self) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        let mut after = 0;
        while let Some((id, job)) = self.next_job(after).await? {
            jobs.push(job.ok_or_else(|| corrupt("a job is damaged: run fsck"))?);
            after = id.saturating_add(1);
        }
        Ok(jobs)
    }
}

async fn step(tx: &mut Tx, id: u64, job: Job) -> Result<bool> {
    match job {
        Job::DropBlob { slot, blob, next } => drop_blob::step(tx, id, slot, blob, next).await,
        Job::Trim { ino, next } => trim::step(tx, id, ino, next).await,
        Job::Stage { session, slot, blob, generation, next, end } => {
            if session != tx.session.id {
                let key = tx.keys.session(session);
                if tx.get(&key, Read::Serializable).await?.is_some() {
                    return Err(Error::new(Kind::Busy, "a live session is writing these blocks"));
                }
            }
            stage::step(tx, id, Job::Stage { session, slot, blob, generation, next, end })
        }
        Job::Sweep { slot, blob, replaced } => sweep::step(tx, id, slot, blob, replaced).await,
        Job::Reap { session, next } => reap::step(tx, id, session, next).await,
    }
}
