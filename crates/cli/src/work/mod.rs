//! What commands do to an open store, written once: run in this process when the store is free, and at
//! the daemon when it is in use.

mod files;
mod fsck;
mod options;
mod scrub;
mod status;
mod stream;

pub use files::{InfoReport, SummaryReport};
pub use fsck::{FindingReport, FsckReport, GcReport};
pub use options::{OptionsReport, format_options, parse_codec};
pub use scrub::{ScrubFindingReport, ScrubReport};
pub use status::{OpReport, StatsReport, StatusReport, VolumeReport};
pub use stream::StreamReport;

use crate::control::protocol::Request;
use crate::error::{CliError, Failure, Result};
use crate::opened::OpenStore;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::sync::Arc;

/// Whoever started the work: is told how far it has come, takes and gives bytes, and may want it to end.
pub trait Asker: Sync {
    /// `done` of `total` are done.
    fn advance(&self, done: u64, total: Option<u64>);

    /// Whether the work should go on.
    fn goes_on(&self) -> bool;

    /// Takes bytes of a dump.
    fn put(&self, bytes: &[u8]) -> io::Result<()>;

    /// Gives bytes for a load; 0 at their end.
    fn get(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

/// Progress of the core, told to the asker.
struct Told<'a>(&'a dyn Asker);

impl fs::Progress for Told<'_> {
    fn advance(&self, done: u64, total: Option<u64>) {
        self.0.advance(done, total);
    }

    fn goes_on(&self) -> bool {
        self.0.goes_on()
    }
}

/// A volume that was made, removed, or looked at: its name, and how many keys that took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeChange {
    /// The store.
    pub store: String,
    /// The volume.
    pub volume: String,
    /// Keys that were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_removed: Option<u64>,
}

/// Does what is asked. Mounting and waiting are the daemon's own.
pub fn run(store: &Arc<OpenStore>, request: &Request, asker: &dyn Asker) -> Result<Value> {
    match request {
        Request::Status => to_value(status::status(store)?),
        Request::Stats => to_value(status::stats(store)),
        Request::Format { volume, options } => {
            to_value(options::format(store, volume, options, asker)?)
        }
        Request::Destroy { volume } => to_value(options::destroy(store, volume, asker)?),
        Request::Options { volume } => to_value(options::get(store, volume)?),
        Request::SetOptions { volume, capacity_bytes, inodes_max, codec } => {
            to_value(options::set(store, volume, *capacity_bytes, *inodes_max, codec.as_deref())?)
        }
        Request::Info { volume, file } => to_value(files::info(store, volume, file)?),
        Request::Summary { volume, file } => to_value(files::summary(store, volume, file, asker)?),
        Request::Fsck { volume, mode, threads } => {
            to_value(fsck::fsck(store, volume, *mode, *threads, asker)?)
        }
        Request::Scrub { volume, action } => to_value(scrub::scrub(store, volume, *action, asker)?),
        Request::Gc { volume } => to_value(fsck::gc(store, volume, asker)?),
        Request::Dump { volume } => to_value(stream::dump(store, volume, asker)?),
        Request::Load { volume } => to_value(stream::load(store, volume, asker)?),
        Request::Mount(_) | Request::Wait { .. } => {
            Err(CliError::new(Failure::Unsupported, "only a daemon can do this"))
        }
    }
}

fn to_value(report: impl Serialize) -> Result<Value> {
    serde_json::to_value(report).map_err(|error| CliError::new(Failure::Failed, error.to_string()))
}
