//! A whole volume as one stream of bytes, out and in.

use super::options::about;
use super::{Asker, Told};
use crate::error::Result;
use crate::opened::OpenStore;
use base::exec::block_on;
use fs::dump::{DumpCounts, Sink, Source};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// What a stream holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamReport {
    /// The volume.
    pub volume: String,
    /// Its inodes.
    pub inodes: u64,
    /// Its names.
    pub entries: u64,
    /// Its extended attributes.
    pub xattrs: u64,
    /// Bytes of files.
    pub data_bytes: u64,
    /// Bytes of the stream.
    pub stream_bytes: u64,
}

/// Bytes go to the asker and come from there.
struct Pipe<'a> {
    asker: &'a dyn Asker,
}

impl Sink for Pipe<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.asker.put(bytes)
    }
}

impl Source for Pipe<'_> {
    fn get(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.asker.get(buffer)
    }
}

/// Writes a volume to the asker.
pub(super) fn dump(
    store: &Arc<OpenStore>,
    volume: &str,
    asker: &dyn Asker,
) -> Result<StreamReport> {
    let used = store.use_volume(volume)?;
    let mut out = Pipe { asker };
    let counts = block_on(fs::dump::dump(used.session(), &mut out, &Told(asker)));
    Ok(report(volume, counts.map_err(|error| about(store, volume, error))?))
}

/// Makes a new volume of what the asker gives.
pub(super) fn load(
    store: &Arc<OpenStore>,
    volume: &str,
    asker: &dyn Asker,
) -> Result<StreamReport> {
    let counts = store.alone(volume, "load", || {
        let mut from = Pipe { asker };
        let progress = Told(asker);
        let loading = fs::dump::load(store.world(), volume, &mut from, &progress);
        block_on(loading).map_err(|error| {
            let is_there = error.kind() == fs::Kind::Exists;
            let made = about(store, volume, error);
            if is_there { made.hint("choose another name with --volume") } else { made }
        })
    })?;
    Ok(report(volume, counts))
}

fn report(volume: &str, counts: DumpCounts) -> StreamReport {
    StreamReport {
        volume: volume.to_owned(),
        inodes: counts.inodes,
        entries: counts.entries,
        xattrs: counts.xattrs,
        data_bytes: counts.data_bytes,
        stream_bytes: counts.stream_bytes,
    }
}
