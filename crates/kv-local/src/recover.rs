//! Opening what is left of a store whose first files are lost or damaged.

use crate::error::corrupt;
use crate::format::{self, Format};
use crate::levels::{Manifest, manifest as names};
use base::Disk;
use kv::{Error, Result};

/// The format from its copy.
pub(crate) fn format(
    disk: &dyn Disk,
    lost: Result<Option<Format>>,
    notes: &mut Vec<String>,
) -> Result<Format> {
    let why =
        lost.err().map_or("the file \"format\" is missing".to_owned(), |error| error.to_string());
    let copy = Format::load(disk, format::COPY_NAME).ok().flatten().ok_or_else(|| {
        corrupt(format!(
            "{why}, and so is its copy: without it no other file of the store can be told from \
             damage; bring one of the two back from a backup"
        ))
    })?;
    notes.push(format!("{why}: its copy is used"));
    Ok(copy)
}

/// The manifest from its copy.
pub(crate) fn manifest(
    disk: &dyn Disk,
    store: u64,
    lost: Result<Option<Manifest>>,
    notes: &mut Vec<String>,
) -> Result<Manifest> {
    let why = lost.err().map_or("the manifest is missing".to_owned(), |error| error.to_string());
    let copy = Manifest::load(disk, names::COPY_NAME, store).ok().flatten().ok_or_else(|| {
        corrupt(format!(
            "{why}, and so is its copy: nobody knows which tables are the store; bring one of the \
             two back from a backup"
        ))
    })?;
    notes.push(format!("{why}: its copy is used"));
    Ok(copy)
}

/// Why a store without a manifest is not opened.
pub(crate) fn no_manifest() -> Error {
    corrupt("the manifest is missing, so nobody knows which files are the store")
}
