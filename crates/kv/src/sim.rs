//! Any engine, with faults from a seed.
//!
//! Wraps an engine and, by a seeded choice at every call, makes it slow, unreachable, conflicting or
//! silent about an outcome, fires watches early, late or twice, and imposes the bounds of a smaller
//! engine. Driven by a [`base::Scheduler`] the seed owns the whole schedule.

use crate::{
    Capabilities, Commit, Engine, Error, ErrorKind, Fut, Key, Op, Page, Query, Result, Snapshot,
    Version, Watch,
};
use base::sync::Mutex;
use base::{Clock, Random, SeededRandom, SimClock};
use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// How often each fault strikes: once in so many calls; never when 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// A commit conflicts although nothing did.
    pub conflict: u64,
    /// A call takes a while, up to [`delay_max`](Self::delay_max).
    pub delay: u64,
    /// The longest delay.
    pub delay_max: Duration,
    /// A call fails and did nothing.
    pub unavailable: u64,
    /// A commit happens, and the caller is not told.
    pub unknown_committed: u64,
    /// A commit does not happen, and the caller is not told.
    pub unknown_lost: u64,
    /// A watch is ready before anything changed, or long after it did, or both.
    pub watch: u64,
}

impl Faults {
    /// None: only the schedule is random.
    pub const NONE: Faults = Faults {
        conflict: 0,
        delay: 0,
        delay_max: Duration::ZERO,
        unavailable: 0,
        unknown_committed: 0,
        unknown_lost: 0,
        watch: 0,
    };

    /// All of them, often.
    pub const ALL: Faults = Faults {
        conflict: 12,
        delay: 3,
        delay_max: Duration::from_millis(40),
        unavailable: 25,
        unknown_committed: 20,
        unknown_lost: 20,
        watch: 3,
    };
}

/// The bounds of an engine of the kind of FoundationDB: 5 seconds, 10 MB, values of 100 kB.
pub fn bounds_like_foundationdb(of: &Capabilities) -> Capabilities {
    Capabilities {
        name: "sim, with the bounds of FoundationDB",
        key_bytes_max: of.key_bytes_max.min(10_000),
        value_bytes_max: of.value_bytes_max.min(100_000),
        txn_bytes_max: of.txn_bytes_max.min(10_000_000),
        txn_lifetime_max: Some(Duration::from_secs(5)),
        ..of.clone()
    }
}

/// The bounds of an engine of the kind of etcd: 128 operations, 1.5 MB.
pub fn bounds_like_etcd(of: &Capabilities) -> Capabilities {
    Capabilities {
        name: "sim, with the bounds of etcd",
        value_bytes_max: of.value_bytes_max.min(1_000_000),
        txn_bytes_max: of.txn_bytes_max.min(1_500_000),
        txn_ops_max: of.txn_ops_max.min(128),
        ..of.clone()
    }
}

/// The tightest of all: 5 seconds, 128 operations, values of 10 kB.
pub fn bounds_tight(of: &Capabilities) -> Capabilities {
    Capabilities {
        name: "sim, with tight bounds",
        key_bytes_max: of.key_bytes_max.min(1_000),
        value_bytes_max: of.value_bytes_max.min(10_000),
        txn_bytes_max: of.txn_bytes_max.min(200_000),
        txn_ops_max: of.txn_ops_max.min(128),
        txn_lifetime_max: Some(Duration::from_secs(5)),
        ..of.clone()
    }
}

/// An engine that misbehaves as its seed says. Clones share it.
#[derive(Debug, Clone)]
pub struct Sim(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    inner: Arc<dyn Engine>,
    capabilities: Capabilities,
    clock: SimClock,
    random: SeededRandom,
    faults: Mutex<Faults>,
    outcomes: Mutex<Vec<(Vec<Op>, Version)>>,
}

enum Fate {
    Honest,
    Conflict,
    Unavailable,
    UnknownCommitted,
    UnknownLost,
}

impl Sim {
    /// Wraps `inner`, with its own bounds.
    pub fn new(inner: Arc<dyn Engine>, clock: SimClock, seed: u64, faults: Faults) -> Self {
        let capabilities = inner.capabilities().clone();
        Self::with_bounds(inner, clock, seed, faults, capabilities)
    }

    /// Wraps `inner` and declares, and keeps, the bounds of another engine. They must not be wider.
    pub fn with_bounds(
        inner: Arc<dyn Engine>,
        clock: SimClock,
        seed: u64,
        faults: Faults,
        capabilities: Capabilities,
    ) -> Self {
        let capabilities = Capabilities { unknown_commits: true, ..capabilities };
        Self::wrap(inner, clock, seed, faults, capabilities)
    }

