//! What a transaction writes to single keys: few of them in a sorted list, many in a tree. Most
//! transactions write a handful, and a list of those is one allocation without any structure.

use crate::{AtomicOp, Key, KeyRange};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The most that are kept in a list.
const FEW_MAX: usize = 32;
/// Room in a new list.
const FEW_FIRST: usize = 8;

#[derive(Debug, Clone)]
pub(crate) enum Write {
    Put(Bytes),
    Delete,
    /// Waits for the value that it finds.
    Atomic(AtomicOp),
    /// The same, of several in a row.
    Atomics(Vec<AtomicOp>),
}

impl Write {
    pub(crate) fn of(value: Option<Bytes>) -> Self {
        value.map_or(Write::Delete, Write::Put)
    }
}

/// Writes by key.
#[derive(Debug)]
pub(crate) enum Points {
    Few(Vec<(Key, Write)>),
    Many(BTreeMap<Key, Write>),
}

impl Default for Points {
    fn default() -> Self {
        Points::Few(Vec::new())
    }
}

impl Points {
    pub(crate) fn len(&self) -> usize {
        match self {
            Points::Few(list) => list.len(),
            Points::Many(tree) => tree.len(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Write> {
        match self {
            Points::Few(list) => list.iter().find(|(own, _)| **own == *key).map(|(_, write)| write),
            Points::Many(tree) => tree.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Write> {
        match self {
            Points::Few(list) => {
                list.iter_mut().find(|(own, _)| **own == *key).map(|(_, write)| write)
            }
            Points::Many(tree) => tree.get_mut(key),
        }
    }

    pub(crate) fn insert(&mut self, key: Key, write: Write) {
        match self {
            Points::Few(list) => {
                let at = list.partition_point(|(own, _)| *own < key);
                if let Some((own, old)) = list.get_mut(at)
                    && *own == key
                {
                    *old = write;
                    return;
                }
                if list.len() == FEW_MAX {
                    let mut tree: BTreeMap<Key, Write> = std::mem::take(list).into_iter().collect();
                    tree.insert(key, write);
                    *self = Points::Many(tree);
                    return;
                }
                if list.capacity() == 0 {
                    list.reserve_exact(FEW_FIRST);
                }
                list.insert(at, (key, write));
            }
            Points::Many(tree) => {
                tree.insert(key, write);
            }
        }
    }

    /// Forgets the writes in a range.
    pub(crate) fn remove_in(&mut self, range: &KeyRange) {
        match self {
            Points::Few(list) => list.retain(|(key, _)| !range.contains(key)),
            Points::Many(tree) => {
                let inside: Vec<Key> =
                    tree_range(tree, range).map(|(key, _)| key.clone()).collect();
                for key in inside {
                    tree.remove(&key);
                }
            }
        }
    }

    /// Whether there is one in a range.
    pub(crate) fn any_in(&self, range: &KeyRange) -> bool {
        match self {
            Points::Few(list) => list.iter().any(|(key, _)| range.contains(key)),
            Points::Many(tree) => tree_range(tree, range).next().is_some(),
        }
    }

    /// Those in a range, in order.
    pub(crate) fn all_in(&self, range: &KeyRange) -> Vec<(&Key, &Write)> {
        match self {
            Points::Few(list) => list
                .iter()
                .filter(|(key, _)| range.contains(key))
                .map(|(key, write)| (key, write))
                .collect(),
            Points::Many(tree) => tree_range(tree, range).collect(),
        }
    }

    /// Hands all over, in order.
    pub(crate) fn drain(self, mut take: impl FnMut(Key, Write)) {
        match self {
            Points::Few(list) => list.into_iter().for_each(|(key, write)| take(key, write)),
            Points::Many(tree) => tree.into_iter().for_each(|(key, write)| take(key, write)),
        }
    }
}

fn tree_range<'a>(
    tree: &'a BTreeMap<Key, Write>,
    range: &KeyRange,
) -> impl Iterator<Item = (&'a Key, &'a Write)> {
    let bounds = (Bound::Included(&*range.start), Bound::Excluded(&*range.end));
    let sane = !range.is_empty();
    sane.then(|| tree.range::<[u8], _>(bounds)).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};

    #[test]
    fn a_list_and_a_tree_hold_the_same() {
        for seed in 0..50 {
            let random = SeededRandom::new(seed);
            let mut points = Points::default();
            let mut model: BTreeMap<Vec<u8>, u8> = BTreeMap::new();
            for step in 0..200u8 {
                let key = vec![random.below(60) as u8];
                if random.one_in(12) {
                    let end = vec![key[0].saturating_add(random.below(9) as u8)];
                    let range = KeyRange::new(&key, &end);
                    assert_eq!(
                        points.any_in(&range),
                        model.range(key.clone()..end).next().is_some()
                    );
                    points.remove_in(&range);
                    model.retain(|key, _| !range.contains(key));
                } else {
                    points.insert(Key::new(&key), Write::Put(Bytes::copy_from_slice(&[step])));
                    model.insert(key, step);
                }
                let probe = [random.below(60) as u8];
                let found = points.get(&probe).map(|write| match write {
                    Write::Put(value) => value[0],
                    _ => unreachable!(),
                });
                assert_eq!(found, model.get(&probe[..]).copied(), "seed {seed}");
                assert_eq!(points.len(), model.len(), "seed {seed}");
            }
            let inside = KeyRange::new(&[10], &[40]);
            let listed: Vec<Vec<u8>> =
                points.all_in(&inside).iter().map(|(key, _)| key.to_vec()).collect();
            let wanted: Vec<Vec<u8>> =
                model.keys().filter(|key| inside.contains(key)).cloned().collect();
            assert_eq!(listed, wanted, "seed {seed}");
            let mut left = Vec::new();
            points.drain(|key, _| left.push(key.to_vec()));
            assert_eq!(left, model.into_keys().collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
