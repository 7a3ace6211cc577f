//! A transaction sees its own writes on top of its snapshot, in whatever way it reads.

use super::bench::{Bench, assert_commits, begin, commit, everything, fill, get, page, pages, put};
use crate::history::model::{self, Entry, Map};
use crate::{AtomicOp, Key, KeyRange, Op, Query, Read, Txn};
use base::block_on;
use bytes::Bytes;

/// Makes the same change in a transaction and in the model.
pub(super) fn both(txn: &mut Txn, map: &mut Map, op: &Op) {
    match op {
        Op::Put(key, value) => txn.put(key, value.clone()),
        Op::Delete(key) => txn.delete(key),
        Op::DeleteRange(range) => txn.delete_range(range),
        Op::Atomic(key, atomic) => txn.atomic(key, atomic.clone()),
    }
    .expect("a change within the bounds is taken");
    model::apply(map, op);
}

/// Compares every way to read `keys`, and the range around them, with the model.
fn compare(txn: &mut Txn, map: &Map, keys: &[Key], range: &KeyRange, what: &[&Op]) {
    for read in [Read::Serializable, Read::Snapshot] {
        for key in keys {
            assert_eq!(get(txn, key, read).as_ref(), map.get(key), "{what:?}: {key:?}");
        }
        // One of them twice: answers go by place.
        let mut asked: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        asked.push(&keys[0]);
        let wanted: Vec<Option<Bytes>> = asked.iter().map(|key| map.get(*key).cloned()).collect();
        let values = block_on(txn.get_many(&asked, read)).expect("get_many answers");
        assert_eq!(values, wanted, "{what:?}: get_many");

        for reverse in [false, true] {
            let mut query = Query::new(range.clone());
            query.reverse = reverse;
            let truth = model::select(map, &query);
            for limit in [1, 2, 3, usize::MAX] {
                let query = query.clone().limit(limit);
                let first = page(txn, &query, read);
                let shown = truth.len().min(limit).min(first.len().max(1));
                assert_eq!(first, truth[..shown], "{what:?}: {query:?}");
                assert_eq!(pages(txn, &query, read), truth, "{what:?}: {query:?}");
            }
            query.bytes = 1;
            assert_eq!(pages(txn, &query, read), truth, "{what:?}: {query:?}");
        }
    }
}

/// Every kind of change to keys `a`, `b` and `c` below `prefix`.
fn changes(prefix: &str) -> Vec<Op> {
    let key = |name: &str| Key::new(format!("{prefix}{name}").as_bytes());
    let range =
        |start: &str, end: &str| Op::DeleteRange(KeyRange { start: key(start), end: key(end) });
    let clear = |value: Bytes| AtomicOp::CompareAndClear(value);
    vec![
        Op::Put(key("a"), Bytes::from_static(b"own")),
        Op::Put(key("b"), Bytes::new()),
        Op::Put(key("c"), model::le(7)),
        Op::Delete(key("a")),
        Op::Delete(key("b")),
        range("a", "c"),
        range("b", "d"),
        range("a", "a"),
        Op::Atomic(key("a"), AtomicOp::Add(3)),
        Op::Atomic(key("b"), AtomicOp::Add(u64::MAX)),
        Op::Atomic(key("c"), AtomicOp::Add(1)),
        Op::Atomic(key("a"), AtomicOp::Max(4)),
        Op::Atomic(key("b"), AtomicOp::Max(9)),
        Op::Atomic(key("a"), clear(model::le(3))),
        Op::Atomic(key("b"), clear(model::le(5))),
        Op::Atomic(key("b"), clear(Bytes::from_static(b"no"))),
        Op::Atomic(key("c"), clear(Bytes::from_static(b"text"))),
    ]
}

fn keys(prefix: &str) -> [Key; 3] {
    ["a", "b", "c"].map(|name| Key::new(format!("{prefix}{name}").as_bytes()))
}

/// Every pair of changes, over a store that has some of the keys.
pub(super) fn own_writes_in_every_combination(bench: &Bench<'_>) {
    let store = bench.store();
    let base = [(&b"kb"[..], &model::le(5)[..]), (b"kc", b"text"), (b"l", b"")];
    fill(&store, base);
    let before: Map = everything(&store).into_iter().collect();
    let (range, keys, changes) = (KeyRange::prefix(b"k"), keys("k"), changes("k"));
    for first in &changes {
        let mut txn = begin(&store);
        let mut map = before.clone();
        both(&mut txn, &mut map, first);
        compare(&mut txn, &map, &keys, &range, &[first]);
        for second in &changes {
            let mut txn = begin(&store);
            let mut map = before.clone();
            both(&mut txn, &mut map, first);
            both(&mut txn, &mut map, second);
            compare(&mut txn, &map, &keys, &range, &[first, second]);
        }
    }
    let after: Map = everything(&store).into_iter().collect();
    assert_eq!(after, before, "nothing was committed");
}

/// Every change, over nothing.
pub(super) fn own_writes_over_an_empty_store(bench: &Bench<'_>) {
    let store = bench.store();
    let (range, keys) = (KeyRange::all(), keys("k"));
    for change in &changes("k") {
        let (mut txn, mut map) = (begin(&store), Map::new());
        both(&mut txn, &mut map, change);
        compare(&mut txn, &map, &keys, &range, &[change]);
    }
}

/// Reads between the writes of a transaction see each write at once.
pub(super) fn own_writes_in_long_transactions(bench: &Bench<'_>) {
    let store = bench.store();
    let mut txn = begin(&store);
    let mut map = Map::new();
    let count = store.capabilities().txn_ops_max.min(200) / 2;
    for index in 0..count {
        let key = Key::new(format!("k{:03}", index * 7 % count).as_bytes());
        both(&mut txn, &mut map, &Op::Put(key.clone(), model::le(index as u64)));
        assert_eq!(get(&mut txn, &key, Read::Serializable), Some(model::le(index as u64)));
        let query = Query::new(KeyRange::all());
        assert_eq!(pages(&mut txn, &query, Read::Snapshot), model::select(&map, &query));
    }
    for index in (0..count).step_by(3) {
        let key = Key::new(format!("k{index:03}").as_bytes());
        both(&mut txn, &mut map, &Op::Delete(key));
        let query = Query::new(KeyRange::all()).reverse().limit(10);
        assert_eq!(pages(&mut txn, &query, Read::Snapshot), model::select(&map, &query));
    }
}

/// What a transaction saw of its writes is what others see after its commit.
pub(super) fn own_writes_are_what_commits(bench: &Bench<'_>) {
    let store = bench.store();
    let mut wanted = Map::new();
    let plain = changes("");
    for first in 0..plain.len() {
        for second in 0..plain.len() {
            let prefix = format!("{first:02}.{second:02}.");
            let changes = changes(&prefix);
            let [_, b, c] = keys(&prefix);
            fill(&store, [(&*b, &model::le(5)[..]), (&*c, b"text")]);
            wanted.insert(b, model::le(5));
            wanted.insert(c, Bytes::from_static(b"text"));

            let mut txn = begin(&store);
            both(&mut txn, &mut wanted, &changes[first]);
            both(&mut txn, &mut wanted, &changes[second]);
            put(&mut txn, format!("{prefix}z").as_bytes(), b"done");
            wanted.insert(Key::new(format!("{prefix}z").as_bytes()), Bytes::from_static(b"done"));
            assert_commits(commit(txn), (&changes[first], &changes[second]));
        }
    }
    let wanted: Vec<Entry> = wanted.into_iter().collect();
    assert_eq!(everything(&store), wanted);
}
