//! Each side of every bound, what is refused outright, and that a refusal harms nothing.

use super::bench::{
    Bench, assert_commits, assert_refused, begin, commit, everything, get, peek, put,
};
use crate::{ErrorKind, KeyRange, Query, Read, Result, Txn};
use base::block_on;
use std::fmt::Debug;

/// The most bytes that these cases write to reach a bound.
const BYTES_MAX: usize = 100 << 20;

/// After a refusal the transaction goes on as if nothing had been asked.
fn refused<T: Debug>(txn: &mut Txn, outcome: Result<T>, kind: ErrorKind, what: impl Debug) {
    assert_refused(outcome, kind, &what);
    put(txn, b"after", b"v");
    assert!(get(txn, b"after", Read::Serializable).is_some(), "{what:?}");
}

/// Every call that takes a key.
pub(super) fn keys_up_to_the_bound(bench: &Bench<'_>) {
    let store = bench.store();
    let bound = store.capabilities().key_bytes_max;
    if bound > BYTES_MAX {
        return bench.skip(format!("key_bytes_max is {bound}, which no test writes"));
    }
    let (fits, long) = (vec![b'k'; bound], vec![b'k'; bound + 1]);
    let mut txn = begin(&store);
    let kind = ErrorKind::TooLarge;
    let outcome = txn.put(&long, &b""[..]);
    refused(&mut txn, outcome, kind, "put");
    let outcome = txn.delete(&long);
    refused(&mut txn, outcome, kind, "delete");
    let outcome = txn.add(&long, 1);
    refused(&mut txn, outcome, kind, "add");
    let outcome = block_on(txn.get(&long, Read::Serializable));
    refused(&mut txn, outcome, kind, "get");
    let outcome = block_on(txn.get_many(&[b"a", &long], Read::Serializable));
    refused(&mut txn, outcome, kind, "get_many");
    let outcome = block_on(txn.watch(&long));
    refused(&mut txn, outcome, kind, "watch");
    // The end of a point range is one byte longer than its key, and may be.
    let outcome = txn.delete_range(&KeyRange::point(&long));
    refused(&mut txn, outcome, kind, "delete_range");
    let outcome = txn.read_conflict(&KeyRange::point(&long));
    refused(&mut txn, outcome, kind, "read_conflict");
    let query = Query::new(KeyRange::point(&long));
    let outcome = block_on(txn.range(&query, Read::Serializable));
    refused(&mut txn, outcome, kind, "range");

    put(&mut txn, &fits, b"v");
    txn.read_conflict(&KeyRange::point(&fits)).expect("a conflict is taken");
    assert_commits(commit(txn), "a transaction that was refused much");
    assert_eq!(everything(&store).len(), 2);
    assert_eq!(peek(&store, &fits).as_deref(), Some(&b"v"[..]));
}

/// A value of the bound is stored, one byte more is not.
pub(super) fn values_up_to_the_bound(bench: &Bench<'_>) {
    let store = bench.store();
    let bound = store.capabilities().value_bytes_max;
    if bound > BYTES_MAX {
        return bench.skip(format!("value_bytes_max is {bound}, which no test writes"));
    }
    let mut txn = begin(&store);
    let outcome = txn.put(b"long", vec![1; bound + 1]);
    refused(&mut txn, outcome, ErrorKind::TooLarge, "put");
    assert_eq!(get(&mut txn, b"long", Read::Serializable), None);
    txn.put(b"fits", vec![2; bound]).expect("a value of the bound is taken");
    assert_commits(commit(txn), "a value of the bound");
    assert_eq!(peek(&store, b"fits").map(|value| value.len()), Some(bound));
    assert_eq!(peek(&store, b"long"), None);
}

/// Bytes of keys and values add up; the last byte that fits does fit.
pub(super) fn transactions_up_to_their_bytes(bench: &Bench<'_>) {
    let store = bench.store();
    let bounds = store.capabilities().clone();
    let bound = bounds.txn_bytes_max;
    if bound > BYTES_MAX {
        return bench.skip(format!("txn_bytes_max is {bound}, which no test writes"));
    }
    let mut txn = begin(&store);
    let mut left = bound;
    let mut count = 0;
    while left > 0 {
        let key = format!("k{count:06}");
        // Never so little left that not even a key fits.
        let value = bounds.value_bytes_max.min(left - key.len());
        let value = match left - key.len() - value {
            rest if rest > 0 && rest <= key.len() => value - key.len(),
            _ => value,
        };
        txn.put(key.as_bytes(), vec![3; value]).expect("it fits");
        left -= key.len() + value;
        count += 1;
    }
    assert!(count < bounds.txn_ops_max, "the operations end before the bytes");
    let kind = ErrorKind::TooLarge;
    assert_refused(txn.put(b"x", &b""[..]), kind, "put");
    assert_refused(txn.delete(b"x"), kind, "delete");
    assert_refused(txn.add(b"x", 1), kind, "add");
    assert_refused(txn.delete_range(&KeyRange::new(b"x", b"y")), kind, "delete_range");
    assert_refused(txn.write_conflict(&KeyRange::new(b"x", b"y")), kind, "write_conflict");
    assert_eq!(get(&mut txn, b"x", Read::Serializable), None);
    assert!(get(&mut txn, b"k000000", Read::Serializable).is_some());
    assert_commits(commit(txn), "a transaction of the bound");
    assert_eq!(everything(&store).len(), count);
}

