//! The one retry loop: what it retries, for how long, and what it says in the end.

use super::bench::{Bench, assert_refused, begin, everything, leaping, number, peek, put, write};
use super::leap::Leap;
use crate::{Attempt, Durability, Error, ErrorKind, Failure, Read, Retry, Store};
use base::{SeededRandom, block_on};
use std::sync::Arc;
use std::time::Duration;

/// An error that is not the store's, as the layers above have.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    Own,
    Store(ErrorKind),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Store(error.kind())
    }
}

impl Failure for Trouble {
    fn store_error(&self) -> Option<&Error> {
        None
    }
}

fn failing(kind: ErrorKind) -> Error {
    Error::new(kind, "made up by a test")
}

/// The value, the version, and the write.
pub(super) fn transact_commits_and_returns(bench: &Bench<'_>) {
    let store = bench.store();
    let done = block_on(store.transact(Durability::Synced, async |txn, attempt| {
        assert_eq!(attempt, Attempt { number: 1, maybe_committed: false });
        put(txn, b"k", b"v");
        Ok::<_, Error>("value")
    }))
    .expect("it commits");
    assert_eq!(done.value, "value");
    assert!(begin(&store).version() >= done.version);
    assert_eq!(peek(&store, b"k").as_deref(), Some(&b"v"[..]));
}

/// A conflict is tried again on a new snapshot, with a body that sees what came between.
pub(super) fn transact_retries_until_it_commits(bench: &Bench<'_>) {
    let store = bench.store();
    let mut attempts = Vec::new();
    let done = block_on(store.transact(Durability::Process, async |txn, attempt| {
        attempts.push(attempt);
        let old = txn.get(b"n", Read::Serializable).await?.map_or(0, |old| old[0]);
        if attempt.number < 4 {
            write(&store, |other| other.add(b"n", 10).expect("an add is taken"));
        }
        txn.add(b"n", 1)?;
        Ok::<_, Error>(old)
    }))
    .expect("it commits");
    assert_eq!(done.value, 30);
    assert_eq!(number(&store, b"n"), 31);
    let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert!(attempts.iter().all(|attempt| !attempt.maybe_committed));
}

/// Not once more than allowed; the error is the last one's kind.
pub(super) fn transact_is_bounded_by_attempts(bench: &Bench<'_>) {
    for kind in [ErrorKind::Conflict, ErrorKind::Unavailable, ErrorKind::TooOld] {
        for attempts_max in [1, 2, 7] {
            let retry = Retry { attempts_max, ..Retry::default() };
            let store = bench.store().with_retry(retry);
            let mut runs = 0;
            let outcome = block_on(store.transact(Durability::Process, async |txn, _| {
                runs += 1;
                put(txn, b"k", b"v");
                Err::<(), _>(failing(kind))
            }));
            assert_refused(outcome, kind, attempts_max);
            assert_eq!(runs, attempts_max);
            assert_eq!(everything(&store), []);
        }
    }
}

/// No try begins after the deadline, and the loop does not wait beyond it to find out.
pub(super) fn transact_is_bounded_by_the_deadline(bench: &Bench<'_>) {
    let clock = Arc::new(Leap::default());
    let deadline = Duration::from_secs(1);
    let retry = Retry { attempts_max: u32::MAX, deadline, ..Retry::default() };
    let store = leaping(bench.harness().fresh(), &clock).with_retry(retry.clone());
    use base::Clock;
    let start = clock.now();
    let mut begun = Vec::new();
    let outcome = block_on(store.transact(Durability::Process, async |_, _| {
        begun.push(clock.now() - start);
        clock.pass(Duration::from_millis(30));
        Err::<(), _>(failing(ErrorKind::Unavailable))
    }));
    assert_refused(outcome, ErrorKind::Unavailable, "the deadline");
    assert!(begun.len() > 3, "it did try again: {begun:?}");
    assert!(begun.iter().all(|at| *at <= deadline), "{begun:?}");
    assert!(clock.now() - start <= deadline + Duration::from_millis(30));

    // A deadline without an end is one that never comes.
    let forever = Retry { deadline: Duration::MAX, attempts_max: 3, ..retry };
    clock.pass(Duration::from_secs(1));
    let outcome =
        block_on(store.with_retry(forever).transact(Durability::Process, async |_, _| {
            Err::<(), _>(failing(ErrorKind::Unavailable))
        }));
    assert_refused(outcome, ErrorKind::Unavailable, "the attempts");
}

