//! Open snapshots, and what becomes of those that stay open for long.
//!
//! A snapshot holds the layers that it reads. Layers come and go, so one that stays open while
//! others are folded would keep memory that nobody else uses. After two more layers it is moved to
//! disk: what it holds is written to tables of its own, and it reads those. Their names are removed
//! at once, so they are gone with the snapshot, or with the process.

use crate::levels::Levels;
use crate::overlay::Overlay;
use crate::shared::Shared;
use crate::view::View;
use base::sync::Mutex;
use bytes::Bytes;
use kv::{Error, ErrorKind, Fut, Key, Page, Query, Result, Snapshot, Version};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// How many snapshots may have tables of their own. Beyond that, the oldest are given up.
const MOVED_MAX: usize = 64;
/// A snapshot is moved when this many layers were frozen after it was taken.
const GENERATIONS_MAX: u64 = 2;

/// All open snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<Slots>);

#[derive(Debug, Default)]
struct Slots {
    slots: Vec<Option<Weak<Held>>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Held {
    version: Version,
    generation: u64,
    /// None when it was given up.
    view: Mutex<Option<View>>,
}

/// A snapshot of the store.
#[derive(Debug)]
pub(crate) struct LocalSnapshot {
    held: Arc<Held>,
    slot: usize,
    shared: Arc<Shared>,
}

impl LocalSnapshot {
    pub(crate) fn new(shared: &Arc<Shared>, view: View, generation: u64) -> Self {
        let held = Held { version: view.version, generation, view: Mutex::new(Some(view)) };
        let held = Arc::new(held);
        let slot = shared.snapshots.add(&held);
        Self { held, slot, shared: Arc::clone(shared) }
    }

    fn read<T>(&self, read: impl FnOnce(&View) -> Result<T>) -> Result<T> {
        match &*self.held.view.lock() {
            Some(view) => read(view),
            None => Err(Error::new(
                ErrorKind::TooOld,
                "too many snapshots were kept open for too long, and this one was given up",
            )),
        }
    }
}

impl Drop for LocalSnapshot {
    fn drop(&mut self) {
        self.shared.snapshots.remove(self.slot);
    }
}

impl Snapshot for LocalSnapshot {
    fn version(&self) -> Version {
        self.held.version
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Fut<'a, Result<Option<Bytes>>> {
        Fut::ready(self.read(|view| view.get(&Key::new(key))))
    }

    fn range<'a>(&'a self, query: &'a Query) -> Fut<'a, Result<Page>> {
        Fut::ready(self.read(|view| view.range(query)))
    }
}

impl Snapshots {
    fn add(&self, held: &Arc<Held>) -> usize {
        let mut slots = self.0.lock_soon();
        match slots.free.pop() {
            Some(slot) => {
                slots.slots[slot] = Some(Arc::downgrade(held));
                slot
            }
            None => {
                slots.slots.push(Some(Arc::downgrade(held)));
                slots.slots.len() - 1
            }
        }
    }

    fn remove(&self, slot: usize) {
        let mut slots = self.0.lock_soon();
        let weak = slots.slots[slot].take();
        slots.free.push(slot);
        drop(slots);
        drop(weak);
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        let slots = self.0.lock();
        slots.slots.len() - slots.free.len()
    }

    /// Those that are open since before `generation`, oldest first.
    fn older_than(&self, generation: u64) -> Vec<Arc<Held>> {
        let slots = self.0.lock();
        let mut old: Vec<Arc<Held>> = slots
            .slots
            .iter()
            .flatten()
            .filter_map(Weak::upgrade)
            .filter(|held| held.generation < generation)
            .collect();
        drop(slots);
        old.sort_by_key(|held| held.version);
        old
    }
}

impl Shared {
    /// Moves snapshots that were left behind to disk, so that the layers they hold are free.
    pub(crate) fn move_old_snapshots(&self) {
        let generation = self.visible.lock().generation;
        let Some(oldest) = (generation + 1).checked_sub(GENERATIONS_MAX) else { return };
        let old = self.snapshots.older_than(oldest);
        let give_up = old.len().saturating_sub(MOVED_MAX);
        // Many are of one version: what they see is written once.
        let mut moved: BTreeMap<Version, View> = BTreeMap::new();
        for (index, held) in old.iter().enumerate() {
            if index < give_up {
                *held.view.lock() = None;
                continue;
            }
            let Some(view) = held.view.lock().clone() else { continue };
            if view.active.is_empty() && view.frozen.is_none() {
                continue;
            }
            // A view that cannot be moved is given up: memory is bounded, come what may.
            let on_disk = match moved.get(&held.version) {
                Some(view) => Some(view.clone()),
                None => self.move_to_disk(view).ok(),
            };
            if let Some(view) = &on_disk {
                moved.insert(held.version, view.clone());
            }
            *held.view.lock() = on_disk;
        }
    }

    fn move_to_disk(&self, view: View) -> Result<View> {
        let mut levels = (*view.levels).clone();
        if let Some(frozen) = &view.frozen {
            self.add_layer(&mut levels, frozen)?;
        }
        self.add_layer(&mut levels, &view.active)?;
        Ok(View {
            version: view.version,
            active: Overlay::default(),
            frozen: None,
            levels: Arc::new(levels),
        })
    }

    fn add_layer(&self, levels: &mut Levels, layer: &Overlay) -> Result<()> {
        for table in self.write_overlay(layer, levels)? {
            // It stays readable while it is open. If this fails, the next start removes it.
            let _ = self.disk.remove(&table.name());
            levels.add(0, table);
        }
        Ok(())
    }
}
