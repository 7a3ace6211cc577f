//! The directory that the stores live in, gone when the run is over.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

const PREFIX: &str = "bench-scratch-";

/// A directory of this process, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A fresh directory in `parent`, or beside the program: where it was built there is a disk,
    /// while a directory for temporary files may be in memory.
    pub(crate) fn new(parent: Option<&Path>) -> Result<Self> {
        let program = std::env::current_exe()?;
        let parent = parent
            .or(program.parent())
            .ok_or_else(|| Error::new("the program has no directory: give one with --dir"))?;
        std::fs::create_dir_all(parent)?;
        remove_left_over(parent)?;
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("bench: {} is left: {error}", self.0.display());
        }
    }
}

/// Removes the directories of runs that were killed.
fn remove_left_over(parent: &Path) -> Result<()> {
    for entry in std::fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(id) = id.and_then(|id| id.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new("/proc").join(id.to_string()).exists() {
            crate::server::unmount_below(&entry.path())?;
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Bytes that the files of a directory take on the disk. Files that vanish meanwhile do not count.
pub(crate) fn size(directory: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    const BLOCK_BYTES: u64 = 512;
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        bytes += match metadata.is_dir() {
            true => size(&entry.path())?,
            false => metadata.blocks() * BLOCK_BYTES,
        };
    }
    Ok(bytes)
}
