//! Checking a volume: every invariant of docs/format.md, over one snapshot, reading only.
//!
//! Keys are read in their order, family by family. What has to be remembered meanwhile is a row of 24
//! bytes for each inode (16 more for a file that was once cut to nothing after it had chunks), a
//! number or two for each session and each job, one chunk's list of blocks, and pages of the store.

mod chunks;
mod finding;
mod inline;
mod inodes;
mod names;
mod parity;
mod records;
mod scan;
mod table;

pub use finding::{CheckReport, FINDINGS_MAX, Finding, KINDS as FINDING_KINDS};

use crate::error::Result;
use crate::progress::Progress;
use crate::volume::Volume;
use scan::Scan;

/// A check of a volume, which may be in use: what is seen is one instant of it.
#[derive(Debug, Clone)]
pub struct Check {
    volume: Volume,
    deep: bool,
}

impl Check {
    /// A check of everything.
    pub fn new(volume: &Volume) -> Self {
        Self { volume: volume.clone(), deep: true }
    }

    /// Whether blocks and inline bytes are also decoded and compared with their checksums and their
    /// parity, which is most of the work. They are by default.
    #[must_use]
    pub fn deep(mut self, deep: bool) -> Self {
        self.deep = deep;
        self
    }

    /// Looks at every key of the volume. `progress` counts keys.
    ///
    /// The snapshot is held to the end: an engine that keeps none for so long fails the check.
    pub async fn run(&self, progress: &dyn Progress) -> Result<CheckReport> {
        let txn = self.volume.world.store.begin().await?;
        let mut scan = Scan::new(&self.volume, self.deep, txn, progress);
        match look(&mut scan).await {
            Err(error) if scan.report.complete => Err(error),
            // Where the store itself is damaged the report says so.
            _ => Ok(scan.report),
        }
    }
}

async fn look(scan: &mut Scan<'_>) -> Result<()> {
    records::volume(scan).await?;
    records::sessions(scan).await?;
    records::jobs(scan).await?;
    inodes::inodes(scan).await?;
    inodes::blobs(scan);
    names::entries(scan).await?;
    names::links(scan).await?;
    names::ways_up(scan);
    inline::inline(scan).await?;
    chunks::chunks(scan).await?;
    chunks::space(scan).await?;
    records::held(scan).await?;
    records::operations(scan).await?;
    records::counters(scan);
    records::strangers(scan).await
}