    /// Wraps `inner` and declares the bounds of another engine, and that is all: no commit ends unknown that does
    /// not with `inner`, and faults that are set later must not make it so.
    pub fn bounded(inner: Arc<dyn Engine>, clock: SimClock, capabilities: Capabilities) -> Self {
        let unknown_commits = inner.capabilities().unknown_commits;
        let capabilities = Capabilities { unknown_commits, ..capabilities };
        Self::wrap(inner, clock, 0, Faults::NONE, capabilities)
    }

    fn wrap(
        inner: Arc<dyn Engine>,
        clock: SimClock,
        seed: u64,
        faults: Faults,
        capabilities: Capabilities,
    ) -> Self {
        Self(Arc::new(Shared {
            inner,
            capabilities,
            clock,
            random: SeededRandom::new(seed),
            faults: Mutex::new(faults),
            outcomes: Mutex::default(),
        }))
    }

    /// Changes the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        *self.0.faults.lock() = faults;
    }

    /// What really became of the commits that were reported as unknown and did happen: their
    /// changes and versions, in the order of the commits. Only a simulation can know.
    pub fn secretly_committed(&self) -> Vec<(Vec<Op>, Version)> {
        self.0.outcomes.lock().clone()
    }

    /// Commits with what fate has in store for it.
    fn commit_faulty(
        &self,
        commit: Commit,
        done: impl FnOnce(&dyn Engine, Commit) -> Fut<'static, Result<Version>> + Send + 'static,
    ) -> Fut<'static, Result<Version>> {
        let shared = Arc::clone(&self.0);
        if self.is_calm() {
            return done(&*shared.inner, commit);
        }
        Fut::later(async move {
            shared.delay().await;
            let fate = shared.fate();
            let outcome = match fate {
                Fate::Conflict => {
                    return Err(Error::new(ErrorKind::Conflict, "simulated: a conflict"));
                }
                Fate::Unavailable => {
                    return Err(Error::new(ErrorKind::Unavailable, "simulated: not reached"));
                }
                Fate::UnknownLost => return Err(unknown()),
                Fate::Honest => done(&*shared.inner, commit).await,
                Fate::UnknownCommitted => {
                    let ops = commit.ops.clone();
                    let version = done(&*shared.inner, commit).await?;
                    shared.outcomes.lock().push((ops, version));
                    Err(unknown())
                }
            };
            // The way back is slow too.
            shared.delay().await;
            outcome
        })
    }

    /// Whether no call can be made to wait or fail by the injector.
    fn is_calm(&self) -> bool {
        *self.0.faults.lock() == Faults::NONE
    }
}

impl Shared {
    fn strikes(&self, pick: impl Fn(&Faults) -> u64) -> bool {
        let one_in = pick(&self.faults.lock());
        self.random.one_in(one_in)
    }

    async fn delay(&self) {
        if self.strikes(|faults| faults.delay) {
            let longest = self.faults.lock().delay_max.as_nanos() as u64;
            let pause = Duration::from_nanos(self.random.below(longest + 1));
            self.clock.sleep(pause).await;
        }
    }

    async fn delay_long(&self) {
        let longest = self.faults.lock().delay_max.as_nanos() as u64;
        let pause = Duration::from_nanos(longest + self.random.below(10 * longest + 1));
        self.clock.sleep(pause).await;
    }

    fn unavailable(&self) -> Result<()> {
        if self.strikes(|faults| faults.unavailable) {
            return Err(Error::new(ErrorKind::Unavailable, "simulated: the engine did not answer"));
        }
        Ok(())
    }

    fn fate(&self) -> Fate {
        if self.strikes(|faults| faults.conflict) {
            Fate::Conflict
        } else if self.strikes(|faults| faults.unavailable) {
            Fate::Unavailable
        } else if self.strikes(|faults| faults.unknown_committed) {
            Fate::UnknownCommitted
        } else if self.strikes(|faults| faults.unknown_lost) {
            Fate::UnknownLost
        } else {
            Fate::Honest
        }
    }

    fn check_age(&self, born: Duration) -> Result<()> {
        match self.capabilities.txn_lifetime_max {
            Some(bound) if self.clock.now().saturating_sub(born) > bound => Err(Error::new(
                ErrorKind::TooOld,
                format!("simulated: a transaction lives at most {bound:?}"),
            )),
            _ => Ok(()),
        }
    }
}

fn unknown() -> Error {
    Error::new(ErrorKind::Unknown, "simulated: the answer to the commit was lost")
}

