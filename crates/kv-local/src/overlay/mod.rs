//! What has been committed and is not in a table yet: entries, deleted ranges, and who wrote what
//! when. A copy is a snapshot.

mod aside;
mod heads;
mod segments;
mod tree;

use bytes::Bytes;
use kv::{Key, KeyRange, Version};

use aside::Aside;
pub(crate) use segments::Segments;
pub(crate) use tree::{Cursor, Item, Tree};

/// A value, or that the key is gone.
pub(crate) type Slot = Option<Bytes>;

/// What an entry costs beside its value: its place in a leaf that is three quarters full, with its head, its
/// share of inner nodes, and the allocation of its value.
const ENTRY_BYTES: usize = 200;

/// One layer over the tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    /// Newer than `cleared` wherever both have a key.
    entries: Tree<Slot>,
    /// Newer than `entries`. Empty in what is walked: see [`settle`](Self::settle).
    aside: Aside,
    /// Ranges that hide everything in the layers below.
    cleared: Segments,
    /// Ranges that were declared as written and were not: they only make others conflict.
    marked: Segments,
    bytes: usize,
}

/// What an entry costs.
fn cost(key: &Key, value: &Slot) -> usize {
    ENTRY_BYTES + key.heap_bytes() + value.as_ref().map_or(0, Bytes::len)
}

/// What one layer says of a key.
pub(crate) enum Found<'a> {
    Value(&'a Bytes),
    Gone,
    Unknown,
}

impl Overlay {
    /// Memory that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.aside.is_empty() && self.cleared.is_empty()
    }

    /// Puts everything where it can be walked through in order.
    pub(crate) fn settle(&mut self) {
        if !self.aside.is_empty() {
            self.aside.drain_to(&mut self.entries);
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Found<'_> {
        match self.aside.get(key).or_else(|| self.entries.get(key)) {
            Some(Item { value: Some(value), .. }) => Found::Value(value),
            Some(_) => Found::Gone,
            None if self.cleared.covering(key).is_some() => Found::Gone,
            None => Found::Unknown,
        }
    }

    /// Whether it has a value in `range` that `counts`, which is asked for each key.
    pub(crate) fn has_any(&self, range: &KeyRange, counts: impl Fn(&Key) -> bool) -> bool {
        let aside = self.aside.items().iter().filter(|item| range.contains(&item.key));
        let mut all = aside.chain(self.entries.cursor(range, false));
        all.any(|item| item.value.is_some() && counts(&item.key))
    }

    pub(crate) fn set(&mut self, key: Key, value: Slot, version: Version) {
        self.bytes += cost(&key, &value);
        let old = match self.aside.get_mut(&key) {
            Some(there) => Some(std::mem::replace(there, Item { key, version, value })),
            None => self.entries.insert(key, value, version),
        };
        if let Some(old) = old {
            self.bytes -= cost(&old.key, &old.value);
        }
    }

    /// Sets a key that is changed again and again.
    pub(crate) fn set_often(&mut self, key: Key, value: Slot, version: Version) {
        if self.aside.get(&key).is_some() {
            return self.set(key, value, version);
        }
        // What the tree has of it counts once, until this one takes its place there.
        self.bytes += cost(&key, &value);
        if let Some(old) = self.entries.get(&key) {
            self.bytes -= cost(&old.key, &old.value);
        }
        if let Some(Item { key, version, value }) = self.aside.insert(Item { key, version, value })
        {
            self.entries.insert(key, value, version);
        }
    }

    pub(crate) fn clear(&mut self, range: &KeyRange, version: Version) {
        self.settle();
        let mut freed = 0;
        self.entries.remove_range(range, &mut |item| freed += cost(&item.key, &item.value));
        self.bytes = self.bytes + 2 * ENTRY_BYTES - freed;
        self.cleared.assign(range, version);
    }

    pub(crate) fn mark(&mut self, range: &KeyRange, version: Version) {
        self.bytes += 2 * ENTRY_BYTES;
        self.marked.assign(range, version);
    }

    /// Whether anything in `range` was written after `since`.
    pub(crate) fn any_newer(&self, range: &KeyRange, since: Version) -> bool {
        self.aside.any_newer(range, since)
            || self.entries.any_newer(range, since)
            || self.cleared.any_newer(range, since)
            || self.marked.any_newer(range, since)
    }

    pub(crate) fn cursor<'a>(&'a self, range: &'a KeyRange, reverse: bool) -> Cursor<'a, Slot> {
        debug_assert!(self.aside.is_empty(), "what is walked was settled");
        self.entries.cursor(range, reverse)
    }

    pub(crate) fn cleared(&self) -> &Segments {
        &self.cleared
    }
}
