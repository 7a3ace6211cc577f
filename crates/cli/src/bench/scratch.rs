//! The one directory that a benchmark makes in a target, and its removal.

use super::error::{Error, Trouble};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Removed with all that is in it when dropped, whatever the reason.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: Option<PathBuf>,
    made: u64,
}

impl Scratch {
    pub(crate) fn make(target: &Path) -> Result<Self, Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let path = target.join(format!("seamount-bench-{}-{now}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Self { path: Some(path), made: 0 }),
            Err(error) => {
                let why = format!("nothing can be made in it: {error}");
                Err(Error::target(target, Trouble::NoPermission, why))
            }
        }
    }

    /// A directory that was never used: what a filesystem does where files were just removed differs.
    pub(crate) fn fresh(&mut self, scene: &str) -> Result<PathBuf, Error> {
        let parent = self.path.as_deref().unwrap_or(Path::new(""));
        let path = parent.join(format!("{:04}-{scene}", self.made));
        self.made += 1;
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(Error::io("making a directory", &path, error)),
        }
    }

    pub(crate) fn remove(mut self) -> Result<(), Error> {
        match self.path.take() {
            Some(path) => std::fs::remove_dir_all(&path)
                .map_err(|error| Error::io("removing what the benchmark made", &path, error)),
            None => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = self.path.take()
            && let Err(error) = std::fs::remove_dir_all(&path)
        {
            tracing::error!("{} could not be removed: {error}; remove it by hand", path.display());
        }
    }
}
