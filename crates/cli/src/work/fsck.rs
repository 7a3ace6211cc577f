//! Checking a volume, and collecting its garbage.

use super::options::about;
use super::{Asker, Told};
use crate::control::protocol::FsckMode;
use crate::error::Result;
use crate::opened::OpenStore;
use base::exec::block_on;
use base::{Spawn, SystemThreads};
use fs::{Repair, RepairReport};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a check found, and what a repair did about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsckReport {
    /// The volume.
    pub volume: String,
    /// What was asked for.
    pub mode: FsckMode,
    /// Keys that were looked at.
    pub keys: u64,
    /// Inodes.
    pub inodes: u64,
    /// Names.
    pub entries: u64,
    /// Blocks.
    pub blocks: u64,
    /// Bytes of data that were verified.
    pub bytes: u64,
    /// How much was wrong.
    pub found_total: u64,
    /// How much was repaired, or would be.
    pub repaired_total: u64,
    /// What was repaired, or would be, the first of it.
    pub repaired: Vec<FindingReport>,
    /// How much is wrong now. After a repair it is what cannot be repaired.
    pub findings_total: u64,
    /// What is wrong now, the first of it.
    pub findings: Vec<FindingReport>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingReport {
    /// Of what kind.
    pub kind: String,
    /// What it is.
    pub what: String,
}

/// What was collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcReport {
    /// The volume.
    pub volume: String,
    /// Dead sessions that were ended.
    pub sessions: u64,
    /// Steps of jobs.
    pub job_steps: u64,
    /// Inodes without a name that were removed.
    pub inodes: u64,
    /// Bytes that came free.
    pub bytes: u64,
    /// Jobs that are left.
    pub jobs_left: u64,
}

/// Checks a volume, which may be in use, or repairs one that is not.
pub(super) fn fsck(
    store: &Arc<OpenStore>,
    volume: &str,
    mode: FsckMode,
    threads: Option<u16>,
    asker: &dyn Asker,
) -> Result<FsckReport> {
    let threads = match threads {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let spawn: Arc<dyn Spawn> = Arc::new(SystemThreads);
    let done = match mode {
        FsckMode::Check => {
            let check = fs::Check::new(&store.volume(volume)?).threads(threads, spawn);
            let found = block_on(check.run(&Told(asker)));
            found.map(|after| RepairReport { before: after.clone(), after, ..Default::default() })
        }
        FsckMode::Plan | FsckMode::Repair => store.alone(volume, "repair", || {
            let repair = Repair::new(&store.volume(volume)?)
                .threads(threads, spawn)
                .dry_run(mode == FsckMode::Plan);
            Ok(block_on(repair.run(&Told(asker))))
        })?,
    };
    let done = done.map_err(|error| about(store, volume, error))?;
    let report = |kind: &str, what| FindingReport { kind: kind.to_owned(), what };
    let RepairReport { before, repaired, repaired_total, after } = done;
    Ok(FsckReport {
        volume: volume.to_owned(),
        mode,
        keys: after.keys,
        inodes: after.inodes,
        entries: after.entries,
        blocks: after.blocks,
        bytes: after.bytes,
        found_total: before.findings_total,
        repaired_total,
        repaired: repaired.into_iter().map(|done| report(done.kind, done.what)).collect(),
        findings_total: after.findings_total,
        findings: after.findings.into_iter().map(|left| report(left.kind, left.what)).collect(),
    })
}

/// Does all work that waits.
pub(super) fn gc(store: &Arc<OpenStore>, volume: &str, asker: &dyn Asker) -> Result<GcReport> {
    let used = store.use_volume(volume)?;
    let done = block_on(used.session().gc(&Told(asker)));
    let done = done.map_err(|error| about(store, volume, error))?;
    Ok(GcReport {
        volume: volume.to_owned(),
        sessions: done.sessions,
        job_steps: done.job_steps,
        inodes: done.inodes,
        bytes: done.bytes,
        jobs_left: done.jobs_left,
    })
}
