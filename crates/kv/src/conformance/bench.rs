//! Where a case runs: the engine under test and the few calls that cases are made of.

use super::leap::Leap;
use crate::history::model::{self, Entry};
use crate::{
    Durability, Engine, ErrorKind, KeyRange, Query, Read, Result, Retry, Store, Txn, Version,
};
use base::sync::Mutex;
use base::{Clock, OsRandom, Random, SeededRandom, Spawn, SystemClock, SystemThreads, block_on};
use bytes::Bytes;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// How much an engine holds for open transactions: snapshots, remembered commits, whatever must be
/// free when there are none.
pub type Probe = Box<dyn Fn() -> usize>;

/// What the suite asks of an engine's crate.
pub trait Harness {
    /// A new, empty engine.
    fn fresh(&self) -> Arc<dyn Engine>;

    /// A new, empty engine, and how to ask what it holds. Without it, what abandoned transactions
    /// leave behind is not checked.
    fn fresh_probed(&self) -> Option<(Arc<dyn Engine>, Probe)> {
        None
    }

    /// Where threads come from.
    fn threads(&self) -> Arc<dyn Spawn> {
        Arc::new(SystemThreads)
    }

    /// Lets time pass for the engine. Only engines with a bounded transaction lifetime are asked.
    fn wait(&self, duration: Duration) {
        block_on(SystemClock::new().sleep(duration));
    }
}

/// A harness, and what a case says while it runs.
pub struct Bench<'a> {
    harness: &'a dyn Harness,
    name: &'a str,
    skipped: Mutex<Vec<String>>,
}

impl Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bench({})", self.name)
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(harness: &'a dyn Harness, name: &'a str) -> Self {
        Self { harness, name, skipped: Mutex::default() }
    }

    pub(super) fn harness(&self) -> &dyn Harness {
        self.harness
    }

    /// Says that the case, or a part of it, does not apply because of a declared capability.
    pub(super) fn skip(&self, reason: impl Into<String>) {
        self.skipped.lock().push(reason.into());
    }

    pub(super) fn skipped(&self) -> Vec<String> {
        self.skipped.lock().clone()
    }

    /// A store on a new engine. Its waits take no time.
    pub(super) fn store(&self) -> Store {
        leaping(self.harness.fresh(), &Arc::default())
    }

    /// A store on a new engine whose waits are real, for many threads.
    pub(super) fn store_in_real_time(&self) -> Store {
        let clock = Arc::new(SystemClock::new());
        let retry = Retry { attempts_max: u32::MAX, deadline: Duration::MAX, ..Retry::default() };
        let random = Arc::new(SeededRandom::new(self.seeds(0)[0]));
        Store::new(self.harness.fresh(), clock, random).with_retry(retry)
    }

    /// Seeds 1 to `fixed` and one that is new each time; or the one that `SEAMOUNT_SEED` says.
    pub(super) fn seeds(&self, fixed: u64) -> Vec<u64> {
        let seeds = match std::env::var("SEAMOUNT_SEED") {
            Ok(text) => vec![text.parse().expect("SEAMOUNT_SEED must be a number")],
            Err(_) => (1..=fixed).chain([OsRandom::new().next_u64()]).collect(),
        };
        println!("{}: seeds {seeds:?}; one alone: SEAMOUNT_SEED=<n>", self.name);
        seeds
    }

    /// Runs `body` on `count` threads and waits for all. A panic of one is one of the case.
    pub(super) fn on_threads(&self, count: usize, body: impl Fn(usize) + Send + Sync + 'static) {
        let body = Arc::new(body);
        let finished = Arc::new(Mutex::new(0));
        let threads = self.harness.threads();
        let joiners: Vec<_> = (0..count)
            .map(|index| {
                let (body, finished) = (Arc::clone(&body), Arc::clone(&finished));
                let run = Box::new(move || {
                    body(index);
                    *finished.lock() += 1;
                });
                threads.spawn("conformance", run).expect("a thread")
            })
            .collect();
        joiners.into_iter().for_each(base::thread::Joiner::join);
        assert_eq!(*finished.lock(), count, "a thread panicked");
    }
}

/// A store on `engine` with a clock that leaps.
pub(super) fn leaping(engine: Arc<dyn Engine>, clock: &Arc<Leap>) -> Store {
    Store::new(engine, Arc::clone(clock) as Arc<dyn Clock>, Arc::new(SeededRandom::new(1)))
}

pub(super) fn begin(store: &Store) -> Txn {
    block_on(store.begin()).expect("a transaction begins")
}

pub(super) fn commit(txn: Txn) -> Result<Version> {
    block_on(txn.commit(Durability::Process))
}

#[track_caller]
pub(super) fn assert_conflict(outcome: Result<Version>, what: impl Debug) {
    match outcome {
        Err(error) if error.kind() == ErrorKind::Conflict => {}
        other => panic!("{what:?}: must conflict, was {other:?}"),
    }
}

