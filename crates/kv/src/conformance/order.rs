//! Keys are bytes and order as bytes; values are bytes and come back.

use super::bench::{
    Bench, assert_conflict, begin, commit, everything, fill, get, pages, peek, put, write,
};
use crate::{Key, KeyRange, Query, Read, Store};

/// Keys that text would not have, in order.
fn binary_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![
        vec![0],
        vec![0, 0],
        vec![0, 0xff],
        vec![0, 0xff, 0xff],
        vec![1],
        b"a".to_vec(),
        b"a\0".to_vec(),
        b"a\0\0".to_vec(),
        b"a\0b".to_vec(),
        b"a\x01".to_vec(),
        b"a\xfe".to_vec(),
        b"a\xff".to_vec(),
        b"a\xff\0".to_vec(),
        b"a\xff\xff".to_vec(),
        b"aa".to_vec(),
        b"b".to_vec(),
        vec![0x7f],
        vec![0x80],
        vec![0xfe],
        vec![0xfe, 0],
        vec![0xfe, 0xff],
        vec![0xfe, 0xff, 0xff, 0xff],
    ];
    keys.sort();
    keys
}

/// Checks that the store holds exactly `keys`, in order, in both directions, each found alone.
fn holds(store: &Store, keys: &[Vec<u8>]) {
    let found: Vec<Vec<u8>> = everything(store).iter().map(|(key, _)| key.to_vec()).collect();
    assert_eq!(found, keys);
    let mut txn = begin(store);
    let back = pages(&mut txn, &Query::new(KeyRange::all()).reverse(), Read::Snapshot);
    assert!(back.iter().map(|(key, _)| &**key).eq(keys.iter().rev().map(|key| &key[..])));
    for key in keys {
        assert_eq!(get(&mut txn, key, Read::Snapshot).as_deref(), Some(&key[..]));
        let point = Query::new(KeyRange::point(key));
        assert_eq!(pages(&mut txn, &point, Read::Snapshot).len(), 1, "{key:?}");
    }
    // Every range between two of them holds what lies between.
    for (from, start) in keys.iter().enumerate() {
        for (to, end) in keys.iter().enumerate().skip(from) {
            let query = Query::new(KeyRange::new(start, end));
            let found = pages(&mut txn, &query, Read::Snapshot);
            assert_eq!(found.len(), to - from, "{query:?}");
        }
    }
}

/// Byte order, with zero bytes, 0xff bytes and prefixes, whatever the order of insertion.
pub(super) fn keys_order_as_their_bytes(bench: &Bench<'_>) {
    let store = bench.store();
    let mut keys = binary_keys();
    // Some order that is not theirs.
    let mut mixed: Vec<&Vec<u8>> = keys.iter().collect();
    mixed.sort_by_key(|key| base::checksum::hash64(7, key));
    for key in mixed {
        write(&store, |txn| put(txn, key, key));
    }
    holds(&store, &keys);

    // A prefix's range is the prefix and all below it, no more.
    let found = pages(&mut begin(&store), &Query::new(KeyRange::prefix(b"a")), Read::Snapshot);
    let wanted = keys.iter().filter(|key| key.starts_with(b"a")).count();
    assert_eq!(found.len(), wanted);

    // Deleting one leaves its neighbours, also those that it is a prefix of.
    write(&store, |txn| txn.delete(b"a\0").expect("a delete is taken"));
    keys.retain(|key| key != b"a\0");
    holds(&store, &keys);
}

/// Empty values, all bytes, and long ones.
pub(super) fn values_come_back_as_they_went_in(bench: &Bench<'_>) {
    let store = bench.store();
    let all: Vec<u8> = (0..=255).collect();
    let long = vec![0x5a; store.capabilities().value_bytes_max.min(9_000)];
    let values: [&[u8]; 5] = [b"", b"\0", &all, &long, &[0xff; 300]];
    for (index, value) in values.iter().enumerate() {
        write(&store, |txn| put(txn, format!("k{index}").as_bytes(), value));
    }
    for (index, value) in values.iter().enumerate() {
        let found = peek(&store, format!("k{index}").as_bytes());
        assert_eq!(found.as_deref(), Some(*value), "an empty value is a value");
    }
    // Shorter over longer, and the other way round.
    fill(&store, [(&b"k3"[..], &b"s"[..]), (b"k0", &long)]);
    assert_eq!(peek(&store, b"k3").as_deref(), Some(&b"s"[..]));
    assert_eq!(peek(&store, b"k0").as_deref(), Some(&long[..]));
}

/// The longest key can be written, read, paged over, deleted and conflicted on.
pub(super) fn the_longest_key_works(bench: &Bench<'_>) {
    let store = bench.store();
    let longest = vec![b'z'; store.capabilities().key_bytes_max.min(1 << 16)];
    let shorter = &longest[..longest.len() - 1];
    fill(&store, [(&longest[..], &longest[..4]), (shorter, b"s"), (b"zzz\xff", b"")]);
    holds_keys(&store, &[shorter, &longest, b"zzz\xff"]);

    let one = Query::new(KeyRange::all()).limit(1);
    let found = pages(&mut begin(&store), &one, Read::Snapshot);
    assert_eq!(found.len(), 3, "paging goes on behind the longest key");

    let mut reader = begin(&store);
    get(&mut reader, &longest, Read::Serializable);
    put(&mut reader, b"other", b"");
    write(&store, |txn| {
        txn.delete_range(&KeyRange::point(&longest))
            .expect("the point range of the longest key is taken");
    });
    assert_conflict(commit(reader), "the longest key was deleted");
    holds_keys(&store, &[shorter, b"zzz\xff"]);
}

fn holds_keys(store: &Store, wanted: &[&[u8]]) {
    let found = everything(store);
    assert!(found.iter().map(|(key, _)| &**key).eq(wanted.iter().copied()), "{found:?}");
}

/// Keys around the length at which they no longer fit in a [`Key`], all prefixes of each other.
pub(super) fn long_keys_leave_the_inline_form(bench: &Bench<'_>) {
    let store = bench.store();
    let long = [b'x'; 200];
    let keys: Vec<Vec<u8>> = [1, 36, 37, 38, 39, 40, 41, 64, 127, 128, 129, 200]
        .iter()
        .map(|&len| long[..len].to_vec())
        .collect();
    fill(&store, keys.iter().rev().map(|key| (&key[..], &key[..])));
    holds(&store, &keys);
    // One of the same length that differs in the last byte.
    let mut sibling = long[..39].to_vec();
    sibling[38] = b'y';
    assert_eq!(peek(&store, &sibling), None);
    assert!(Key::new(&sibling) > Key::new(&long[..200]));
}
