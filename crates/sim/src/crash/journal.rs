//! The calls that were acknowledged, in a file beside the mount, for whoever looks for what went wrong.

use std::fmt::Debug;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A journal that is longer than this is put aside, and the one before it goes.
const BYTES_MAX: u64 = 8 << 20;

/// One writer's.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Journal {
    /// A new one in a directory.
    pub(super) fn new(dir: &Path, name: &str) -> Result<Self, String> {
        let path = dir.join(format!("journal-{name}"));
        let file = File::create(&path).map_err(failed)?;
        Ok(Self { path, file, bytes: 0 })
    }

    /// Notes a call that was acknowledged.
    pub(super) fn note(&mut self, round: u64, call: &dyn Debug) -> Result<(), String> {
        if self.bytes > BYTES_MAX {
            std::fs::rename(&self.path, self.path.with_extension("old")).map_err(failed)?;
            self.file = File::create(&self.path).map_err(failed)?;
            self.bytes = 0;
        }
        let line = format!("{round} {call:?}\n");
        self.bytes += line.len() as u64;
        self.file.write_all(line.as_bytes()).map_err(failed)
    }
}

fn failed(error: std::io::Error) -> String {
    format!("cannot write a journal: {error}")
}