impl Engine for Sim {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn snapshot(&self) -> Fut<'static, Result<Box<dyn Snapshot>>> {
        let shared = Arc::clone(&self.0);
        let wrap = |shared: Arc<Shared>, inner| -> Box<dyn Snapshot> {
            let born = shared.clock.now();
            Box::new(SimSnapshot { shared, inner, born })
        };
        if self.is_calm() {
            return self.0.inner.snapshot().map(move |inner| Ok(wrap(shared, inner?)));
        }
        Fut::later(async move {
            shared.delay().await;
            shared.unavailable()?;
            let inner = shared.inner.snapshot().await?;
            Ok(wrap(shared, inner))
        })
    }

    fn commit(&self, snapshot: Box<dyn Snapshot>, commit: Commit) -> Fut<'static, Result<Version>> {
        let Ok(snapshot) = (snapshot as Box<dyn Any>).downcast::<SimSnapshot>() else {
            return Fut::ready(Err(Error::new(
                ErrorKind::Unsupported,
                "another engine's snapshot",
            )));
        };
        let SimSnapshot { shared, inner, born } = *snapshot;
        if let Err(error) = shared.check_age(born) {
            return Fut::ready(Err(error));
        }
        let aged = Arc::clone(&shared);
        self.commit_faulty(commit, move |engine, commit| match aged.check_age(born) {
            Ok(()) => engine.commit(inner, commit),
            Err(error) => Fut::ready(Err(error)),
        })
    }

    fn newest(&self) -> Option<Version> {
        // A bound on the life of transactions is kept by their snapshots.
        if self.0.capabilities.txn_lifetime_max.is_some() {
            return None;
        }
        let newest = self.0.inner.newest()?;
        // Half of the time, so that both ways are gone.
        (self.is_calm() || self.0.random.one_in(2)).then_some(newest)
    }

    fn look(&self, at: Version, key: &[u8]) -> Result<Option<Bytes>> {
        if !self.is_calm() {
            self.0.unavailable()?;
        }
        self.0.inner.look(at, key)
    }

    fn commit_at(&self, at: Version, commit: Commit) -> Fut<'static, Result<Version>> {
        self.commit_faulty(commit, move |inner, commit| inner.commit_at(at, commit))
    }

    fn commit_alone(&self, at: Version, commit: Commit) -> Fut<'static, Result<Version>> {
        self.commit_faulty(commit, move |inner, commit| inner.commit_alone(at, commit))
    }

    fn sync(&self) -> Fut<'static, Result<()>> {
        let shared = Arc::clone(&self.0);
        if self.is_calm() {
            return shared.inner.sync();
        }
        Fut::later(async move {
            shared.delay().await;
            shared.unavailable()?;
            shared.inner.sync().await
        })
    }

    fn watch(&self, key: &Key, since: Version) -> Fut<'static, Result<Watch>> {
        let shared = Arc::clone(&self.0);
        let key = key.clone();
        if self.is_calm() {
            return shared.inner.watch(&key, since);
        }
        Fut::later(async move {
            shared.delay().await;
            shared.unavailable()?;
            if shared.strikes(|faults| faults.watch) {
                // Early: whatever happens. Who looks, sees nothing new and watches again is then
                // told of the change: that is the second time.
                return Ok(Watch::new(async { Ok(()) }));
            }
            let watch = shared.inner.watch(&key, since).await?;
            if shared.strikes(|faults| faults.watch) {
                // Late: others have long seen the change.
                return Ok(Watch::new(async move {
                    watch.await?;
                    shared.delay_long().await;
                    Ok(())
                }));
            }
            Ok(watch)
        })
    }
}

#[derive(Debug)]
struct SimSnapshot {
    shared: Arc<Shared>,
    inner: Box<dyn Snapshot>,
    born: Duration,
}

impl SimSnapshot {
    fn call<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&'a dyn Snapshot) -> Fut<'a, Result<T>> + Send + 'a,
    ) -> Fut<'a, Result<T>> {
        if let Err(error) = self.shared.check_age(self.born) {
            return Fut::ready(Err(error));
        }
        if *self.shared.faults.lock() == Faults::NONE {
            return call(&*self.inner);
        }
        Fut::later(async move {
            self.shared.delay().await;
            self.shared.check_age(self.born)?;
            self.shared.unavailable()?;
            call(&*self.inner).await
        })
    }
}

impl Snapshot for SimSnapshot {
    fn version(&self) -> Version {
        self.inner.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Fut<'a, Result<Option<Bytes>>> {
        self.call(move |inner| inner.get(key))
    }

    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> Fut<'a, Result<Vec<Option<Bytes>>>> {
        self.call(move |inner| inner.get_many(keys))
    }

    fn range<'a>(&'a self, query: &'a Query) -> Fut<'a, Result<Page>> {
        self.call(move |inner| inner.range(query))
    }
}
