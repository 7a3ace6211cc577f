//! The scenes: workloads that share what they work on, played together on one target after the other.

mod append;
mod archive;
mod cargo;
mod crew;
mod dirs;
mod git;
mod links;
mod names;
pub(crate) mod program;
mod small;
mod sqlite;
mod stream;
mod tree;

use super::error::Error;
use super::stage::Stage;
use super::work::Work;

/// Workloads that share their files.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// What it measures. A scene is left out when none of it is wanted.
    pub(crate) works: &'static [Work],
    pub(crate) play: fn(&mut Stage<'_>) -> Result<(), Error>,
}

pub(crate) const ALL: &[Scene] = &[
    stream::SCENE,
    append::SCENE,
    names::SCENE,
    crew::SCENE,
    links::SCENE,
    dirs::SCENE,
    small::SCENE,
    small::MANY,
    small::MEDIUM,
    small::SYNCED,
    tree::SCENE,
    archive::SCENE,
    git::SCENE,
    sqlite::SCENE,
    cargo::SCENE,
];
