//! What is measured: the small face that each engine shows to the work.

use super::engine;
use crate::error::{Error, Result};
use kv::{Durability, Page};
use std::path::Path;

/// The cache that each engine gets, where it can be told.
pub(crate) const CACHE_BYTES: usize = 256 << 20;

/// An open store of some engine.
pub(crate) trait Subject: Send + Sync {
    /// Runs `body` as one serializable transaction and commits it; again after a conflict. Returns
    /// how many times it had to run again.
    fn transact(&self, body: &mut dyn FnMut(&mut dyn Edit) -> Result<()>) -> Result<u64>;

    /// Runs `body` on one snapshot.
    fn view(&self, body: &mut dyn FnMut(&mut dyn View) -> Result<()>) -> Result<()>;

    /// What the commits from here on survive.
    fn set_durability(&mut self, durability: Durability) -> Result<()>;

    /// Closes the store and waits for what it still has to do.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Reads of one snapshot.
pub(crate) trait View {
    /// Copies the value of `key` into `out`; false, and nothing in `out`, when it is not there.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool>;

    /// Copies out all entries whose keys begin with `prefix`.
    fn scan(&mut self, prefix: &[u8]) -> Result<Page>;
}

/// Reads that count as read, and writes, of one transaction.
pub(crate) trait Edit {
    /// As [`View::get`].
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool>;
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    fn delete(&mut self, key: &[u8]) -> Result<()>;
    /// Adds to a number, without reading it where the engine can do that.
    fn add(&mut self, key: &[u8], by: u64) -> Result<()>;
}

/// The engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Local,
    Redb,
    RedbProcess,
    Fjall,
    FjallLean,
    Lmdb,
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] =
        [Kind::Local, Kind::Redb, Kind::RedbProcess, Kind::Fjall, Kind::FjallLean, Kind::Lmdb];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Local => "local",
            Kind::Redb => "redb",
            Kind::RedbProcess => "redb-process",
            Kind::Fjall => "fjall",
            Kind::FjallLean => "fjall-lean",
            Kind::Lmdb => "lmdb",
        }
    }

    /// The words for some of them.
    pub(crate) fn names(kinds: &[Kind]) -> impl Iterator<Item = &'static str> {
        kinds.iter().map(|kind| kind.name())
    }

    pub(crate) fn parse(name: &str) -> Result<Self> {
        let known = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| Error::new(format!("there is no engine \"{name}\"")))
    }

    /// Opens the store in `directory`, which is made when it is not there.
    pub(crate) fn open(self, directory: &Path) -> Result<Box<dyn Subject>> {
        let opened =
            std::fs::create_dir_all(directory).map_err(Error::from).and_then(|()| match self {
                Kind::Local => engine::local::open(directory),
                Kind::Redb => engine::redb::open(directory, engine::redb::Unsynced::Memory),
                Kind::RedbProcess => engine::redb::open(directory, engine::redb::Unsynced::System),
                Kind::Fjall => engine::fjall::open(directory, CACHE_BYTES),
                Kind::FjallLean => engine::fjall::open(directory, engine::fjall::LEAN_BYTES),
                Kind::Lmdb => engine::lmdb::open(directory),
            });
        opened.map_err(|error| error.during(format!("opening {}", self.name())))
    }

    /// How it is set, and what a commit survives when it is not synced.
    pub(crate) fn legend(self) -> &'static str {
        match self {
            Kind::Local => engine::local::LEGEND,
            Kind::Redb => engine::redb::LEGEND_MEMORY,
            Kind::RedbProcess => engine::redb::LEGEND_SYSTEM,
            Kind::Fjall => engine::fjall::LEGEND,
            Kind::FjallLean => engine::fjall::LEGEND_LEAN,
            Kind::Lmdb => engine::lmdb::LEGEND,
        }
    }
}
