//! A range read conflicts with whatever appears, changes or goes in the part that it has shown, and
//! with nothing else.

use super::bench::{
    Bench, assert_commits, assert_conflict, begin, commit, fill, get, page, pages, put, write,
};
use super::conflicts::{WRITES, race};
use crate::{Key, KeyRange, Query, Read, Result, Store, Txn, Version};
use base::block_on;

/// Rows `r0`, `r2`, `r4`, `r6` and `r8`, with something on each side.
fn rows(bench: &Bench<'_>) -> Store {
    let store = bench.store();
    let entries = [&b"q"[..], b"r0", b"r2", b"r4", b"r6", b"r8", b"s"];
    fill(&store, entries.map(|key| (key, &b"v"[..])));
    store
}

fn all_rows() -> Query {
    Query::new(KeyRange::prefix(b"r"))
}

/// Checks every kind of write at each key: whether a reader of `query` conflicts. An engine may end a
/// page early: what has no limit is read to its end.
fn expect(bench: &Bench<'_>, query: &Query, shown: usize, hit: &[&[u8]], missed: &[&[u8]]) {
    let look = |txn: &mut Txn| {
        let entries = match query.limit {
            usize::MAX => pages(txn, query, Read::Serializable),
            _ => page(txn, query, Read::Serializable),
        };
        assert_eq!(entries.len(), shown, "{query:?}");
    };
    for (what, change) in WRITES {
        for key in hit {
            let outcome = race(&rows(bench), look, |txn| change(txn, key));
            assert_conflict(outcome, (query, what, key));
        }
        for key in missed {
            let outcome = race(&rows(bench), look, |txn| change(txn, key));
            assert_commits(outcome, (query, what, key));
        }
    }
}

/// On entries, between them, before the first and behind the last.
pub(super) fn phantoms_conflict_everywhere_in_the_range(bench: &Bench<'_>) {
    let inside: [&[u8]; 7] = [b"r", b"r0", b"r1", b"r4\0", b"r8", b"r9", b"r\xff\xff"];
    let outside: [&[u8]; 4] = [b"q", b"q\xff", b"s", b"s\0"];
    expect(bench, &all_rows(), 5, &inside, &outside);
    expect(bench, &all_rows().reverse(), 5, &inside, &outside);

    // A deletion of a range that overlaps at one end, and one that only touches.
    let delete = |start: &[u8], end: &[u8]| -> Result<Version> {
        let range = KeyRange::new(start, end);
        race(
            &rows(bench),
            |txn| {
                page(txn, &Query::new(KeyRange::new(b"r2", b"r6")), Read::Serializable);
            },
            |txn| txn.delete_range(&range),
        )
    };
    assert_conflict(delete(b"a", b"r2\0"), "over the start");
    assert_conflict(delete(b"r5\xff", b"z"), "over the end");
    assert_conflict(delete(b"a", b"z"), "over all of it");
    assert_conflict(delete(b"r3", b"r3\0"), "inside, where nothing is");
    assert_commits(delete(b"a", b"r2"), "up to the start");
    assert_commits(delete(b"r6", b"z"), "from the end");
}

/// Behind the last entry of a page that says that there is more, nothing was seen.
pub(super) fn limited_ranges_conflict_up_to_the_last_entry(bench: &Bench<'_>) {
    let hit: [&[u8]; 4] = [b"r", b"r0", b"r1", b"r2"];
    let missed: [&[u8]; 5] = [b"q", b"r2\0", b"r3", b"r4", b"r9"];
    expect(bench, &all_rows().limit(2), 2, &hit, &missed);

    // Where a page ends by bytes is for the engine to say; it counts as far as that.
    for reverse in [false, true] {
        let mut query = all_rows();
        (query.bytes, query.reverse) = (4, reverse);
        let attempt = |beyond: bool| {
            let store = rows(bench);
            let last = page(&mut begin(&store), &query, Read::Snapshot).pop().expect("an entry").0;
            let key = match (beyond, reverse) {
                (false, _) => last,
                (true, false) => last.successor(),
                (true, true) => Key::new(&[&last[..1], &[last[1] - 1]].concat()),
            };
            let look = |txn: &mut Txn| drop(page(txn, &query, Read::Serializable));
            race(&store, look, |txn| txn.delete(&key))
        };
        assert_conflict(attempt(false), (&query, "the last entry"));
        assert_commits(attempt(true), (&query, "behind it"));
    }
}

