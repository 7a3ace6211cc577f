//! Checking a volume: every invariant of docs/format.md, over one snapshot, reading only.
//!
//! Keys are read in their order, family by family; the large families in parts, which several threads may
//! read at the same time. What has to be remembered meanwhile is a row of 24 bytes for each inode (16
//! more for a file that was once cut to nothing after it had chunks), a number or two for each session
//! and each job, and for each reader one chunk's list of blocks with its parity, and pages of the store.
//!
//! A repair is the same check, which writes down what is to be done about a finding where it is found.

mod backing;
mod chunks;
mod crew;
mod finding;
mod ground;
mod inline;
mod inodes;
mod lost_map;
mod names;
mod parity;
mod records;
mod scan;
mod table;

pub use finding::{CheckReport, FINDINGS_MAX, Finding, KINDS as FINDING_KINDS};

pub(crate) use inodes::NUMBERS_END;

use crate::error::Result;
use crate::progress::Progress;
use crate::repair::Mending;
use crate::volume::Volume;
use base::Spawn;
use crew::{Crew, Phase};
use ground::Ground;
use scan::Scan;
use std::sync::Arc;

/// A check of a volume, which may be in use: what is seen is one instant of it.
#[derive(Debug, Clone)]
pub struct Check {
    volume: Volume,
    deep: bool,
    crew: Option<Crew>,
}

impl Check {
    /// A check of everything.
    pub fn new(volume: &Volume) -> Self {
        Self { volume: volume.clone(), deep: true, crew: None }
    }

    /// Whether blocks and inline bytes are also decoded and compared with their checksums and their
    /// parity, which is most of the work. They are by default.
    #[must_use]
    pub fn deep(mut self, deep: bool) -> Self {
        self.deep = deep;
        self
    }

    /// So many threads in all, the caller's among them. What is found does not depend on their number.
    #[must_use]
    pub fn threads(mut self, threads: usize, spawn: Arc<dyn Spawn>) -> Self {
        self.crew = Some(Crew { helpers: threads.saturating_sub(1), spawn });
        self
    }

    /// Looks at every key of the volume. `progress` counts keys.
    ///
    /// The snapshot is held to the end. An engine that keeps none for so long is read on one after the
    /// other while nobody has a session in the volume; else the check fails and says so.
    pub async fn run(&self, progress: &dyn Progress) -> Result<CheckReport> {
        Ok(self.run_mending(progress, None).await?.0)
    }

    /// The same; what is found is also mended where that can be done.
    pub(crate) async fn run_mending(
        &self,
        progress: &dyn Progress,
        mending: Option<Mending>,
    ) -> Result<(CheckReport, Option<Mending>)> {
        let ground = Arc::new(Ground::new(&self.volume, self.deep).await?);
        let mut scan = Scan::new(ground, Some(progress));
        scan.mending = mending;
        match look(&mut scan, self.crew.as_ref()).await {
            Err(error) if scan.found.report.complete => Err(error),
            // Where the store itself is damaged the report says so.
            _ => Ok((scan.found.report, scan.mending)),
        }
    }
}

async fn look(scan: &mut Scan<'_>, crew: Option<&Crew>) -> Result<()> {
    records::volume(scan).await?;
    records::sessions(scan).await?;
    records::jobs(scan).await?;
    crew::read(scan, Phase::Inodes, crew).await?;
    backing::numbers(scan).await?;
    inodes::all(scan)?;
    backing::records(scan).await?;
    backing::files(scan).await?;
    crew::read(scan, Phase::Entries, crew).await?;
    names::troubled(scan).await?;
    names::links(scan).await?;
    names::ways_up(scan);
    crew::read(scan, Phase::Inline, crew).await?;
    inline::missing(scan);
    crew::read(scan, Phase::Chunks, crew).await?;
    chunks::space(scan).await?;
    records::held(scan).await?;
    records::operations(scan).await?;
    // Counters are mended when nothing else is: who counts must know what was changed.
    scan.write(true).await?;
    records::counters(scan);
    records::strangers(scan).await?;
    scan.write(true).await
}
