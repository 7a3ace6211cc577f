//! Random transactions, one after the other, against the plain map that they stand for.

use super::bench::{Bench, assert_commits, begin, commit, everything, get, page, pages};
use super::own_writes::both;
use crate::history::model::{self, Entry, Map};
use crate::{AtomicOp, Key, KeyRange, Op, Query, Read, Store, Txn};
use base::{Random, SeededRandom};
use bytes::Bytes;

/// After any sequence of changes, every read is what a plain map would answer, before the commit
/// and after it.
pub(super) fn random_transactions_equal_the_model(bench: &Bench<'_>) {
    for seed in bench.seeds(12) {
        let random = SeededRandom::new(seed);
        let store = bench.store();
        let mut committed = Map::new();
        for _ in 0..25 {
            let mut txn = begin(&store);
            let mut map = committed.clone();
            for _ in 0..random.below(30) {
                step(&random, &mut txn, &mut map);
            }
            if random.one_in(4) {
                continue;
            }
            assert_commits(commit(txn), seed);
            committed = map;
            let wanted: Vec<Entry> = committed.clone().into_iter().collect();
            assert_eq!(everything(&store), wanted, "seed {seed}");
        }
        engine_agrees(&store, &committed, &random);
    }
}

fn step(random: &SeededRandom, txn: &mut Txn, map: &mut Map) {
    if random.one_in(2) {
        both(txn, map, &some_op(random));
        return;
    }
    let read = match random.one_in(2) {
        true => Read::Serializable,
        false => Read::Snapshot,
    };
    if random.one_in(3) {
        let key = some_key(random);
        assert_eq!(get(txn, &key, read).as_ref(), map.get(&key), "{key:?}");
        return;
    }
    let query = some_query(random);
    let truth = model::select(map, &query);
    let first = page(txn, &query, read);
    assert!(truth.starts_with(&first), "{query:?}: {first:?}, not {truth:?}");
    assert_eq!(pages(txn, &query, read), truth, "{query:?}");
}

/// Reads that go straight to the engine, with no own writes between.
fn engine_agrees(store: &Store, map: &Map, random: &SeededRandom) {
    let mut txn = begin(store);
    for _ in 0..40 {
        let query = some_query(random);
        let truth = model::select(map, &query);
        assert_eq!(pages(&mut txn, &query, Read::Snapshot), truth, "{query:?}");
    }
}

fn some_key(random: &SeededRandom) -> Key {
    let keys = model::odd_keys();
    keys[random.below(keys.len() as u64) as usize].clone()
}

fn some_range(random: &SeededRandom) -> KeyRange {
    match random.below(6) {
        0 => KeyRange::all(),
        1 => KeyRange::prefix(&some_key(random)),
        2 => KeyRange::point(&some_key(random)),
        _ => {
            let (one, other) = (some_key(random), some_key(random));
            KeyRange { start: one.clone().min(other.clone()), end: one.max(other) }
        }
    }
}

fn some_query(random: &SeededRandom) -> Query {
    let mut query = Query::new(some_range(random));
    query.reverse = random.one_in(2);
    if random.one_in(2) {
        query.limit = 1 + random.below(5) as usize;
    }
    if random.one_in(3) {
        query.bytes = random.below(100) as usize;
    }
    query
}

fn some_value(random: &SeededRandom) -> Bytes {
    match random.below(4) {
        0 => Bytes::new(),
        1 => model::le(random.below(4)),
        2 => Bytes::from(vec![1; random.below(20) as usize]),
        _ => Bytes::copy_from_slice(&random.next_u64().to_be_bytes()),
    }
}

fn some_op(random: &SeededRandom) -> Op {
    let key = some_key(random);
    match random.below(12) {
        0..=4 => Op::Put(key, some_value(random)),
        5 | 6 => Op::Delete(key),
        7 => Op::DeleteRange(some_range(random)),
        8 => Op::Atomic(key, AtomicOp::Add(random.next_u64())),
        9 => Op::Atomic(key, AtomicOp::Max(random.below(8))),
        _ => Op::Atomic(key, AtomicOp::CompareAndClear(some_value(random))),
    }
}