/// The same from the end.
pub(super) fn limited_reverse_ranges_conflict_down_to_the_last_entry(bench: &Bench<'_>) {
    let hit: [&[u8]; 5] = [b"r\xff", b"r9", b"r8", b"r7", b"r6"];
    let missed: [&[u8]; 5] = [b"s", b"r5", b"r5\xff", b"r4", b"r0"];
    expect(bench, &all_rows().reverse().limit(2), 2, &hit, &missed);
}

/// Own writes take their place in a page, and the store behind it was not shown.
pub(super) fn limited_ranges_over_own_writes(bench: &Bench<'_>) {
    let attempt = |query: Query, key: &'static [u8]| {
        race(
            &rows(bench),
            |txn| {
                put(txn, b"r1", b"own");
                put(txn, b"r7", b"own");
                assert_eq!(page(txn, &query, Read::Serializable).len(), 2);
            },
            |txn| txn.put(key, &b"w"[..]),
        )
    };
    assert_commits(attempt(all_rows().limit(2), b"r2"), "r0 and r1 were shown");
    assert_conflict(attempt(all_rows().limit(2), b"r0"), "r0 and r1 were shown");
    let back = all_rows().reverse().limit(2);
    assert_commits(attempt(back.clone(), b"r6"), "r8 and r7 were shown");
    assert_conflict(attempt(back, b"r9"), "r8 and r7 were shown");

    // What was skipped because it is deleted was looked at all the same.
    let over_deleted = |key: &'static [u8]| {
        race(
            &rows(bench),
            |txn| {
                txn.delete(b"r0").expect("a delete is taken");
                txn.compare_and_clear(b"r2", &b"v"[..]).expect("a clear is taken");
                let shown = page(txn, &all_rows().limit(1), Read::Serializable);
                assert_eq!(&*shown[0].0, b"r4");
            },
            |txn| txn.put(key, &b"w"[..]),
        )
    };
    assert_conflict(over_deleted(b"r2"), "whether r2 goes depends on its value");
    assert_conflict(over_deleted(b"r3"), "it would have come first");
    assert_commits(over_deleted(b"r6"), "it was not reached");
}

/// Two pages count as far as the second.
pub(super) fn pages_conflict_as_far_as_they_were_read(bench: &Bench<'_>) {
    for (key, hit) in
        [(&b"r1"[..], true), (b"r3", true), (b"r6", true), (b"r7", false), (b"r8", false)]
    {
        let outcome = race(
            &rows(bench),
            |txn| {
                let query = all_rows().limit(2);
                let first = block_on(txn.range(&query, Read::Serializable)).expect("a page");
                let query = query.behind(&first).expect("there is more");
                page(txn, &query, Read::Serializable);
            },
            |txn| txn.put(key, &b"w"[..]),
        );
        match hit {
            true => assert_conflict(outcome, key),
            false => drop(assert_commits(outcome, key)),
        }
    }
}

/// Two that both find nothing and both insert: one of them must look again.
pub(super) fn missing_keys_conflict_when_they_appear(bench: &Bench<'_>) {
    let store = rows(bench);
    let (mut one, mut other) = (begin(&store), begin(&store));
    for txn in [&mut one, &mut other] {
        assert_eq!(get(txn, b"name", Read::Serializable), None);
        put(txn, b"name", b"taken");
    }
    assert_commits(commit(one), "the first");
    assert_conflict(commit(other), "the second");

    // The same with an empty range, each inserting another key into it.
    let (mut one, mut other) = (begin(&store), begin(&store));
    let nothing = Query::new(KeyRange::prefix(b"t"));
    for (txn, key) in [(&mut one, b"t1"), (&mut other, b"t2")] {
        assert!(page(txn, &nothing, Read::Serializable).is_empty());
        put(txn, key, b"");
    }
    assert_commits(commit(one), "the first");
    assert_conflict(commit(other), "the second");

    // It came and went: what was read is the same, and still it was written.
    let mut txn = begin(&store);
    get(&mut txn, b"guest", Read::Serializable);
    put(&mut txn, b"elsewhere", b"");
    write(&store, |txn| put(txn, b"guest", b""));
    write(&store, |txn| txn.delete(b"guest").expect("a delete is taken"));
    assert_conflict(commit(txn), "it was there between");
}

/// The start is in, the end is not.
pub(super) fn the_edges_of_a_range(bench: &Bench<'_>) {
    let query = Query::new(KeyRange::new(b"r2", b"r6"));
    let hit: [&[u8]; 3] = [b"r2", b"r5", b"r5\xff"];
    let missed: [&[u8]; 4] = [b"r1\xff", b"r6", b"r6\0", b"r0"];
    expect(bench, &query, 2, &hit, &missed);
    expect(bench, &query.reverse(), 2, &hit, &missed);
}
