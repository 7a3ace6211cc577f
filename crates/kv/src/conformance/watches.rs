//! A watch is ready some time after its key changed. A case waits for it: an engine that forgets one
//! makes the case wait for ever, and that is its failure.

use super::bench::{Bench, begin, commit, fill, get, number, put, write};
use super::conflicts::WRITES;
use crate::{KeyRange, Read, Store, Watch};
use base::block_on;
use base::sync::Mutex;
use std::sync::Arc;

fn watch(store: &Store, key: &[u8]) -> Watch {
    block_on(begin(store).watch(key)).expect("a watch is taken")
}

/// Everything that changes a key, also from nothing and to nothing. A write that leaves the value as
/// it was is no change that anybody could see: engines may keep quiet about it.
pub(super) fn a_watch_fires_on_every_kind_of_change(bench: &Bench<'_>) {
    let creating = ["put", "add", "max"];
    let changing = [&creating[..], &["delete", "delete_range"], &["compare_and_clear that clears"]];
    for (there, kinds) in [(true, changing.concat()), (false, creating.to_vec())] {
        for (what, change) in WRITES.iter().filter(|(what, _)| kinds.contains(what)) {
            let store = bench.store();
            if there {
                fill(&store, [(&b"k"[..], &b"v"[..])]);
            }
            let watch = watch(&store, b"k");
            write(&store, |txn| change(txn, b"k").expect("a change is taken"));
            block_on(watch).unwrap_or_else(|error| panic!("{what}: {error:?}"));
        }
    }
    // By a range around it.
    let store = bench.store();
    fill(&store, [(&b"k"[..], &b"v"[..])]);
    let watch = watch(&store, b"k");
    write(&store, |txn| txn.delete_range(&KeyRange::all()).expect("a delete is taken"));
    block_on(watch).expect("the watch fires");
}

/// The change came after the snapshot and before the watch: it has happened, so the watch is due.
pub(super) fn a_watch_fires_on_a_change_since_the_snapshot(bench: &Bench<'_>) {
    for (what, change) in [WRITES[0], WRITES[2], WRITES[3], WRITES[4]] {
        let store = bench.store();
        fill(&store, [(&b"k"[..], &b"v"[..])]);
        let mut txn = begin(&store);
        write(&store, |txn| change(txn, b"k").expect("a change is taken"));
        // Others that change nothing of it.
        write(&store, |txn| put(txn, b"other", b""));
        let watch = block_on(txn.watch(b"k")).expect("a watch is taken");
        block_on(watch).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    }
}

/// The transaction may be over, in whatever way, before the watch is even waited for.
pub(super) fn a_watch_outlives_its_transaction(bench: &Bench<'_>) {
    let store = bench.store();
    fill(&store, [(&b"k"[..], &b"v"[..])]);

    // The call is made; the change comes; the transaction ends; then the call is waited for.
    let mut txn = begin(&store);
    let call = txn.watch(b"k");
    write(&store, |txn| put(txn, b"k", b"1"));
    drop(txn);
    block_on(block_on(call).expect("a watch is taken")).expect("the watch fires");

    // The transaction commits something else between.
    let mut txn = begin(&store);
    let watch = block_on(txn.watch(b"k")).expect("a watch is taken");
    put(&mut txn, b"other", b"");
    commit(txn).expect("a commit");
    write(&store, |txn| put(txn, b"k", b"2"));
    block_on(watch).expect("the watch fires");

    // Straight at the engine, with a version that nobody has open any more.
    let since = begin(&store).version();
    write(&store, |txn| put(txn, b"k", b"3"));
    write(&store, |txn| put(txn, b"other", b"3"));
    let late = block_on(store.engine().watch(&crate::Key::new(b"k"), since));
    block_on(late.expect("a watch is taken")).expect("the watch fires");
}

/// Waits for real on one thread for what another does.
pub(super) fn a_watch_wakes_another_thread(bench: &Bench<'_>) {
    let store = bench.store();
    let shared = store.clone();
    bench.on_threads(2, move |index| {
        if index == 0 {
            write(&shared, |txn| put(txn, b"k", b"v"));
            return;
        }
        loop {
            let mut txn = begin(&shared);
            let watch = block_on(txn.watch(b"k")).expect("a watch is taken");
            if get(&mut txn, b"k", Read::Snapshot).is_some() {
                break;
            }
            drop(txn);
            block_on(watch).expect("the watch fires");
        }
    });
}

/// Many on one key, and one on each of many keys; one commit fires all.
pub(super) fn many_watches_all_fire(bench: &Bench<'_>) {
    let store = bench.store();
    let count = store.capabilities().txn_ops_max.min(300) as u16;
    let key = |index: u16| format!("k{index:03}").into_bytes();
    let keys: Vec<Vec<u8>> = (0..count).map(key).collect();
    fill(&store, keys.iter().map(|key| (&key[..], &b"v"[..])));
    let mut watches: Vec<Watch> = keys.iter().map(|key| watch(&store, key)).collect();
    watches.extend((0..100).map(|_| watch(&store, b"k000")));
    write(&store, |txn| txn.delete_range(&KeyRange::prefix(b"k")).expect("a delete is taken"));
    for watch in watches {
        block_on(watch).expect("the watch fires");
    }
    let watches: Vec<Watch> = keys.iter().map(|key| watch(&store, key)).collect();
    write(&store, |txn| keys.iter().for_each(|key| put(txn, key, b"new")));
    for watch in watches {
        block_on(watch).expect("the watch fires");
    }
}

/// Dropped before, between and after: others on the same key still fire.
pub(super) fn dropped_watches_are_harmless(bench: &Bench<'_>) {
    let store = bench.store();
    for _ in 0..100 {
        drop(watch(&store, b"k"));
    }
    let (first, kept, last) = (watch(&store, b"k"), watch(&store, b"k"), watch(&store, b"k"));
    drop(first);
    write(&store, |txn| put(txn, b"k", b"v"));
    drop(last);
    block_on(kept).expect("the watch fires");
    // A call that is never waited for, and one that is dropped before its answer.
    let mut txn = begin(&store);
    drop(txn.watch(b"k"));
    drop(txn);
    let again = watch(&store, b"k");
    write(&store, |txn| put(txn, b"k", b"w"));
    block_on(again).expect("the watch fires");
}

/// The loop that everybody writes: look, watch, wait. It must end although a watch may fire for
/// nothing and tells of no number of changes.
pub(super) fn waiting_for_a_counter_ends(bench: &Bench<'_>) {
    const TARGET: u64 = 200;
    let store = bench.store();
    let shared = store.clone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    bench.on_threads(4, move |index| {
        if index < 2 {
            for _ in 0..TARGET / 2 {
                write(&shared, |txn| txn.add(b"n", 1).expect("an add is taken"));
            }
            return;
        }
        loop {
            let mut txn = begin(&shared);
            let now = get(&mut txn, b"n", Read::Snapshot).map_or(0, |value| u64::from(value[0]));
            if now >= TARGET {
                noted.lock().push(now);
                break;
            }
            let watch = block_on(txn.watch(b"n")).expect("a watch is taken");
            drop(txn);
            block_on(watch).expect("the watch fires");
        }
    });
    assert_eq!(*seen.lock(), [TARGET, TARGET]);
    assert_eq!(number(&store, b"n"), TARGET);
}
