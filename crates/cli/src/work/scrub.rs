//! Scrubbing a volume: in this process while somebody waits, or by a thread of the daemon.

use super::options::about;
use super::{Asker, Told};
use crate::control::protocol::ScrubAction;
use crate::error::{CliError, Failure, Result};
use crate::opened::{InUse, OpenStore};
use crate::units;
use base::exec::block_on;
use fs::{ScrubOptions, ScrubRecord, ScrubState};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How far a scrub is, and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// The volume.
    pub volume: String,
    /// never, running, stopped or done.
    pub state: String,
    /// When it began, in UTC.
    pub began: Option<String>,
    /// When it was last heard of, in UTC; of one that is done, its end.
    pub saved: Option<String>,
    /// Keys that were read.
    pub keys: u64,
    /// Blocks that were verified.
    pub blocks: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// What was rebuilt from parity.
    pub repaired: u64,
    /// What is damaged.
    pub damaged: u64,
    /// What is damaged, the first of it.
    pub findings: Vec<ScrubFindingReport>,
}

/// Something that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubFindingReport {
    /// Of what kind.
    pub kind: String,
    /// A path in the volume; empty where none is known.
    pub path: String,
    /// The inode; 0 for none.
    pub inode: u64,
    /// The key, and what is wrong with it.
    pub what: String,
}

/// What is asked of a scrub.
pub(super) fn scrub(
    store: &Arc<OpenStore>,
    volume: &str,
    action: ScrubAction,
    asker: &dyn Asker,
) -> Result<ScrubReport> {
    let about = |error| about(store, volume, error);
    match action {
        ScrubAction::Status => {}
        ScrubAction::Stop => {
            let used = store.use_volume(volume)?;
            block_on(used.session().stop_scrub()).map_err(about)?;
        }
        ScrubAction::Start { rate_bytes, restart, background } => {
            let options = ScrubOptions { rate_bytes, restart };
            if background {
                in_background(store, volume, options)?;
            } else {
                let used = store.use_volume(volume)?;
                let record = block_on(used.session().scrub(&options, &Told(asker)));
                return Ok(report(volume, Some(record.map_err(about)?)));
            }
        }
    }
    let record = block_on(store.volume(volume)?.scrub_status()).map_err(about)?;
    Ok(report(volume, record))
}

/// Leaves it to a thread, which ends with the store.
fn in_background(store: &Arc<OpenStore>, volume: &str, options: ScrubOptions) -> Result<()> {
    if store.mount_of(volume).is_none() {
        let words = format!("volume \"{volume}\" is not mounted: there is no daemon to scrub it");
        return Err(CliError::new(Failure::Unavailable, words)
            .hint("mount it, or leave out --background and wait for the end"));
    }
    let used = store.use_volume(volume)?;
    let record = block_on(used.session().volume().scrub_status());
    if let Some(record) = record.map_err(|error| about(store, volume, error))?
        && record.state == ScrubState::Running
        && record.session == used.session().id()
    {
        let words = format!("volume \"{volume}\" is being scrubbed already");
        return Err(
            CliError::in_use(words).hint("see how far it is with `seamount scrub --status`")
        );
    }
    let until = Arc::clone(store);
    store.in_background("scrub", move || work(&used, &options, &until))
}

fn work(used: &InUse, options: &ScrubOptions, store: &OpenStore) {
    let volume = used.session().volume().name().to_owned();
    match block_on(used.session().scrub(options, &Open(store))) {
        Ok(done) if done.state == ScrubState::Done => {
            let (bytes, damaged, repaired) = (done.bytes, done.damaged, done.repaired);
            tracing::info!(volume, bytes, damaged, repaired, "scrubbed");
        }
        Ok(done) => tracing::info!(volume, bytes = done.bytes, "the scrub was stopped"),
        Err(error) => tracing::warn!(volume, %error, "the scrub ended before its end"),
    }
}

/// Goes on while the store is open.
struct Open<'a>(&'a OpenStore);

impl fs::Progress for Open<'_> {
    fn advance(&self, _done: u64, _total: Option<u64>) {}

    fn goes_on(&self) -> bool {
        !self.0.is_closing()
    }
}

fn report(volume: &str, record: Option<ScrubRecord>) -> ScrubReport {
    let state = match record.as_ref().map(|record| record.state) {
        None => "never",
        Some(ScrubState::Running) => "running",
        Some(ScrubState::Stopped) => "stopped",
        Some(ScrubState::Done) => "done",
    };
    let time = |time: fs::Time| units::instant(time.secs, 0);
    let (began, saved) = match &record {
        Some(record) => (Some(time(record.began)), Some(time(record.saved))),
        None => (None, None),
    };
    let record = record.unwrap_or_default();
    let finding = |found: fs::ScrubFinding| ScrubFindingReport {
        kind: found.kind,
        path: found.path.escape_ascii().to_string(),
        inode: found.ino,
        what: found.what,
    };
    ScrubReport {
        volume: volume.to_owned(),
        state: state.to_owned(),
        began,
        saved,
        keys: record.keys,
        blocks: record.blocks,
        bytes: record.bytes,
        repaired: record.repaired,
        damaged: record.damaged,
        findings: record.findings.into_iter().map(finding).collect(),
    }
}
