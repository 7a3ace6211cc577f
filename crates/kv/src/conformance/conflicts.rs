//! When a transaction must conflict and when it must not: every kind of read against every kind of
//! write.

use super::bench::{
    Bench, assert_commits, assert_conflict, begin, commit, everything, fill, get, number, page,
    peek, put, write,
};
use crate::{KeyRange, Query, Read, Result, Store, Txn, Version};
use base::block_on;

/// A way to write exactly one key.
pub(super) type Write = (&'static str, fn(&mut Txn, &[u8]) -> Result<()>);

pub(super) const WRITES: &[Write] = &[
    ("put", |txn, key| txn.put(key, &b"w"[..])),
    ("put of the same value", |txn, key| txn.put(key, &b"v"[..])),
    ("delete", |txn, key| txn.delete(key)),
    ("delete_range", |txn, key| txn.delete_range(&KeyRange::point(key))),
    ("add", |txn, key| txn.add(key, 1)),
    ("max", |txn, key| txn.max(key, 1)),
    ("compare_and_clear that clears", |txn, key| txn.compare_and_clear(key, &b"v"[..])),
    ("compare_and_clear that does not", |txn, key| txn.compare_and_clear(key, &b"x"[..])),
    ("write_conflict", |txn, key| txn.write_conflict(&KeyRange::point(key))),
];

/// A way to read a key, and maybe others above it that begin with it.
type Look = (&'static str, fn(&mut Txn, &[u8], Read));

const LOOKS: &[Look] = &[
    ("get", |txn, key, read| {
        get(txn, key, read);
    }),
    ("get_many", |txn, key, read| {
        block_on(txn.get_many(&[b"x", key, b"y"], read)).expect("get_many answers");
    }),
    ("range of the point", |txn, key, read| {
        page(txn, &Query::new(KeyRange::point(key)), read);
    }),
    ("reverse range of the point", |txn, key, read| {
        page(txn, &Query::new(KeyRange::point(key)).reverse(), read);
    }),
    ("get, after others", |txn, key, read| {
        // Conflict ranges that are kept apart, joined, and in no order.
        for other in [&b"a"[..], b"z", b"y", b"y\0", b"b"] {
            get(txn, other, read);
        }
        get(txn, key, read);
        get(txn, b"q", read);
    }),
];

/// A store with `k` and, on each side, a neighbour as close as keys can be.
fn prepared(bench: &Bench<'_>) -> Store {
    let store = bench.store();
    fill(&store, [(&b"j\xff\xff"[..], &b"v"[..]), (b"k", b"v"), (b"k\0", b"v")]);
    store
}

/// One transaction reads, another then writes and commits; the first writes elsewhere and tries to.
pub(super) fn race(
    store: &Store,
    read: impl FnOnce(&mut Txn),
    change: impl FnOnce(&mut Txn) -> Result<()>,
) -> Result<Version> {
    let mut reader = begin(store);
    read(&mut reader);
    write(store, |txn| change(txn).expect("a change is taken"));
    put(&mut reader, b"elsewhere", b"");
    commit(reader)
}

/// On a key that is there and on one that is not.
pub(super) fn every_read_conflicts_with_every_write(bench: &Bench<'_>) {
    for key in [&b"k"[..], b"missing"] {
        for (look, read) in LOOKS {
            for (what, change) in WRITES {
                let store = prepared(bench);
                let outcome =
                    race(&store, |txn| read(txn, key, Read::Serializable), |txn| change(txn, key));
                assert_conflict(outcome, (look, what, key));
            }
        }
    }
}

/// The keys right below and right above are other keys.
pub(super) fn no_read_conflicts_with_a_neighbour(bench: &Bench<'_>) {
    for neighbour in [&b"j\xff\xff"[..], b"j\xff\xff\xff", b"k\0", b"k\0\0", b"k\x01"] {
        for (look, read) in LOOKS {
            for (what, change) in WRITES {
                let store = prepared(bench);
                let outcome = race(
                    &store,
                    |txn| read(txn, b"k", Read::Serializable),
                    |txn| change(txn, neighbour),
                );
                assert_commits(outcome, (look, what, neighbour));
            }
        }
    }
}

/// A snapshot read does not count, of whatever kind.
pub(super) fn snapshot_reads_never_conflict(bench: &Bench<'_>) {
    for (look, read) in LOOKS {
        for (what, change) in WRITES {
            let store = prepared(bench);
            let outcome =
                race(&store, |txn| read(txn, b"k", Read::Snapshot), |txn| change(txn, b"k"));
            assert_commits(outcome, (look, what));
        }
    }
}

/// What was committed before the snapshot is part of it.
pub(super) fn earlier_writes_do_not_conflict(bench: &Bench<'_>) {
    for (what, change) in WRITES {
        let store = prepared(bench);
        // An older reader keeps the engine from forgetting the write.
        let old = begin(&store);
        write(&store, |txn| change(txn, b"k").expect("a change is taken"));
        let mut txn = begin(&store);
        get(&mut txn, b"k", Read::Serializable);
        page(&mut txn, &Query::new(KeyRange::all()), Read::Serializable);
        put(&mut txn, b"k", b"mine");
        assert_commits(commit(txn), what);
        drop(old);
    }
}

fn skew(bench: &Bench<'_>, read: Read) -> (Result<Version>, Result<Version>) {
    let store = bench.store();
    fill(&store, [(&b"x"[..], &b"1"[..]), (b"y", b"1")]);
    let (mut one, mut other) = (begin(&store), begin(&store));
    for txn in [&mut one, &mut other] {
        get(txn, b"x", read);
        get(txn, b"y", read);
    }
    put(&mut one, b"x", b"0");
    put(&mut other, b"y", b"0");
    (commit(one), commit(other))
}

/// Two that each read both and write one: the second would not have seen what it saw.
pub(super) fn write_skew_conflicts(bench: &Bench<'_>) {
    let (first, second) = skew(bench, Read::Serializable);
    assert_commits(first, "the first");
    assert_conflict(second, "the second");
}

/// Who reads snapshots has asked for it.
pub(super) fn write_skew_on_snapshot_reads_commits(bench: &Bench<'_>) {
    let (first, second) = skew(bench, Read::Snapshot);
    let first = assert_commits(first, "the first");
    assert!(assert_commits(second, "the second") > first);
}

/// Two that add to what they read: one has to look again.
pub(super) fn lost_updates_conflict(bench: &Bench<'_>) {
    let store = bench.store();
    write(&store, |txn| txn.add(b"n", 10).expect("an add is taken"));
    let (mut one, mut other) = (begin(&store), begin(&store));
    for txn in [&mut one, &mut other] {
        let old = get(txn, b"n", Read::Serializable).expect("it is there");
        put(txn, b"n", &(u64::from(old[0]) + 1).to_le_bytes());
    }
    assert_commits(commit(one), "the first");
    assert_conflict(commit(other), "the second");
    assert_eq!(number(&store, b"n"), 11);
}

/// All of it or nothing.
pub(super) fn a_conflict_writes_nothing(bench: &Bench<'_>) {
    let store = prepared(bench);
    let mut txn = begin(&store);
    get(&mut txn, b"k", Read::Serializable);
    put(&mut txn, b"new", b"");
    txn.delete(b"k\0").expect("a delete is taken");
    txn.add(b"n", 1).expect("an add is taken");
    txn.delete_range(&KeyRange::new(b"a", b"k")).expect("a delete is taken");
    write(&store, |other| put(other, b"k", b"w"));
    let before = everything(&store);
    assert_conflict(commit(txn), "its read was overwritten");
    assert_eq!(everything(&store), before);
    assert_eq!(peek(&store, b"new"), None);
}

/// A transaction that wrote nothing happened at its snapshot, whatever came after.
pub(super) fn read_only_never_conflicts(bench: &Bench<'_>) {
    for (what, change) in WRITES {
        let store = prepared(bench);
        let mut txn = begin(&store);
        let at = txn.version();
        get(&mut txn, b"k", Read::Serializable);
        page(&mut txn, &Query::new(KeyRange::all()), Read::Serializable);
        write(&store, |other| change(other, b"k").expect("a change is taken"));
        assert_eq!(assert_commits(commit(txn), what), at);
    }
}

/// Any two writes to one key, with nothing read: both commit, the later one is on top.
pub(super) fn blind_writes_never_conflict(bench: &Bench<'_>) {
    for (first, one) in WRITES {
        for (second, other) in WRITES {
            let store = prepared(bench);
            let (mut early, mut late) = (begin(&store), begin(&store));
            one(&mut early, b"k").expect("a change is taken");
            other(&mut late, b"k").expect("a change is taken");
            let early = assert_commits(commit(early), (first, second));
            let late = assert_commits(commit(late), (first, second));
            assert!(early < late);
        }
    }
}

/// Reading back what the transaction itself has set does not touch the store.
pub(super) fn own_writes_do_not_count_as_reads(bench: &Bench<'_>) {
    let own: &[Write] = &[
        ("put", |txn, key| txn.put(key, &b"mine"[..])),
        ("delete", |txn, key| txn.delete(key)),
        ("delete_range", |txn, key| txn.delete_range(&KeyRange::prefix(key))),
        ("add to an own put", |txn, key| {
            txn.put(key, &b"mine"[..])?;
            txn.add(key, 1)
        }),
        ("max of what was deleted", |txn, key| {
            txn.delete_range(&KeyRange::prefix(key))?;
            txn.max(key, 1)
        }),
    ];
    for (what, set) in own {
        for (how, look) in &LOOKS[..2] {
            let store = prepared(bench);
            let outcome = race(
                &store,
                |txn| {
                    set(txn, b"k").expect("a change is taken");
                    look(txn, b"k", Read::Serializable);
                },
                |txn| txn.put(b"k", &b"theirs"[..]),
            );
            assert_commits(outcome, (what, how));
        }
    }
}

/// The value after an atomic operation depends on the store's: reading it is a read.
pub(super) fn a_pending_atomic_counts_when_read(bench: &Bench<'_>) {
    for (how, look) in LOOKS {
        let store = prepared(bench);
        let outcome = race(
            &store,
            |txn| {
                txn.add(b"k", 1).expect("an add is taken");
                look(txn, b"k", Read::Serializable);
            },
            |txn| txn.put(b"k", &b"theirs"[..]),
        );
        assert_conflict(outcome, how);
    }
}
