//! What operations mean, in the plainest way: a map, changed at once. Shares no code with engines
//! or transactions, which are checked against it.

use crate::{AtomicOp, Key, KeyRange, Op, Page, Query};
use bytes::Bytes;
use std::collections::BTreeMap;

/// A whole store, or a part of one.
pub type Map = BTreeMap<Key, Bytes>;

/// An entry of a page.
pub type Entry = (Key, Bytes);

/// Applies one operation.
pub fn apply(map: &mut Map, op: &Op) {
    match op {
        Op::Put(key, value) => {
            map.insert(key.clone(), value.clone());
        }
        Op::Delete(key) => {
            map.remove(key);
        }
        Op::DeleteRange(range) => map.retain(|key, _| !is_in(range, key)),
        Op::Atomic(key, AtomicOp::Add(by)) => {
            let sum = map.get(key).map_or(0, |old| number(old)).wrapping_add(*by);
            map.insert(key.clone(), le(sum));
        }
        Op::Atomic(key, AtomicOp::Max(other)) => {
            let old = map.get(key).map_or(0, |old| number(old));
            map.insert(key.clone(), le(old.max(*other)));
        }
        Op::Atomic(key, AtomicOp::CompareAndClear(expected)) => {
            if map.get(key) == Some(expected) {
                map.remove(key);
            }
        }
    }
}

/// All entries of a query's range in its order, whatever its limits.
pub fn select(map: &Map, query: &Query) -> Vec<Entry> {
    let mut entries: Vec<Entry> = map
        .iter()
        .filter(|(key, _)| is_in(&query.range, key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if query.reverse {
        entries.reverse();
    }
    entries
}

/// The entries of a page.
pub fn entries(page: &Page) -> Vec<Entry> {
    page.iter().map(|(key, value)| (Key::new(key), Bytes::copy_from_slice(value))).collect()
}

/// Whether a page with these entries is a right answer to `query` when `truth` is all of its range.
/// A page may be shorter than its limit, but not empty before the end.
pub fn is_page_of(truth: &[Entry], query: &Query, page: &[Entry], more: bool) -> bool {
    page.len() <= query.limit
        && truth.starts_with(page)
        && if more { !page.is_empty() } else { page.len() == truth.len() }
}

/// A number as an atomic operation stores it.
pub fn le(value: u64) -> Bytes {
    Bytes::copy_from_slice(&value.to_le_bytes())
}

/// Keys of all shapes that an engine could get wrong, in order: zero bytes, 0xff bytes, prefixes of
/// each other, and lengths on each side of the form that keys have inline.
pub fn odd_keys() -> Vec<Key> {
    let long = [b'k'; 60];
    let mut keys: Vec<Key> = [
        &b"k"[..],
        b"k\0",
        b"k\0\0",
        b"k\x01",
        b"ka",
        b"kb",
        &long[..38],
        &long[..39],
        &long[..],
        b"k\xfe",
        b"k\xff",
        b"k\xff\xff",
        b"l",
    ]
    .iter()
    .map(|bytes| Key::new(bytes))
    .collect();
    keys.sort();
    keys
}

fn is_in(range: &KeyRange, key: &[u8]) -> bool {
    &range.start[..] <= key && key < &range.end[..]
}

fn number(bytes: &[u8]) -> u64 {
    (0..8).map(|index| u64::from(bytes.get(index).copied().unwrap_or(0)) << (8 * index)).sum()
}