/// Every kind of change is one operation.
pub(super) fn transactions_up_to_their_operations(bench: &Bench<'_>) {
    let store = bench.store();
    let bound = store.capabilities().txn_ops_max;
    if bound > 1_000_000 {
        return bench.skip(format!("txn_ops_max is {bound}, which no test writes"));
    }
    let mut txn = begin(&store);
    for index in 0..bound {
        let key = format!("k{index:06}");
        let key = key.as_bytes();
        match index % 4 {
            0 => txn.put(key, &b"v"[..]),
            1 => txn.delete(key),
            2 => txn.add(key, 1),
            _ => txn.delete_range(&KeyRange::point(key)),
        }
        .expect("it fits");
    }
    let kind = ErrorKind::TooLarge;
    assert_refused(txn.put(b"x", &b""[..]), kind, "put");
    assert_refused(txn.delete(b"x"), kind, "delete");
    assert_refused(txn.max(b"x", 1), kind, "max");
    assert_refused(txn.delete_range(&KeyRange::new(b"x", b"y")), kind, "delete_range");
    assert_eq!(get(&mut txn, b"x", Read::Serializable), None);
    assert_commits(commit(txn), "a transaction of the bound");
    assert_eq!(everything(&store).len(), bound.div_ceil(4) + (bound + 1) / 4);
}

/// The empty key, and keys that begin with 0xff, in every call.
pub(super) fn bad_keys_are_refused(bench: &Bench<'_>) {
    let store = bench.store();
    for key in [&b""[..], b"\xff", b"\xff\xff", b"\xff\0k"] {
        let mut txn = begin(&store);
        let kind = ErrorKind::Unsupported;
        let outcome = txn.put(key, &b""[..]);
        refused(&mut txn, outcome, kind, ("put", key));
        let outcome = txn.delete(key);
        refused(&mut txn, outcome, kind, ("delete", key));
        let outcome = txn.atomic(key, crate::AtomicOp::Max(1));
        refused(&mut txn, outcome, kind, ("atomic", key));
        let outcome = block_on(txn.get(key, Read::Snapshot));
        refused(&mut txn, outcome, kind, ("get", key));
        let outcome = block_on(txn.get_many(&[b"a", key], Read::Snapshot));
        refused(&mut txn, outcome, kind, ("get_many", key));
        let outcome = block_on(txn.watch(key));
        refused(&mut txn, outcome, kind, ("watch", key));
        assert_commits(commit(txn), key);
    }
    let keys: Vec<_> = everything(&store).into_iter().map(|(key, _)| key.to_vec()).collect();
    assert_eq!(keys, [b"after"]);
}

/// Ranges that end before they start, or behind the last key that can be.
pub(super) fn bad_ranges_are_refused(bench: &Bench<'_>) {
    let store = bench.store();
    for (start, end) in
        [(&b"b"[..], &b"a"[..]), (b"a\0", b"a"), (b"a", b"\xff\0"), (b"a", b"\xff\xff")]
    {
        let range = KeyRange::new(start, end);
        let mut txn = begin(&store);
        let kind = ErrorKind::Unsupported;
        let outcome = txn.delete_range(&range);
        refused(&mut txn, outcome, kind, ("delete_range", &range));
        let outcome = txn.read_conflict(&range);
        refused(&mut txn, outcome, kind, ("read_conflict", &range));
        let outcome = txn.write_conflict(&range);
        refused(&mut txn, outcome, kind, ("write_conflict", &range));
        let query = Query::new(range.clone());
        let outcome = block_on(txn.range(&query, Read::Serializable));
        refused(&mut txn, outcome, kind, ("range", &range));
        assert_commits(commit(txn), &range);
    }
    assert_eq!(everything(&store).len(), 1);
}
