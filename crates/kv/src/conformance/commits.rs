//! What a commit returns, what it survives, and what it may cost.

use super::bench::{Bench, assert_commits, begin, commit, everything, fill, get, peek, put, write};
use crate::{Durability, ErrorKind, KeyRange, Query, Read, Store};
use base::block_on;

/// One order of all commits: each is later than those that returned before it began.
pub(super) fn versions_increase(bench: &Bench<'_>) {
    let store = bench.store();
    let mut last = begin(&store).version();
    for round in 0..200u8 {
        let version = write(&store, |txn| match round % 4 {
            0 => put(txn, b"k", &[round]),
            1 => txn.delete(b"k").expect("a delete is taken"),
            2 => txn.add(b"n", 1).expect("an add is taken"),
            _ => txn.write_conflict(&KeyRange::point(b"k")).expect("a conflict is taken"),
        });
        assert!(version > last, "round {round}");
        last = version;
    }
    // A conflict or a read between takes no version back.
    drop(begin(&store));
    assert!(begin(&store).version() >= last);
}

/// It happened when it looked.
pub(super) fn read_only_commits_at_its_snapshot(bench: &Bench<'_>) {
    let store = bench.store();
    fill(&store, [(&b"k"[..], &b"v"[..])]);
    for durability in [Durability::Process, Durability::Synced] {
        let mut txn = begin(&store);
        let at = txn.version();
        get(&mut txn, b"k", Read::Serializable);
        write(&store, |txn| put(txn, b"k", b"w"));
        let version = block_on(txn.commit(durability)).expect("a read-only commit");
        assert_eq!(version, at, "{durability:?}");
        // One that did not even read.
        let txn = begin(&store);
        let at = txn.version();
        assert_eq!(block_on(txn.commit(durability)).expect("an empty commit"), at);
    }
}

/// Both levels are taken, also by an engine that keeps nothing; what they survive is for the
/// engine's own tests, with its own disk, to show.
pub(super) fn both_durabilities_commit(bench: &Bench<'_>) {
    let store = bench.store();
    let mut last = 0;
    for round in 0..20u8 {
        let durability = match round % 2 {
            0 => Durability::Process,
            _ => Durability::Synced,
        };
        let mut txn = begin(&store);
        put(&mut txn, &[b'k', round], &[round]);
        let version = block_on(txn.commit(durability)).expect("a commit");
        assert!(version > last);
        last = version;
        assert_eq!(peek(&store, &[b'k', round]).as_deref(), Some(&[round][..]));
    }
    if !store.capabilities().durable {
        bench.skip("durable is false: what a commit survives is not asked");
    }
}

/// With nothing to do, after a commit, and twice.
pub(super) fn sync_answers(bench: &Bench<'_>) {
    let store = bench.store();
    block_on(store.sync()).expect("a sync of nothing");
    write(&store, |txn| put(txn, b"k", b"v"));
    block_on(store.sync()).expect("a sync");
    block_on(store.sync()).expect("a second sync");
    assert!(peek(&store, b"k").is_some());
}

/// Everybody is told once, whoever else commits and waits meanwhile; who asks where nobody can tell is told that.
pub(super) fn sync_tells_those_who_do_not_wait(bench: &Bench<'_>) {
    const COUNT: u64 = 200;
    let store = bench.store();
    let (told, hears) = std::sync::mpsc::channel();
    let tells = store.engine().syncs_for_others();
    for number in 0..COUNT {
        write(&store, |txn| put(txn, b"k", &number.to_le_bytes()));
        let told = told.clone();
        store.engine().sync_then(Box::new(move |outcome| {
            // The test may have failed meanwhile.
            let _ = told.send((number, outcome.map_err(|error| error.kind())));
        }));
        if number % 16 == 0 {
            block_on(store.sync()).expect("a sync by who waits");
        }
    }
    drop(told);
    let mut heard: Vec<_> = hears.iter().collect();
    heard.sort_unstable_by_key(|(number, _)| *number);
    let outcome = if tells { Ok(()) } else { Err(ErrorKind::Unsupported) };
    assert_eq!(heard, (0..COUNT).map(|number| (number, outcome)).collect::<Vec<_>>());
}

