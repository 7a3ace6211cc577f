//! What has been committed and is not in a table yet: entries, deleted ranges, and who wrote what
//! when. A copy is a snapshot.

mod segments;
mod tree;

use bytes::Bytes;
use kv::{Key, KeyRange, Version};

pub(crate) use segments::Segments;
pub(crate) use tree::{Cursor, Item, Tree};

/// A value, or that the key is gone.
pub(crate) type Slot = Option<Bytes>;

/// What an entry costs beside its value: its place in a leaf that is three quarters full, its share
/// of inner nodes, and the allocation of its value.
const ENTRY_BYTES: usize = 176;

/// One layer over the tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    /// Newer than `cleared` wherever both have a key.
    entries: Tree<Slot>,
    /// Ranges that hide everything in the layers below.
    cleared: Segments,
    /// Ranges that were declared as written and were not: they only make others conflict.
    marked: Segments,
    bytes: usize,
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
        self.entries.is_empty() && self.cleared.is_empty()
    }

    pub(crate) fn get(&self, key: &Key) -> Found<'_> {
        match self.entries.get(key) {
            Some(Item { value: Some(value), .. }) => Found::Value(value),
            Some(_) => Found::Gone,
            None if self.cleared.covering(key).is_some() => Found::Gone,
            None => Found::Unknown,
        }
    }

    pub(crate) fn set(&mut self, key: Key, value: Slot, version: Version) {
        let cost = |key: &Key, value: &Slot| {
            ENTRY_BYTES + key.heap_bytes() + value.as_ref().map_or(0, Bytes::len)
        };
        self.bytes += cost(&key, &value);
        if let Some(old) = self.entries.insert(key, value, version) {
            self.bytes -= cost(&old.key, &old.value);
        }
    }

    pub(crate) fn clear(&mut self, range: &KeyRange, version: Version) {
        let mut freed = 0;
        self.entries.remove_range(range, &mut |item| {
            freed +=
                ENTRY_BYTES + item.key.heap_bytes() + item.value.as_ref().map_or(0, Bytes::len);
        });
        self.bytes = self.bytes + 2 * ENTRY_BYTES - freed;
        self.cleared.assign(range, version);
    }

    pub(crate) fn mark(&mut self, range: &KeyRange, version: Version) {
        self.bytes += 2 * ENTRY_BYTES;
        self.marked.assign(range, version);
    }

    /// Whether anything in `range` was written after `since`.
    pub(crate) fn any_newer(&self, range: &KeyRange, since: Version) -> bool {
        self.entries.any_newer(range, since)
            || self.cleared.any_newer(range, since)
            || self.marked.any_newer(range, since)
    }

    pub(crate) fn cursor<'a>(&'a self, range: &'a KeyRange, reverse: bool) -> Cursor<'a, Slot> {
        self.entries.cursor(range, reverse)
    }

    pub(crate) fn cleared(&self) -> &Segments {
        &self.cleared
    }
}
