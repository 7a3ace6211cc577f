//! Atomic operations: what they make of any value, and that they never conflict.

use super::bench::{Bench, assert_commits, begin, commit, fill, get, number, peek, put, write};
use crate::{AtomicOp, Read};
use bytes::Bytes;

fn le(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// A value before, the operation, the value after.
type Row = (Option<Vec<u8>>, AtomicOp, Option<Vec<u8>>);

fn table() -> Vec<Row> {
    let clear = |expected: &[u8]| AtomicOp::CompareAndClear(Bytes::copy_from_slice(expected));
    let long = [1, 0, 0, 0, 0, 0, 0, 0, 99, 99];
    vec![
        (None, AtomicOp::Add(5), Some(le(5))),
        (None, AtomicOp::Add(0), Some(le(0))),
        (Some(le(7)), AtomicOp::Add(5), Some(le(12))),
        (Some(le(7)), AtomicOp::Add(u64::MAX), Some(le(6))),
        (Some(le(u64::MAX)), AtomicOp::Add(1), Some(le(0))),
        (Some(vec![]), AtomicOp::Add(1), Some(le(1))),
        (Some(vec![2]), AtomicOp::Add(1), Some(le(3))),
        (Some(vec![0, 1]), AtomicOp::Add(1), Some(le(257))),
        (Some(long.to_vec()), AtomicOp::Add(1), Some(le(2))),
        (None, AtomicOp::Max(5), Some(le(5))),
        (None, AtomicOp::Max(0), Some(le(0))),
        (Some(le(7)), AtomicOp::Max(5), Some(le(7))),
        (Some(le(7)), AtomicOp::Max(9), Some(le(9))),
        // Numbers are unsigned and little-endian: bytes would order otherwise.
        (Some(le(256)), AtomicOp::Max(255), Some(le(256))),
        (Some(le(1)), AtomicOp::Max(u64::MAX), Some(le(u64::MAX))),
        (Some(vec![]), AtomicOp::Max(0), Some(le(0))),
        (Some(vec![9]), AtomicOp::Max(8), Some(le(9))),
        (Some(long.to_vec()), AtomicOp::Max(0), Some(le(1))),
        (None, clear(b""), None),
        (None, clear(b"x"), None),
        (Some(vec![]), clear(b""), None),
        (Some(vec![]), clear(b"x"), Some(vec![])),
        (Some(b"x".to_vec()), clear(b"x"), None),
        (Some(b"x".to_vec()), clear(b""), Some(b"x".to_vec())),
        (Some(b"x".to_vec()), clear(b"x\0"), Some(b"x".to_vec())),
        (Some(le(7)), clear(&[7]), Some(le(7))),
    ]
}

/// As the engine does it at the commit, and as the transaction shows it before.
pub(super) fn atomics_on_absent_short_and_long_values(bench: &Bench<'_>) {
    let store = bench.store();
    for (index, (before, op, after)) in table().into_iter().enumerate() {
        let key = format!("k{index}");
        let key = key.as_bytes();
        if let Some(before) = &before {
            fill(&store, [(key, &before[..])]);
        }
        let mut seeing = begin(&store);
        seeing.atomic(key, op.clone()).expect("an operation is taken");
        let seen = get(&mut seeing, key, Read::Snapshot);
        assert_eq!(seen.as_deref(), after.as_deref(), "{before:?} {op:?}, as it is seen");
        drop(seeing);

        write(&store, |txn| txn.atomic(key, op.clone()).expect("an operation is taken"));
        let stored = peek(&store, key);
        assert_eq!(stored.as_deref(), after.as_deref(), "{before:?} {op:?}, as it is stored");
    }
}

/// Several on one key in one transaction, mixed with plain writes, take effect in their order.
pub(super) fn atomics_follow_each_other(bench: &Bench<'_>) {
    let store = bench.store();
    fill(&store, [(&b"a"[..], &le(10)[..]), (b"b", &le(10)), (b"c", &le(10)), (b"d", &le(10))]);
    write(&store, |txn| {
        for (key, op) in [
            (b"a", AtomicOp::Add(5)),
            (b"a", AtomicOp::Max(20)),
            (b"a", AtomicOp::Add(1)),
            // 21 is there by now, not 10.
            (b"b", AtomicOp::Add(1)),
            (b"b", AtomicOp::CompareAndClear(Bytes::from(le(11)))),
            (b"b", AtomicOp::Add(3)),
        ] {
            txn.atomic(key, op).expect("an operation is taken");
        }
        put(txn, b"c", &le(100));
        txn.add(b"c", 1).expect("an add is taken");
        txn.add(b"d", 1).expect("an add is taken");
        txn.delete(b"d").expect("a delete is taken");
        txn.max(b"d", 2).expect("a max is taken");
    });
    let found = [b"a", b"b", b"c", b"d"].map(|key| number(&store, key));
    assert_eq!(found, [21, 3, 101, 2]);
}

/// Only the exact value, and only at the time of the commit.
pub(super) fn compare_and_clear_removes_exactly(bench: &Bench<'_>) {
    let store = bench.store();
    fill(&store, [(&b"k"[..], &b"one"[..])]);
    let clear = |expected: &'static [u8]| {
        write(&store, |txn| {
            txn.compare_and_clear(b"k", expected).expect("a clear is taken");
        });
        peek(&store, b"k")
    };
    for other in [&b""[..], b"on", b"one\0", b"two"] {
        assert!(clear(other).is_some(), "{other:?} is not the value");
    }
    assert_eq!(clear(b"one"), None);
    assert_eq!(clear(b"one"), None, "of a missing key it does nothing");
}

/// Not the value at the snapshot.
pub(super) fn atomics_take_the_value_at_commit(bench: &Bench<'_>) {
    let store = bench.store();
    fill(
        &store,
        [(&b"sum"[..], &le(1)[..]), (b"top", &le(1)), (b"gone", b"old"), (b"kept", b"old")],
    );
    let mut late = begin(&store);
    late.add(b"sum", 1).expect("an add is taken");
    late.max(b"top", 5).expect("a max is taken");
    late.compare_and_clear(b"gone", &b"new"[..]).expect("a clear is taken");
    late.compare_and_clear(b"kept", &b"old"[..]).expect("a clear is taken");
    write(&store, |txn| {
        put(txn, b"sum", &le(100));
        put(txn, b"top", &le(7));
        put(txn, b"gone", b"new");
        put(txn, b"kept", b"new");
    });
    assert_commits(commit(late), "atomics alone");
    assert_eq!((number(&store, b"sum"), number(&store, b"top")), (101, 7));
    assert_eq!(peek(&store, b"gone"), None);
    assert_eq!(peek(&store, b"kept").as_deref(), Some(&b"new"[..]));
}

/// Many transactions open at once, all adding to one key: none conflicts, nothing is lost.
pub(super) fn atomics_never_conflict(bench: &Bench<'_>) {
    let store = bench.store();
    let mut open: Vec<_> = (0..50).map(|_| begin(&store)).collect();
    for (index, txn) in open.iter_mut().enumerate() {
        txn.add(b"sum", 1 + index as u64).expect("an add is taken");
        txn.max(b"top", index as u64).expect("a max is taken");
    }
    for txn in open {
        assert_commits(commit(txn), "atomics alone");
    }
    assert_eq!((number(&store, b"sum"), number(&store, b"top")), (1275, 49));
}
