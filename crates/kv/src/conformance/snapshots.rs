//! A transaction reads one version: nothing that others do moves it.

use super::bench::{Bench, begin, commit, everything, fill, get, pages, peek, put, write};
use crate::history::model::Entry;
use crate::{KeyRange, Query, Read, Store, Txn};
use base::block_on;
use bytes::Bytes;

const KEYS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];

/// Everything, in every way to read.
#[derive(Debug, PartialEq, Eq)]
struct View {
    gets: Vec<Option<Bytes>>,
    many: Vec<Option<Bytes>>,
    forward: Vec<Entry>,
    backward: Vec<Entry>,
}

fn look(txn: &mut Txn, read: Read) -> View {
    let query = Query::new(KeyRange::all());
    View {
        gets: KEYS.iter().map(|key| get(txn, key, read)).collect(),
        many: block_on(txn.get_many(&KEYS, read)).expect("get_many answers"),
        forward: pages(txn, &query, read),
        backward: pages(txn, &query.reverse().limit(2), read),
    }
}

/// Changes every key in one way or another.
fn upheaval(store: &Store, round: u8) {
    write(store, |txn| {
        put(txn, b"a", &[round]);
        txn.delete(b"b").expect("a delete is taken");
        txn.delete_range(&KeyRange::new(b"c", b"d")).expect("a delete is taken");
        txn.add(b"d", 1).expect("an add is taken");
        txn.compare_and_clear(b"e", &b"5"[..]).expect("a clear is taken");
        put(txn, b"f", b"new");
        put(txn, &[b'g', round], b"new");
    });
}

/// Gets, get_many and ranges, of what was read before and of what was not.
pub(super) fn a_snapshot_does_not_move(bench: &Bench<'_>) {
    let store = bench.store();
    fill(&store, [(&b"a"[..], &b"1"[..]), (b"b", b"2"), (b"c", b"3"), (b"d", b"4"), (b"e", b"5")]);
    let (mut seen, mut unseen) = (begin(&store), begin(&store));
    let at = seen.version();
    let before = look(&mut seen, Read::Serializable);
    for round in 0..3 {
        upheaval(&store, round);
        assert_eq!(look(&mut seen, Read::Serializable), before);
        assert_eq!(look(&mut seen, Read::Snapshot), before);
    }
    assert_eq!(look(&mut unseen, Read::Serializable), before, "first looked at now");
    assert_eq!((seen.version(), unseen.version()), (at, at));
    assert_ne!(look(&mut begin(&store), Read::Serializable), before);
    assert_eq!(commit(seen).expect("it only read"), at);
}

/// Neither while it is open, nor after it was dropped.
pub(super) fn nobody_sees_what_is_not_committed(bench: &Bench<'_>) {
    let store = bench.store();
    fill(&store, [(&b"a"[..], &b"1"[..]), (b"b", b"2")]);
    let before = everything(&store);
    let mut txn = begin(&store);
    put(&mut txn, b"a", b"dirty");
    txn.delete(b"b").expect("a delete is taken");
    txn.delete_range(&KeyRange::all()).expect("a delete is taken");
    put(&mut txn, b"c", b"dirty");
    assert_eq!(everything(&store), before, "it is open");
    drop(txn);
    assert_eq!(everything(&store), before, "it was abandoned");
}

/// A snapshot that is taken after a commit returned has it, and its version is no lower.
pub(super) fn a_new_snapshot_sees_every_commit(bench: &Bench<'_>) {
    let store = bench.store();
    for round in 0..100u8 {
        let version = write(&store, |txn| put(txn, b"k", &[round]));
        let mut txn = begin(&store);
        assert!(txn.version() >= version, "round {round}");
        assert_eq!(get(&mut txn, b"k", Read::Serializable).as_deref(), Some(&[round][..]));
    }
}

/// Many versions, each with its own reader, all right at the same time.
pub(super) fn old_snapshots_live_side_by_side(bench: &Bench<'_>) {
    let store = bench.store();
    let mut readers: Vec<(u8, Txn)> = Vec::new();
    for round in 0..50u8 {
        write(&store, |txn| {
            put(txn, b"k", &[round]);
            put(txn, &[b'r', round], b"");
            if round >= 10 {
                txn.delete(&[b'r', round - 10]).expect("a delete is taken");
            }
        });
        readers.push((round, begin(&store)));
    }
    // From the middle outwards, so that old ones are closed between others.
    readers.sort_by_key(|(round, _)| (i16::from(*round) - 25).abs());
    for (round, mut txn) in readers {
        assert_eq!(get(&mut txn, b"k", Read::Snapshot).as_deref(), Some(&[round][..]));
        let rows = pages(&mut txn, &Query::new(KeyRange::prefix(b"r")), Read::Snapshot);
        assert_eq!(rows.len(), usize::from(round.min(9)) + 1, "round {round}");
        assert_eq!(&*rows[0].0, &[b'r', round.saturating_sub(9)]);
    }
    assert_eq!(peek(&store, b"k").as_deref(), Some(&[49][..]));
}
