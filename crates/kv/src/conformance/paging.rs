//! A range in pages: each entry once, in order, in both directions, whatever ends a page.

use super::bench::{Bench, begin, everything, fill, page, pages, put, write};
use crate::history::model::{self, Entry, Map};
use crate::{Key, KeyRange, Query, Read, Store, Txn};
use base::block_on;
use bytes::Bytes;

const COUNT: usize = 200;

fn numbered(count: usize) -> Map {
    (0..count)
        .map(|index| {
            let value = vec![b'v'; index * 13 % 97];
            (key(index), Bytes::from(value))
        })
        .collect()
}

fn key(index: usize) -> Key {
    Key::new(format!("k{index:04}").as_bytes())
}

fn filled(bench: &Bench<'_>, map: &Map) -> Store {
    let store = bench.store();
    fill(&store, map.iter().map(|(key, value)| (&**key, &**value)));
    store
}

/// Every combination of limits, in both directions.
fn queries(range: &KeyRange) -> Vec<Query> {
    let mut queries = Vec::new();
    for limit in [1, 2, 7, COUNT - 1, COUNT, COUNT + 1, usize::MAX] {
        for bytes in [0, 1, 100, 5_000, usize::MAX] {
            for reverse in [false, true] {
                queries.push(Query { range: range.clone(), limit, bytes, reverse });
            }
        }
    }
    queries
}

/// All limits over the engine's own pages.
pub(super) fn pages_show_each_entry_once(bench: &Bench<'_>) {
    let map = numbered(COUNT);
    let store = filled(bench, &map);
    let mut txn = begin(&store);
    for range in [KeyRange::all(), KeyRange { start: key(50), end: key(150) }] {
        for query in queries(&range) {
            let truth = model::select(&map, &query);
            assert_eq!(pages(&mut txn, &query, Read::Snapshot), truth, "{query:?}");
        }
    }
}

/// The same when own writes lie between, over and behind the store's entries.
pub(super) fn pages_show_each_entry_once_over_own_writes(bench: &Bench<'_>) {
    let whole = numbered(COUNT);
    let mut map = whole.clone();
    map.retain(|key, _| key.last().is_some_and(|digit| digit % 2 == 0));
    let store = filled(bench, &map);
    let mut txn = begin(&store);
    for (index, (key, value)) in whole.iter().enumerate().take(60) {
        match index % 6 {
            1 => {
                put(&mut txn, key, value);
                map.insert(key.clone(), value.clone());
            }
            2 => {
                txn.delete(key).expect("a delete is taken");
                map.remove(key);
            }
            4 => {
                txn.add(key, 1).expect("an add is taken");
                model::apply(&mut map, &crate::Op::Atomic(key.clone(), crate::AtomicOp::Add(1)));
            }
            _ => {}
        }
    }
    // A whole stretch is gone: many of the engine's pages come to nothing.
    let gone = KeyRange { start: key(70), end: key(180) };
    txn.delete_range(&gone).expect("a delete is taken");
    map.retain(|key, _| !gone.contains(key));
    put(&mut txn, b"k9999", b"behind");
    map.insert(Key::new(b"k9999"), Bytes::from_static(b"behind"));
    for query in queries(&KeyRange::all()) {
        let truth = model::select(&map, &query);
        assert_eq!(pages(&mut txn, &query, Read::Snapshot), truth, "{query:?}");
    }
}

/// A page ends when it has about the bytes that were asked for, but never before one entry.
pub(super) fn pages_end_by_bytes(bench: &Bench<'_>) {
    let entries: Map = (0..50).map(|index| (key(index), Bytes::from(vec![b'v'; 995]))).collect();
    let store = filled(bench, &entries);
    let mut txn = begin(&store);
    for (bytes, most) in [(0, 1), (1, 1), (1_000, 4), (5_000, 20)] {
        let mut query = Query::new(KeyRange::all());
        query.bytes = bytes;
        let first = page(&mut txn, &query, Read::Snapshot);
        assert!(!first.is_empty(), "{bytes} bytes: at least one entry");
        assert!(first.len() <= most, "{bytes} bytes: {} entries", first.len());
    }
    // One entry alone may be longer than the page.
    let long = vec![b'v'; store.capabilities().value_bytes_max.min(200_000)];
    write(&store, |txn| put(txn, b"a", &long));
    let mut query = Query::new(KeyRange::all());
    query.bytes = 10;
    let first = page(&mut begin(&store), &query, Read::Snapshot);
    assert_eq!(&first[0].1[..], &long[..]);
}

/// Empty ranges, limits of nothing, and ranges beside everything.
pub(super) fn pages_of_nothing(bench: &Bench<'_>) {
    let store = bench.store();
    let none = |txn: &mut Txn, query: &Query| {
        let page = block_on(txn.range(query, Read::Serializable)).expect("a range answers");
        assert!(page.is_empty() && !page.more, "{query:?}: {page:?}");
    };
    let mut txn = begin(&store);
    none(&mut txn, &Query::new(KeyRange::all()));
    none(&mut txn, &Query::new(KeyRange::all()).reverse());

    fill(&store, [(&b"k"[..], &b"v"[..])]);
    let mut txn = begin(&store);
    none(&mut txn, &Query::new(KeyRange::all()).limit(0));
    none(&mut txn, &Query::new(KeyRange::new(b"k", b"k")));
    none(&mut txn, &Query::new(KeyRange::new(b"", b"")));
    none(&mut txn, &Query::new(KeyRange::new(b"", b"k")));
    none(&mut txn, &Query::new(KeyRange::new(b"k\0", b"\xff")));
    // The same with an own write in the transaction, and all of the range deleted.
    put(&mut txn, b"a", b"own");
    none(&mut txn, &Query::new(KeyRange::new(b"b", b"k")));
    none(&mut txn, &Query::new(KeyRange::all()).limit(0));
    txn.delete_range(&KeyRange::all()).expect("a delete is taken");
    none(&mut txn, &Query::new(KeyRange::all()));
    none(&mut txn, &Query::new(KeyRange::all()).limit(1).reverse());
}

/// What is committed between two pages does not show in the second.
pub(super) fn pages_stay_on_their_snapshot(bench: &Bench<'_>) {
    let map = numbered(60);
    let store = filled(bench, &map);
    let wanted: Vec<Entry> = everything(&store);
    let mut txn = begin(&store);
    let mut found = Vec::new();
    let mut next = Some(Query::new(KeyRange::all()).limit(7));
    let mut round = 0;
    while let Some(query) = next {
        let page = block_on(txn.range(&query, Read::Snapshot)).expect("a range answers");
        found.extend(model::entries(&page));
        next = if page.more { query.behind(&page) } else { None };
        round += 1;
        write(&store, |other| {
            put(other, format!("k{:04}x", round * 7).as_bytes(), b"new");
            other.delete(&key(round * 8)).expect("a delete is taken");
            other.add(&key(round * 9), 1).expect("an add is taken");
        });
    }
    assert_eq!(found, wanted);
}
