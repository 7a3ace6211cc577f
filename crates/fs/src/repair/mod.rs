//! Mending a volume that nobody uses: a check that writes down what is to be done where it finds
//! something, in rounds, until a round finds nothing that can be mended.
//!
//! What cannot be used goes; all else stays. What has lost its name gets one in lost+found. Bytes are never
//! invented: a block that parity cannot rebuild stays as it is, and reading it is an error.
//!
//! Every fix is worked out from what is there in the transaction that writes it, and leaves a volume that
//! is no worse: what is named goes after its name, what names comes after what it names. So a repair that
//! was cut off is gone on with by the next one.

mod apply;
mod bytes;
mod edit;
mod fix;
mod inode;
mod lost;

pub(crate) use fix::Fix;
pub use lost::LOST_AND_FOUND;

use crate::check::{Check, CheckReport, FINDINGS_MAX};
use crate::error::Result;
use crate::progress::Progress;
use crate::volume::{Volume, silent_sessions};
use base::Spawn;
use kv::{Query, Read};
use std::sync::Arc;

/// Fixes that one transaction writes.
const FIXES_AT_ONCE: usize = 16;
/// Fixes that wait to be written.
const QUEUE_MAX: usize = 256;
/// The most rounds. What one fix uncovers the next round finds; damage that hides damage is rarely deep.
const ROUNDS_MAX: usize = 32;

/// Sessions of the dead are no finding. A repair ends them before it changes anything.
pub const DEAD_SESSION: &str = "dead-session";

/// Something that was mended, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The kind of finding, or [`DEAD_SESSION`].
    pub kind: &'static str,
    /// What was done.
    pub what: String,
}

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairReport {
    /// What was found before anything was changed.
    pub before: CheckReport,
    /// What was mended: the first [`FINDINGS_MAX`] of it.
    pub repaired: Vec<Repaired>,
    /// How much in all.
    pub repaired_total: u64,
    /// What is there now. Findings that are left cannot be repaired: restore what they name from a copy.
    pub after: CheckReport,
}

/// A repair of a volume.
#[derive(Debug, Clone)]
pub struct Repair {
    check: Check,
    volume: Volume,
    dry: bool,
}

impl Repair {
    /// A repair of everything that can be mended.
    ///
    /// Nobody may use the volume meanwhile. On a private store that is for the caller to see to: sessions
    /// that are found are those of the dead. On a shared one a session that shows life is an error.
    pub fn new(volume: &Volume) -> Self {
        Self { check: Check::new(volume), volume: volume.clone(), dry: false }
    }

    /// Only tells what would be done first. What that would uncover is not known.
    #[must_use]
    pub fn dry_run(mut self, dry: bool) -> Self {
        self.dry = dry;
        self
    }

    /// So many threads look for what is wrong. What is mended is mended by one.
    #[must_use]
    pub fn threads(mut self, threads: usize, spawn: Arc<dyn Spawn>) -> Self {
        self.check = self.check.threads(threads, spawn);
        self
    }

    /// Checks, mends, and checks again. A volume in which nothing is found is not changed at all.
    /// `progress` counts the keys of each round.
    pub async fn run(&self, progress: &dyn Progress) -> Result<RepairReport> {
        let Self { check, volume, .. } = self;
        let before = check.run(progress).await?;
        let mut report = RepairReport { after: before.clone(), before, ..RepairReport::default() };
        // Of a store that cannot be read nobody knows what is missing.
        if !report.before.complete || report.before.is_clean() {
            return Ok(report);
        }
        let sessions = Query::new(volume.keys.sessions()).limit(1);
        let mut txn = volume.world.store.begin().await?;
        if !txn.range(&sessions, Read::Snapshot).await?.is_empty() {
            let what = "sessions of processes that have died: ended".to_owned();
            report.repaired.push(Repaired { kind: DEAD_SESSION, what });
            report.repaired_total += 1;
        }
        drop(txn);
        if self.dry {
            let planned = Mending::new(volume, true);
            if let (_, Some(planned)) = check.run_mending(progress, Some(planned)).await? {
                report.add(planned);
            }
            return Ok(report);
        }
        if volume.world.store.capabilities().shared {
            silent_sessions(&volume.world, volume.keys, progress).await?;
        }
        while crate::session::bury(volume).await? {}
        for _ in 0..ROUNDS_MAX {
            let mending = Mending::new(volume, false);
            let (after, mending) = check.run_mending(progress, Some(mending)).await?;
            report.after = after;
            let Some(mending) = mending else { break };
            let idle = mending.is_idle();
            report.add(mending);
            if idle {
                break;
            }
        }
        volume.world.store.sync().await?;
        Ok(report)
    }
}

impl RepairReport {
    fn add(&mut self, mending: Mending) {
        self.repaired_total += mending.done_total;
        let room = FINDINGS_MAX.saturating_sub(self.repaired.len());
        self.repaired.extend(mending.done.into_iter().take(room));
    }

    /// Whether anything was changed, or would be.
    pub fn is_changed(&self) -> bool {
        self.repaired_total > 0
    }
}

/// What one round mends.
#[derive(Debug)]
pub(crate) struct Mending {
    volume: Volume,
    dry: bool,
    queue: Vec<(&'static str, Fix)>,
    done: Vec<Repaired>,
    done_total: u64,
}

impl Mending {
    fn new(volume: &Volume, dry: bool) -> Self {
        Self { volume: volume.clone(), dry, queue: Vec::new(), done: Vec::new(), done_total: 0 }
    }

    pub(crate) fn add(&mut self, kind: &'static str, fix: Fix) {
        self.queue.push((kind, fix));
    }

    /// Whether it is time to write.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= QUEUE_MAX
    }

    /// Whether nothing was or is to be changed.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.done_total == 0
    }

    /// Writes what waits, in order.
    pub(crate) async fn write(&mut self) -> Result<()> {
        let queue = std::mem::take(&mut self.queue);
        for batch in queue.chunks(FIXES_AT_ONCE) {
            let changed = match self.dry {
                true => vec![true; batch.len()],
                false => apply::batch(&self.volume, batch).await?,
            };
            for ((kind, fix), _) in batch.iter().zip(changed).filter(|(_, changed)| *changed) {
                self.done_total += 1;
                if self.done.len() < FINDINGS_MAX {
                    self.done.push(Repaired { kind, what: fix.words(&self.volume) });
                }
            }
        }
        Ok(())
    }
}
