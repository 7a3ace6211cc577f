//! Checking a volume, and collecting its garbage.

use super::options::about;
use super::{Asker, Told};
use crate::error::Result;
use crate::opened::OpenStore;
use base::exec::block_on;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsckReport {
    /// The volume.
    pub volume: String,
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
    /// How much is wrong.
    pub findings_total: u64,
    /// What is wrong, the first of it.
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

/// Checks a volume.
pub(super) fn fsck(store: &Arc<OpenStore>, volume: &str, asker: &dyn Asker) -> Result<FsckReport> {
    let used = store.use_volume(volume)?;
    let check = fs::Check::new(used.session().volume());
    let report = block_on(check.run(&Told(asker))).map_err(|error| about(store, volume, error))?;
    Ok(FsckReport {
        volume: volume.to_owned(),
        keys: report.keys,
        inodes: report.inodes,
        entries: report.entries,
        blocks: report.blocks,
        bytes: report.bytes,
        findings_total: report.findings_total,
        findings: report
            .findings
            .into_iter()
            .map(|finding| FindingReport { kind: finding.kind.to_owned(), what: finding.what })
            .collect(),
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
