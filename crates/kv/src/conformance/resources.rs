//! What transactions hold, and for how long.

use super::bench::{
    Bench, assert_commits, assert_conflict, begin, commit, everything, fill, get, leaping, number,
    pages, peek, put, write,
};
use crate::{Durability, Error, ErrorKind, KeyRange, Query, Read, Store, Txn};
use base::block_on;
use std::sync::Arc;
use std::time::Duration;

/// Dropped, failed, conflicted or committed: in the end nothing is held.
pub(super) fn abandoned_transactions_free_what_they_held(bench: &Bench<'_>) {
    let Some((engine, held)) = bench.harness().fresh_probed() else {
        // Not a capability: the engine's crate chose not to show. It still must not fall over.
        println!("the harness has no probe: only that it works is checked");
        return abandon(&bench.store());
    };
    let store = leaping(engine, &Arc::default());
    write(&store, |txn| put(txn, b"k", b"v"));
    let idle = held();
    let open = begin(&store);
    write(&store, |txn| put(txn, b"k", b"w"));
    assert!(held() > idle, "the probe shows an open transaction");
    drop(open);
    assert_eq!(held(), idle, "after the first");
    abandon(&store);
    assert_eq!(held(), idle, "after all");
}

fn abandon(store: &Store) {
    let busy = |txn: &mut Txn| {
        get(txn, b"k", Read::Serializable);
        pages(txn, &Query::new(KeyRange::all()), Read::Serializable);
        put(txn, b"k", b"mine");
    };
    for _ in 0..100 {
        // Untouched, used, with a read under way that nobody waits for.
        drop(begin(store));
        let mut txn = begin(store);
        busy(&mut txn);
        drop(txn);
        let mut txn = begin(store);
        drop(txn.get(b"k", Read::Serializable));
        drop(txn);
        drop(store.begin());
    }
    // Conflicted, and committed with nothing to write.
    let mut txn = begin(store);
    busy(&mut txn);
    write(store, |txn| put(txn, b"k", b"theirs"));
    assert_conflict(commit(txn), "its read was overwritten");
    let mut txn = begin(store);
    get(&mut txn, b"k", Read::Serializable);
    assert_commits(commit(txn), "it only read");
    // Given up by its body.
    let outcome = block_on(store.transact(Durability::Process, async |txn, _| {
        busy(txn);
        Err::<(), _>(Error::new(ErrorKind::Full, "made up by a test"))
    }));
    assert!(outcome.is_err());
    assert_eq!(peek(store, b"k").as_deref(), Some(&b"theirs"[..]));
}

/// When its time is over, a transaction is told so, or is still right; it is never wrong.
pub(super) fn a_transaction_may_not_outlive_its_bound(bench: &Bench<'_>) {
    let store = bench.store();
    let Some(lifetime) = store.capabilities().txn_lifetime_max else {
        return bench.skip("txn_lifetime_max is none: a transaction lives as long as it likes");
    };
    fill(&store, [(&b"k"[..], &b"old"[..])]);
    let (mut reading, mut writing) = (begin(&store), begin(&store));
    get(&mut writing, b"k", Read::Serializable);
    put(&mut writing, b"mine", b"");
    write(&store, |txn| put(txn, b"k", b"new"));
    bench.harness().wait(lifetime / 2);
    let value = get(&mut reading, b"k", Read::Snapshot);
    assert_eq!(value.as_deref(), Some(&b"old"[..]), "it is within its bound");

    bench.harness().wait(lifetime);
    let too_old = |error: &Error| assert_eq!(error.kind(), ErrorKind::TooOld, "{error:?}");
    match block_on(reading.get(b"k", Read::Snapshot)) {
        Ok(value) => assert_eq!(value.as_deref(), Some(&b"old"[..])),
        Err(error) => too_old(&error),
    }
    let query = Query::new(KeyRange::all());
    match block_on(reading.range(&query, Read::Snapshot)) {
        Ok(page) => assert_eq!(page.len(), 1),
        Err(error) => too_old(&error),
    }
    match commit(writing) {
        Err(error) if error.kind() == ErrorKind::Conflict => {}
        Err(error) => too_old(&error),
        Ok(_) => panic!("its read was overwritten"),
    }
    assert_eq!(peek(&store, b"mine"), None);

    // The loop takes it as one more reason to try again.
    block_on(store.transact(Durability::Process, async |txn, attempt| {
        txn.get(b"k", Read::Serializable).await?;
        if attempt.number == 1 {
            bench.harness().wait(lifetime + Duration::from_millis(100));
        }
        txn.add(b"n", 1)
    }))
    .expect("the second try is young");
    assert_eq!(number(&store, b"n"), 1);
}

/// A million writes go by, and the reader sees what it saw.
pub(super) fn a_long_reader_sees_its_snapshot(bench: &Bench<'_>) {
    const WRITES: usize = 1_000_000;
    const KEYS: usize = 5_000;
    let store = bench.store();
    let bounds = store.capabilities().clone();
    if let Some(lifetime) = bounds.txn_lifetime_max {
        return bench.skip(format!("txn_lifetime_max is {lifetime:?}: no reader is that long"));
    }
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|index| format!("k{index:06}").into_bytes()).collect();
    fill(&store, keys.iter().map(|key| (&key[..], &b"old"[..])));
    let mut reader = begin(&store);
    assert_eq!(get(&mut reader, &keys[0], Read::Snapshot).as_deref(), Some(&b"old"[..]));

    let batch = bounds.txn_ops_max.min(1_000);
    let mut next = 0;
    while next < WRITES {
        let mut txn = begin(&store);
        for index in next..(next + batch).min(WRITES) {
            // The last round decides: every fifth key goes, the others hold who wrote them.
            let key = &keys[index % KEYS];
            if index % 5 == 0 {
                txn.delete(key).expect("a delete is taken");
            } else {
                put(&mut txn, key, &(index as u64).to_le_bytes());
            }
        }
        assert_commits(commit(txn), "one of very many");
        next += batch;
    }

    let seen = pages(&mut reader, &Query::new(KeyRange::all()), Read::Snapshot);
    assert_eq!(seen.len(), KEYS);
    assert!(seen.iter().all(|(_, value)| &value[..] == b"old"));
    drop(reader);
    let now = everything(&store);
    assert_eq!(now.len(), KEYS - KEYS / 5);
    for (key, value) in now {
        let index: usize = std::str::from_utf8(&key[1..])
            .ok()
            .and_then(|digits| digits.parse().ok())
            .expect("a number");
        let last = (WRITES - KEYS + index) as u64;
        assert_eq!(&value[..], &last.to_le_bytes());
    }
}
