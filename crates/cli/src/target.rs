//! What a word on the command line means: a mount, a store, or a file inside a mount.

use crate::config::Settings;
use crate::control::protocol::FileName;
use crate::error::{CliError, Result};
use crate::store::{DEFAULT_VOLUME, StoreName, StoreUrl, escape};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A volume of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The store.
    pub store: StoreUrl,
    /// The volume, if it was named in any way.
    pub named: Option<String>,
}

impl Target {
    /// From a word, which may be a mountpoint, a path in a mount, or a store; else from the settings;
    /// else the default store. `volume` is what `--volume` said.
    pub fn find(word: Option<&OsStr>, volume: Option<&str>, settings: &Settings) -> Result<Self> {
        let name = match word {
            Some(word) => match mount_of_word(word)? {
                Some(entry) => StoreName::of_source(&entry.source)?,
                None => StoreName::parse(word)?,
            },
            None => match &settings.store {
                Some(word) => StoreName::parse(word)?,
                None => StoreName { store: StoreUrl::default_store()?, volume: None },
            },
        };
        Ok(Self { named: agree(name.volume, volume, settings)?, store: name.store })
    }

    /// A store from a word that can be nothing else.
    pub fn of_store(
        word: Option<&OsStr>,
        volume: Option<&str>,
        settings: &Settings,
    ) -> Result<Self> {
        let name = match word.or(settings.store.as_deref()) {
            Some(word) => StoreName::parse(word)?,
            None => StoreName { store: StoreUrl::default_store()?, volume: None },
        };
        Ok(Self { named: agree(name.volume, volume, settings)?, store: name.store })
    }

    /// The volume.
    pub fn volume(&self) -> &str {
        self.named.as_deref().unwrap_or(DEFAULT_VOLUME)
    }
}

/// The volume's name from behind `#`, from `--volume`, or from the settings.
fn agree(
    behind: Option<String>,
    flag: Option<&str>,
    settings: &Settings,
) -> Result<Option<String>> {
    match (behind, flag) {
        (Some(behind), Some(flag)) if behind != flag => Err(CliError::usage(format!(
            "two volumes are named: \"{behind}\" behind #, and \"{flag}\" by --volume"
        ))),
        (Some(behind), _) => Ok(Some(behind)),
        (None, Some(flag)) => Ok(Some(flag.to_owned())),
        (None, None) => Ok(settings.volume.clone()),
    }
}

fn mount_of_word(word: &OsStr) -> Result<Option<fuse::MountEntry>> {
    if word.as_bytes().windows(3).any(|window| window == b"://") {
        return Ok(None);
    }
    mount_of(Path::new(word))
}

/// The mounts of ours on this machine.
pub fn mounts() -> Result<Vec<fuse::MountEntry>> {
    fuse::mounted().map_err(|error| CliError::io("cannot read the table of mounts", &error))
}

/// The mount of ours that a path is in.
pub fn mount_of(path: &Path) -> Result<Option<fuse::MountEntry>> {
    let path = real(path)?;
    let inside = mounts()?.into_iter().filter(|entry| path.starts_with(&entry.mountpoint));
    // The innermost; of two at one place, the one on top, which comes last.
    Ok(inside.max_by_key(|entry| entry.mountpoint.components().count()))
}

/// The path without links; where it cannot be followed, as it is.
pub fn real(path: &Path) -> Result<PathBuf> {
    let failed = |error| CliError::io(format!("cannot follow {}", path.display()), &error);
    match path.canonicalize() {
        Ok(path) => Ok(path),
        // A dead mount cannot be followed, but its parent can.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let path = std::path::absolute(path).map_err(failed)?;
            match (path.parent().map(Path::canonicalize), path.file_name()) {
                (Some(Ok(parent)), Some(name)) => Ok(parent.join(name)),
                _ => Ok(path),
            }
        }
        Err(_) => std::path::absolute(path).map_err(failed),
    }
}

/// A file of a volume: given by its path on this machine when it is in a mount, or by its path in the
/// volume when a store is named.
pub fn file(
    path: &Path,
    store: Option<&OsString>,
    volume: Option<&str>,
    settings: &Settings,
) -> Result<(Target, FileName)> {
    if let Some(store) = store {
        let target = Target::find(Some(store), volume, settings)?;
        return Ok((target, FileName::Path(escape(path.as_os_str().as_bytes()))));
    }
    let meta =
        std::fs::symlink_metadata(path).map_err(|error| CliError::io(path.display(), &error))?;
    // The last part may be a link, and is meant itself.
    let whole = std::path::absolute(path).map_err(|error| CliError::io(path.display(), &error))?;
    let place = match (meta.is_symlink(), whole.parent(), whole.file_name()) {
        (true, Some(parent), Some(name)) => real(parent)?.join(name),
        _ => real(&whole)?,
    };
    let device = format!("{}:{}", rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    // Something else may be mounted inside ours.
    let entry = mount_of_place(&place)?.filter(|entry| entry.device == device);
    let entry = entry.ok_or_else(|| {
        CliError::not_found(format!("{} is not in a mount of Seamount", path.display()))
            .hint("give a path in a mounted volume; or name the store with --store, and the path in its volume")
    })?;
    let name = StoreName::of_source(&entry.source)?;
    let target = Target { store: name.store, named: name.volume };
    Ok((target, FileName::Ino(meta.ino())))
}

fn mount_of_place(place: &Path) -> Result<Option<fuse::MountEntry>> {
    let inside = mounts()?.into_iter().filter(|entry| place.starts_with(&entry.mountpoint));
    Ok(inside.max_by_key(|entry| entry.mountpoint.components().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_named_once() {
        let mut settings = Settings::default();
        let volume = |behind: Option<&str>, flag: Option<&str>, settings: &Settings| {
            agree(behind.map(str::to_owned), flag, settings)
        };
        assert_eq!(volume(None, None, &settings), Ok(None));
        settings.set("volume", "set").unwrap();
        assert_eq!(volume(None, None, &settings), Ok(Some("set".to_owned())));
        assert_eq!(volume(Some("a"), Some("a"), &settings), Ok(Some("a".to_owned())));
        assert_eq!(volume(None, Some("b"), &settings), Ok(Some("b".to_owned())));
        assert!(volume(Some("a"), Some("b"), &settings).is_err());
    }
}