#[track_caller]
pub(super) fn assert_commits(outcome: Result<Version>, what: impl Debug) -> Version {
    outcome.unwrap_or_else(|error| panic!("{what:?}: must commit, was {error:?}"))
}

#[track_caller]
pub(super) fn assert_refused<T: Debug>(outcome: Result<T>, kind: ErrorKind, what: impl Debug) {
    match outcome {
        Err(error) if error.kind() == kind => {}
        other => panic!("{what:?}: must be {kind:?}, was {other:?}"),
    }
}

/// Commits what `body` writes.
pub(super) fn write(store: &Store, body: impl FnOnce(&mut Txn)) -> Version {
    let mut txn = begin(store);
    body(&mut txn);
    assert_commits(commit(txn), "a write")
}

pub(super) fn put(txn: &mut Txn, key: &[u8], value: &[u8]) {
    txn.put(key, value.to_vec()).expect("a put is taken");
}

pub(super) fn get(txn: &mut Txn, key: &[u8], read: Read) -> Option<Bytes> {
    block_on(txn.get(key, read)).expect("a get answers")
}

/// The value of a key now.
pub(super) fn peek(store: &Store, key: &[u8]) -> Option<Bytes> {
    get(&mut begin(store), key, Read::Snapshot)
}

/// The number that a key holds now; 0 when it is not there.
pub(super) fn number(store: &Store, key: &[u8]) -> u64 {
    peek(store, key)
        .map_or(0, |value| u64::from_le_bytes(value[..].try_into().expect("eight bytes")))
}

/// One page.
pub(super) fn page(txn: &mut Txn, query: &Query, read: Read) -> Vec<Entry> {
    model::entries(&block_on(txn.range(query, read)).expect("a range answers"))
}

/// All pages of a query, each of which must be a proper one that goes on where the last one ended.
pub(super) fn pages(txn: &mut Txn, query: &Query, read: Read) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut next = Some(query.clone());
    while let Some(query) = next {
        let page = block_on(txn.range(&query, read)).expect("a range answers");
        assert!(page.len() <= query.limit, "{query:?}: more than the limit");
        assert!(!page.more || !page.is_empty(), "{query:?}: empty, and more");
        for (key, value) in model::entries(&page) {
            assert!(query.range.contains(&key), "{query:?}: {key:?} is outside its range");
            let ordered = entries.last().is_none_or(|(last, _)| match query.reverse {
                true => *last > key,
                false => *last < key,
            });
            assert!(ordered, "{query:?}: {key:?} is out of order, or there twice");
            entries.push((key, value));
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    entries
}

/// All that the store holds now.
pub(super) fn everything(store: &Store) -> Vec<Entry> {
    pages(&mut begin(store), &Query::new(KeyRange::all()), Read::Snapshot)
}

/// Writes entries, in transactions that are well below the bounds.
pub(super) fn fill<'e>(store: &Store, entries: impl IntoIterator<Item = (&'e [u8], &'e [u8])>) {
    let bounds = store.capabilities().clone();
    let (ops_max, bytes_max) = (bounds.txn_ops_max.min(1000), bounds.txn_bytes_max / 2);
    let (mut txn, mut ops, mut bytes) = (begin(store), 0, 0);
    for (key, value) in entries {
        let more = key.len() + value.len();
        if ops == ops_max || (ops > 0 && bytes + more > bytes_max) {
            // Blind writes: it does not matter that the next one begins before this one commits.
            assert_commits(commit(std::mem::replace(&mut txn, begin(store))), "filling");
            (ops, bytes) = (0, 0);
        }
        put(&mut txn, key, value);
        (ops, bytes) = (ops + 1, bytes + more);
    }
    assert_commits(commit(txn), "filling");
}

/// That nothing of a plain transaction waits: what an engine that lives in this process promises.
///
/// # Panics
///
/// When something does.
pub fn assert_ready_at_once(engine: Arc<dyn Engine>) {
    fn now<T>(what: &str, call: crate::Fut<'_, Result<T>>) -> T {
        match call.now() {
            Ok(done) => done.unwrap_or_else(|error| panic!("{what}: {error:?}")),
            Err(_) => panic!("{what} is not ready at once"),
        }
    }
    let store = leaping(engine, &Arc::default());
    let mut txn = now("begin", store.begin());
    let query = Query::new(KeyRange::all());
    now("get", txn.get(b"k", Read::Serializable));
    now("get_many", txn.get_many(&[b"k", b"l"], Read::Serializable));
    now("range", txn.range(&query, Read::Serializable));
    put(&mut txn, b"k", b"v");
    now("get of an own write", txn.get(b"k", Read::Serializable));
    now("get_many over own writes", txn.get_many(&[b"k", b"l"], Read::Serializable));
    now("watch", txn.watch(b"k"));
    now("commit", txn.commit(Durability::Process));
    now("a read-only commit", now("begin", store.begin()).commit(Durability::Process));
}