/// What the same transaction cannot get past is told at once.
pub(super) fn transact_does_not_retry_what_is_final(bench: &Bench<'_>) {
    let store = bench.store();
    for kind in [
        ErrorKind::Full,
        ErrorKind::TooLarge,
        ErrorKind::Unsupported,
        ErrorKind::Corrupt,
        ErrorKind::Closed,
    ] {
        let mut runs = 0;
        let outcome = block_on(store.transact(Durability::Process, async |txn, _| {
            runs += 1;
            put(txn, b"k", b"v");
            Err::<(), _>(failing(kind))
        }));
        assert_refused(outcome, kind, "final");
        assert_eq!(runs, 1, "{kind:?}");
    }
    // One that the transaction itself makes.
    let outcome =
        block_on(store.transact(Durability::Process, async |txn, _| txn.put(b"", &b""[..])));
    assert_refused(outcome, ErrorKind::Unsupported, "a bad key");
    assert_eq!(everything(&store), []);
}

/// The caller's own error goes straight through.
pub(super) fn transact_writes_nothing_when_the_body_fails(bench: &Bench<'_>) {
    let store = bench.store();
    let mut runs = 0;
    let outcome = block_on(store.transact(Durability::Process, async |txn, _| {
        runs += 1;
        txn.put(b"k", &b"v"[..])?;
        txn.add(b"n", 1)?;
        Err::<(), _>(Trouble::Own)
    }));
    assert_eq!(outcome.map(|done| done.value), Err(Trouble::Own));
    assert_eq!(runs, 1);
    let outcome = block_on(store.transact(Durability::Process, async |txn, _| {
        txn.put(b"", &b"v"[..])?;
        Ok::<_, Trouble>(())
    }));
    let wanted = Err(Trouble::Store(ErrorKind::Unsupported));
    assert_eq!(outcome.map(|done| done.value), wanted);
    assert_eq!(everything(&store), []);
}

/// The waits of a loop that fails `attempts` times, with randomness from `seed`.
fn waits(bench: &Bench<'_>, seed: u64, retry: &Retry) -> Vec<Duration> {
    let clock = Arc::new(Leap::default());
    let random = Arc::new(SeededRandom::new(seed));
    let store =
        Store::new(bench.harness().fresh(), clock.clone(), random).with_retry(retry.clone());
    let outcome =
        block_on(store.transact(Durability::Process, async |_, _| {
            Err::<(), _>(failing(ErrorKind::Unavailable))
        }));
    assert_refused(outcome, ErrorKind::Unavailable, "the attempts");
    clock.sleeps()
}

/// The same seed waits the same, another waits otherwise; no wait is over its bound.
pub(super) fn transact_waits_by_the_injected_randomness(bench: &Bench<'_>) {
    let retry = Retry {
        attempts_max: 20,
        deadline: Duration::MAX,
        backoff_min: Duration::from_millis(1),
        backoff_max: Duration::from_millis(100),
    };
    let first = waits(bench, 1, &retry);
    assert_eq!(first, waits(bench, 1, &retry));
    assert_ne!(first, waits(bench, 2, &retry));
    assert!(first.len() >= 15, "{first:?}");
    for (index, wait) in first.iter().enumerate() {
        let doubled = retry.backoff_min * (1 << index.min(10));
        assert!(*wait <= doubled.min(retry.backoff_max), "{first:?}");
    }
    // A random part of the bound, not the bound.
    let long = first.iter().filter(|wait| **wait > retry.backoff_max / 2).count();
    assert!(0 < long && long < first.len(), "{first:?}");
}

/// The form for futures that move between threads keeps the same promises.
pub(super) fn transact_send_is_the_same_loop(bench: &Bench<'_>) {
    let retry = Retry { attempts_max: 5, ..Retry::default() };
    let store = bench.store().with_retry(retry);
    let mut attempts = Vec::new();
    let done = block_on(store.transact_send(Durability::Process, |mut txn, attempt| {
        attempts.push(attempt.number);
        let store = &store;
        async move {
            let old = txn.get(b"n", Read::Serializable).await?.map_or(0, |old| old[0]);
            if attempt.number < 3 {
                write(store, |other| other.add(b"n", 10).expect("an add is taken"));
            }
            txn.add(b"n", 1)?;
            Ok::<_, Error>((txn, old))
        }
    }))
    .expect("it commits");
    assert_eq!((done.value, number(&store, b"n")), (20, 21));
    assert_eq!(attempts, [1, 2, 3]);

    let mut runs = 0;
    let outcome = block_on(store.transact_send(Durability::Process, |txn, _| {
        runs += 1;
        drop(txn);
        async { Err::<(_, ()), _>(failing(ErrorKind::Unavailable)) }
    }));
    assert_refused(outcome, ErrorKind::Unavailable, "the attempts");
    assert_eq!(runs, 5);
}
