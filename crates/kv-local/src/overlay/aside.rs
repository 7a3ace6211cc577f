//! A few entries that change with almost every commit, kept aside so that the tree is not searched for each.

use super::{Item, Slot, Tree};
use kv::{Key, KeyRange, Version};

/// How many: all of them are looked through for every key.
const ENTRIES_MAX: usize = 6;

/// The entries, newer than what the tree has of the same keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Aside {
    entries: Vec<Item<Slot>>,
    /// The one that makes room next.
    oldest: usize,
}

impl Aside {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Item<Slot>> {
        self.entries.iter().find(|item| item.key == *key)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Item<Slot>> {
        self.entries.iter_mut().find(|item| item.key == *key)
    }

    /// Keeps an entry of which there is none. Returns the one that it takes the place of.
    pub(super) fn insert(&mut self, item: Item<Slot>) -> Option<Item<Slot>> {
        if self.entries.len() < ENTRIES_MAX {
            self.entries.push(item);
            return None;
        }
        let oldest = self.oldest;
        self.oldest = (oldest + 1) % ENTRIES_MAX;
        Some(std::mem::replace(&mut self.entries[oldest], item))
    }

    pub(super) fn any_newer(&self, range: &KeyRange, since: Version) -> bool {
        self.entries.iter().any(|item| item.version > since && range.contains(&item.key))
    }

    pub(super) fn items(&self) -> &[Item<Slot>] {
        &self.entries
    }

    /// Moves all to the tree.
    pub(super) fn drain_to(&mut self, tree: &mut Tree<Slot>) {
        for Item { key, version, value } in self.entries.drain(..) {
            tree.insert(key, value, version);
        }
    }
}
