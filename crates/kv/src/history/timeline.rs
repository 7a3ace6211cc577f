//! The store at every version, rebuilt from the commits.

use super::model::{self, Map};
use crate::{Key, KeyRange, Op, Version};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// What each key held, and from which version on.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    latest: Map,
    keys: BTreeMap<Key, Vec<(Version, Option<Bytes>)>>,
}

impl Timeline {
    /// Adds the next commit.
    pub(super) fn commit<'a>(&mut self, version: Version, ops: impl Iterator<Item = &'a Op>) {
        for op in ops {
            let range = op.range();
            if range.is_empty() {
                continue;
            }
            let mut touched: Vec<Key> = keys_in(&self.latest, &range).cloned().collect();
            model::apply(&mut self.latest, op);
            // An operation on a point may have made its key; one on a range makes none.
            if let Op::Put(key, _) | Op::Delete(key) | Op::Atomic(key, _) = op {
                touched.push(key.clone());
            }
            for key in touched {
                let value = self.latest.get(&key).cloned();
                self.keys.entry(key).or_default().push((version, value));
            }
        }
    }

    /// The entries of `range` after all commits up to `version`.
    pub(super) fn at(&self, version: Version, range: &KeyRange) -> Map {
        let mut map = Map::new();
        for key in keys_in(&self.keys, range) {
            let values = &self.keys[key];
            let behind = values.partition_point(|(from, _)| *from <= version);
            if let Some((_, Some(value))) = behind.checked_sub(1).map(|last| &values[last]) {
                map.insert(key.clone(), value.clone());
            }
        }
        map
    }

    /// Everything, after the last commit.
    pub(super) fn latest(&self) -> &Map {
        &self.latest
    }
}

fn keys_in<'a, T>(
    map: &'a BTreeMap<Key, T>,
    range: &KeyRange,
) -> impl Iterator<Item = &'a Key> + use<'a, T> {
    let bounds = (Bound::Included(&*range.start), Bound::Excluded(&*range.end));
    let entries = (!range.is_empty()).then(|| map.range::<[u8], _>(bounds));
    entries.into_iter().flatten().map(|(key, _)| key)
}