/// Whoever has the greater version is on top, whatever the order of begin and write.
pub(super) fn blind_commits_of_one_key_end_in_version_order(bench: &Bench<'_>) {
    let store = bench.store();
    let mut open: Vec<_> = (0..20u8).map(|index| (index, begin(&store))).collect();
    open.sort_by_key(|(index, _)| index.wrapping_mul(67));
    let mut last = None;
    for (index, mut txn) in open {
        put(&mut txn, b"k", &[index]);
        let version = assert_commits(commit(txn), index);
        assert!(last.is_none_or(|(before, _)| before < version));
        last = Some((version, index));
    }
    let (_, top) = last.expect("twenty of them");
    assert_eq!(peek(&store, b"k").as_deref(), Some(&[top][..]));
}

/// Thousands of keys gone in one operation, and some of them back: exactly those are there.
pub(super) fn delete_range_over_many_then_some_again(bench: &Bench<'_>) {
    const COUNT: usize = 5_000;
    let store = bench.store();
    let keys: Vec<Vec<u8>> = (0..COUNT).map(|index| format!("k{index:05}").into_bytes()).collect();
    fill(&store, keys.iter().map(|key| (&key[..], &b"old"[..])));
    let holds = |store: &Store, wanted: &[&Vec<u8>]| {
        let found = everything(store);
        let found: Vec<&[u8]> = found.iter().map(|(key, _)| &**key).collect();
        assert_eq!(found, wanted);
    };

    let old = begin(&store);
    write(&store, |txn| {
        txn.delete_range(&KeyRange::new(b"k00010", b"k04990")).expect("a delete is taken");
        // In the same transaction, behind the deletion and before another.
        put(txn, b"k02000", b"new");
        put(txn, b"k03000", b"new");
        txn.delete_range(&KeyRange::new(b"k03000", b"k03001")).expect("a delete is taken");
    });
    let mut wanted: Vec<&Vec<u8>> =
        keys[..10].iter().chain([&keys[2000]]).chain(&keys[4990..]).collect();
    holds(&store, &wanted);

    for index in [10, 11, 4000, 4989] {
        write(&store, |txn| put(txn, &keys[index], b"again"));
        wanted.push(&keys[index]);
    }
    wanted.sort();
    holds(&store, &wanted);
    assert_eq!(peek(&store, b"k02000").as_deref(), Some(&b"new"[..]));
    assert_eq!(peek(&store, b"k03000"), None);

    // Deleting over it all again, twice, and over nothing.
    for _ in 0..2 {
        write(&store, |txn| txn.delete_range(&KeyRange::prefix(b"k")).expect("a delete is taken"));
        holds(&store, &[]);
    }
    // Who looked before still sees everything.
    let mut old = old;
    let query = Query::new(KeyRange::all());
    assert_eq!(super::bench::pages(&mut old, &query, Read::Snapshot).len(), COUNT);
}

/// A runtime with many threads can run them: a body that owns, and one that borrows.
pub(super) fn futures_can_move_between_threads(bench: &Bench<'_>) {
    fn movable<T: Send>(future: T) -> T {
        future
    }
    async fn by_reference(store: &Store, key: &[u8]) -> crate::Result<usize> {
        let mut runs = 0;
        let done = store
            .transact_send(Durability::Process, |mut txn, _| {
                runs += 1;
                async move {
                    let query = Query::new(KeyRange::prefix(key));
                    let page = txn.range(&query, Read::Serializable).await?;
                    txn.put(key, &b"v"[..])?;
                    let merged = txn.range(&query, Read::Serializable).await?;
                    Ok((txn, page.len() + merged.len()))
                }
            })
            .await;
        assert_eq!(runs, 1);
        done.map(|committed: crate::Committed<usize>| committed.value)
    }
    let store = bench.store();
    let owned = store.clone();
    let first = movable(async move {
        let key = b"owned".to_vec();
        owned
            .transact(Durability::Process, async move |txn, _| {
                txn.get(&key, Read::Serializable).await?;
                txn.put(&key, &b"v"[..])?;
                txn.range(&Query::new(KeyRange::all()), Read::Snapshot).await
            })
            .await
    });
    let page: crate::Page = block_on(first).expect("a transaction").value;
    assert_eq!(page.len(), 1);
    assert_eq!(block_on(movable(by_reference(&store, b"key"))).expect("a transaction"), 1);

    let mut txn = begin(&store);
    drop(movable(store.begin()));
    drop(movable(txn.watch(b"k")));
    drop(movable(txn.get(b"k", Read::Snapshot)));
    drop(movable(txn.commit(Durability::Process)));
    drop(movable(store.sync()));
}
