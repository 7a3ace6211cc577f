//! Conflicts that a transaction asks for by name.

use super::bench::{
    Bench, assert_commits, assert_conflict, begin, commit, everything, fill, get, put, write,
};
use super::conflicts::{WRITES, race};
use crate::{KeyRange, Query, Read, Result, Txn, Version};

/// As if the range had been read.
pub(super) fn read_conflicts_conflict_as_reads(bench: &Bench<'_>) {
    for (range, hit, missed) in [
        (KeyRange::point(b"k"), &b"k"[..], &b"k\0"[..]),
        (KeyRange::new(b"k", b"m"), b"l", b"m"),
        (KeyRange::prefix(b"k"), b"k\xff", b"l"),
        (KeyRange::all(), b"\0", b""),
    ] {
        for (what, change) in WRITES {
            let attempt = |key: &[u8]| {
                race(
                    &bench.store(),
                    |txn| txn.read_conflict(&range).expect("a conflict is taken"),
                    |txn| change(txn, key),
                )
            };
            assert_conflict(attempt(hit), (&range, what, hit));
            if !missed.is_empty() {
                assert_commits(attempt(missed), (&range, what, missed));
            }
        }
    }
    // Also of a key that the transaction itself has written.
    let outcome = race(
        &bench.store(),
        |txn| {
            put(txn, b"k", b"mine");
            txn.read_conflict(&KeyRange::point(b"k")).expect("a conflict is taken");
        },
        |txn| txn.put(b"k", &b"theirs"[..]),
    );
    assert_conflict(outcome, "asked for by name");
}

/// A way to read the key `k`.
type Look = (&'static str, fn(&mut Txn));

/// As if the range had been written.
pub(super) fn write_conflicts_conflict_as_writes(bench: &Bench<'_>) {
    let attempt = |look: fn(&mut Txn), range: &KeyRange| -> Result<Version> {
        let store = bench.store();
        fill(&store, [(&b"k"[..], &b"v"[..])]);
        let before = everything(&store);
        let outcome = race(&store, look, |txn| txn.write_conflict(range));
        let mut after = everything(&store);
        after.retain(|(key, _)| **key != *b"elsewhere");
        assert_eq!(after, before, "a write conflict changes nothing");
        outcome
    };
    let looks: [Look; 3] = [
        ("get", |txn| {
            get(txn, b"k", Read::Serializable);
        }),
        ("range", |txn| {
            super::bench::page(txn, &Query::new(KeyRange::point(b"k")), Read::Serializable);
        }),
        ("read_conflict", |txn| {
            txn.read_conflict(&KeyRange::point(b"k")).expect("a conflict is taken");
        }),
    ];
    for (what, look) in looks {
        for range in [KeyRange::point(b"k"), KeyRange::new(b"a", b"z"), KeyRange::all()] {
            assert_conflict(attempt(look, &range), (what, &range));
        }
        for range in [KeyRange::new(b"a", b"k"), KeyRange::new(b"k\0", b"z")] {
            assert_commits(attempt(look, &range), (what, &range));
        }
    }
}

/// A transaction with nothing but a write conflict has a version of its own, and can conflict.
pub(super) fn write_conflicts_alone_commit(bench: &Bench<'_>) {
    let store = bench.store();
    let mut txn = begin(&store);
    let at = txn.version();
    txn.write_conflict(&KeyRange::point(b"k")).expect("a conflict is taken");
    assert!(assert_commits(commit(txn), "a write conflict alone") > at);

    let mut txn = begin(&store);
    get(&mut txn, b"k", Read::Serializable);
    txn.write_conflict(&KeyRange::point(b"l")).expect("a conflict is taken");
    write(&store, |txn| put(txn, b"k", b"v"));
    assert_conflict(commit(txn), "it read what was written");
}

/// With nothing to write there is nothing to check.
pub(super) fn read_conflicts_alone_never_conflict(bench: &Bench<'_>) {
    let store = bench.store();
    let mut txn = begin(&store);
    let at = txn.version();
    txn.read_conflict(&KeyRange::all()).expect("a conflict is taken");
    write(&store, |txn| put(txn, b"k", b"v"));
    assert_eq!(assert_commits(commit(txn), "it wrote nothing"), at);
}

/// An empty range meets nothing, and makes no writer of a reader.
pub(super) fn empty_conflict_ranges_do_nothing(bench: &Bench<'_>) {
    let store = bench.store();
    let empty = KeyRange::new(b"k", b"k");
    let mut txn = begin(&store);
    let at = txn.version();
    txn.read_conflict(&empty).expect("a conflict is taken");
    txn.write_conflict(&empty).expect("a conflict is taken");
    txn.delete_range(&empty).expect("a delete is taken");
    write(&store, |txn| put(txn, b"k", b"v"));
    assert_eq!(assert_commits(commit(txn), "it wrote nothing"), at);

    let outcome = race(
        &store,
        |txn| txn.read_conflict(&empty).expect("a conflict is taken"),
        |txn| txn.put(b"k", &b"w"[..]),
    );
    assert_commits(outcome, "it read nothing");
}
