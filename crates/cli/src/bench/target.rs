//! A directory to measure: what it is, and whether it can be used.

use super::error::{Error, Trouble};
use rustix::fs::Access;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory that passed its checks.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    pub(crate) label: String,
    pub(crate) kind: String,
    pub(crate) device: u64,
}

impl Target {
    /// Checks one directory for a benchmark that needs this much room.
    pub(crate) fn check(path: &Path, bytes_needed: u64) -> Result<Self, Error> {
        let unknown = |what: &str, error: &dyn std::fmt::Display| {
            Error::target(path, Trouble::Other, format!("{what}: {error}"))
        };
        let found = std::fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                let why = "there is no such directory; make it, or mount there first";
                Error::target(path, Trouble::Missing, why)
            }
            std::io::ErrorKind::NotConnected => {
                let why = "a mount whose server is gone; unmount it, then mount it again";
                Error::target(path, Trouble::Other, why)
            }
            std::io::ErrorKind::PermissionDenied => {
                let why = format!("it cannot be looked at: {error}");
                Error::target(path, Trouble::NoPermission, why)
            }
            _ => unknown("it cannot be looked at", &error),
        })?;
        if !found.is_dir() {
            let why = "it is not a directory; give a directory to measure in";
            return Err(Error::target(path, Trouble::NotDirectory, why));
        }
        let path = &std::fs::canonicalize(path)
            .map_err(|error| unknown("its full path is not known", &error))?;
        rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            let why =
                format!("nothing can be made in it: {error}; choose one that you may write to");
            Error::target(path, Trouble::NoPermission, why)
        })?;
        let room = rustix::fs::statvfs(path)
            .map_err(|error| unknown("its free space is not known", &error))?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        // A filesystem without blocks does not say how much it has.
        if room.f_blocks > 0 && free < bytes_needed {
            let why = format!(
                "{} MiB are needed, {} MiB are free; free some, or ask for less with --quick or --files",
                bytes_needed.div_ceil(1 << 20),
                free >> 20
            );
            return Err(Error::target(path, Trouble::NoRoom, why));
        }
        let label = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { label, kind: kind(path), device: found.dev(), path: path.clone() })
    }
}

/// The filesystem's name, as far as its number is known.
fn kind(path: &Path) -> String {
    let Ok(found) = rustix::fs::statfs(path) else { return "unknown".into() };
    match found.f_type as u32 {
        0xef53 => "ext4".into(),
        0x6573_5546 => "fuse".into(),
        0x0102_1994 => "tmpfs".into(),
        0x9123_683e => "btrfs".into(),
        0x5846_5342 => "xfs".into(),
        0x794c_7630 => "overlay".into(),
        0x2fc1_2fc1 => "zfs".into(),
        0x6969 => "nfs".into(),
        other => format!("{other:#x}"),
    }
}

/// Gives targets with the same last name their whole path as a label.
pub(crate) fn tell_apart(targets: &mut [Target]) {
    let labels: Vec<String> = targets.iter().map(|target| target.label.clone()).collect();
    for target in targets {
        if labels.iter().filter(|label| **label == target.label).count() > 1 {
            target.label = target.path.display().to_string();
        }
    }
}

/// What is odd about these targets together, in words.
pub(crate) fn oddities(targets: &[Target]) -> Vec<String> {
    let Some((first, others)) = targets.split_first() else { return Vec::new() };
    let same = others.iter().filter(|other| other.device == first.device);
    same.map(|other| {
        let (own, other) = (first.path.display(), other.path.display());
        format!("{own} and {other} are on the same filesystem: their ratio compares it with itself")
    })
    .collect()
}
