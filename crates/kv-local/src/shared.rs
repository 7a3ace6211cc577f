//! What the parts of an open store share, and in which order they lock it.
//!
//! Locks are taken in this order: `folds`, `merges`, `pipeline`, `catalog`, `visible`.
//! `queue` and the locks of snapshots, watches, syncs and the reserve are taken last and alone. `visible` is held
//! for microseconds, never across I/O.

use crate::commit::{Pipeline, Request};
use crate::levels::{Levels, Manifest, Output, StoreError};
use crate::log::Syncs;
use crate::options::Options;
use crate::overlay::{Found, Overlay};
use crate::reserve::Reserve;
use crate::snapshots::Snapshots;
use crate::table::{Memory, Table, name_of};
use crate::view::View;
use crate::work::Work;
use base::Disk;
use base::disk::Lock;
use base::sync::Mutex;
use kv::{Capabilities, Error, Key, KeyRange, Result, Version, WatchTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Shared {
    /// The disk for all but the log: it may use the reserve.
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) raw: Arc<dyn Disk>,
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) lock: Mutex<Option<Lock>>,
    pub(crate) store: u64,
    pub(crate) capabilities: Capabilities,
    pub(crate) options: Options,
    pub(crate) memory: Memory,
    pub(crate) queue: Mutex<Vec<Arc<Request>>>,
    pub(crate) pipeline: Mutex<Pipeline>,
    pub(crate) visible: Mutex<Visible>,
    pub(crate) catalog: Mutex<Catalog>,
    pub(crate) next_table: AtomicU64,
    pub(crate) syncs: Syncs,
    pub(crate) watches: WatchTable,
    pub(crate) snapshots: Snapshots,
    pub(crate) work: Work,
    /// Held while a layer is folded.
    pub(crate) folds: Mutex<()>,
    /// Held while tables are merged; counts how often, which spreads merges over the keys.
    pub(crate) merges: Mutex<u64>,
    pub(crate) merges_done: AtomicU64,
    /// What the next merge may need, about, at most.
    pub(crate) merge_need: AtomicU64,
    /// Something was freed that merging may give back.
    pub(crate) reclaim_due: AtomicBool,
    /// The store was opened to save what is left: what is written stays in memory.
    pub(crate) read_only: bool,
}

/// What new readers see, and what commits are checked against.
#[derive(Debug)]
pub(crate) struct Visible {
    pub(crate) version: Version,
    pub(crate) active: Overlay,
    /// The active layer has everything after this version.
    pub(crate) active_since: Version,
    /// How many layers were frozen since the store was opened.
    pub(crate) generation: u64,
    pub(crate) frozen: Option<Arc<Frozen>>,
    /// The last frozen layer after it went into the tables: only conflicts are looked up in it.
    pub(crate) recent: Option<Arc<Frozen>>,
    /// What was written is known from here on: an older snapshot cannot be checked.
    pub(crate) floor: Version,
    pub(crate) levels: Arc<Levels>,
}

/// A layer that is not written to any more.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) overlay: Arc<Overlay>,
    /// Its newest version.
    pub(crate) version: Version,
    /// The first log that has nothing of it.
    pub(crate) next_log: u64,
}

/// What the manifest on disk says.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) manifest: Manifest,
}

impl Visible {
    pub(crate) fn view(&mut self) -> View {
        self.active.settle();
        View {
            version: self.version,
            active: self.active.clone(),
            frozen: self.frozen.as_ref().map(|frozen| Arc::clone(&frozen.overlay)),
            levels: Arc::clone(&self.levels),
        }
    }

    /// What the layers say of a key.
    pub(crate) fn layered(&self, key: &Key) -> Found<'_> {
        match self.active.get(key) {
            Found::Unknown => {}
            found => return found,
        }
        self.frozen.as_ref().map_or(Found::Unknown, |frozen| frozen.overlay.get(key))
    }

    /// Whether the layers have a value in `range`.
    pub(crate) fn any_layered(&self, range: &KeyRange) -> bool {
        let counts = |key: &Key| matches!(self.layered(key), Found::Value(_));
        self.active.has_any(range, counts)
            || self.frozen.as_ref().is_some_and(|frozen| frozen.overlay.has_any(range, counts))
    }

    /// Whether anything in `range` was written after `since`, which is not below the floor.
    pub(crate) fn any_newer(&self, range: &KeyRange, since: Version) -> bool {
        if self.active.any_newer(range, since) {
            return true;
        }
        since < self.active_since
            && [&self.frozen, &self.recent]
                .into_iter()
                .flatten()
                .any(|frozen| frozen.overlay.any_newer(range, since))
    }
}

impl Shared {
    pub(crate) fn new_table_id(&self) -> u64 {
        self.next_table.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs `write` with a place for new tables.
    pub(crate) fn with_output<T>(&self, write: impl FnOnce(&mut Output<'_>) -> T) -> T {
        write(&mut Output {
            disk: &self.disk,
            store: self.store,
            memory: &self.memory,
            next_id: &mut || self.new_table_id(),
            stop: &|| self.work.is_stopping(),
        })
    }

    /// Changes the set of tables, on disk first, then for new readers. When it fails, the tables in
    /// `added` are removed again.
    pub(crate) fn edit(
        &self,
        added: &[(usize, Arc<Table>)],
        removed: &[u64],
        note: impl FnOnce(&mut Manifest),
        publish: impl FnOnce(&mut Visible),
    ) -> Result<()> {
        let mut catalog = self.catalog.lock();
        // Only edits change the levels, and they hold the catalog.
        let mut levels = (*self.visible.lock().levels).clone();
        let gone: Vec<Arc<Table>> = levels
            .tables()
            .filter(|(_, table)| removed.contains(&table.info.id))
            .map(|(_, table)| Arc::clone(table))
            .collect();
        levels.remove(removed);
        for (level, table) in added {
            levels.add(*level, Arc::clone(table));
        }
        let mut manifest = catalog.manifest.clone();
        manifest.next_table = self.next_table.load(Ordering::Relaxed);
        manifest.tables =
            levels.tables().map(|(level, table)| (level as u8, table.info.clone())).collect();
        note(&mut manifest);
        match manifest.store(&*self.disk, self.store) {
            Ok(()) => {}
            Err(StoreError::Clean(error)) => {
                for (_, table) in added {
                    if !gone.iter().any(|old| old.info.id == table.info.id) {
                        let _ = self.disk.remove(&table.name());
                    }
                }
                return Err(error);
            }
            Err(StoreError::Unknown(error)) => {
                self.poison(&error);
                return Err(error);
            }
        }
        catalog.manifest = manifest;
        {
            let mut visible = self.visible.lock();
            let need = levels.merge_bytes() + catalog.manifest.room();
            self.merge_need.store(need, Ordering::Relaxed);
            visible.levels = Arc::new(levels);
            publish(&mut visible);
        }
        for table in gone {
            if !added.iter().any(|(_, new)| new.info.id == table.info.id) {
                table.forget();
                // Readers that still need it have it open. If this fails, the next start does it.
                let _ = self.disk.remove(&name_of(table.info.id));
            }
        }
        Ok(())
    }

    /// No commit can succeed any more until the store is opened again.
    pub(crate) fn poison(&self, error: &Error) {
        self.work.poison(error);
    }
}
