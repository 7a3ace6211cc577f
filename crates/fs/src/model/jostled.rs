//! An engine that can be looked at and is never left alone: at any call somebody else may commit first, so that what
//! was looked at is the newest no more. Everything is a function of the seed.

use base::exec::yield_now;
use base::sync::Mutex;
use base::{Random, SeededRandom};
use bytes::Bytes;
use kv::{
    Capabilities, Commit, Durability, Engine, ErrorKind, Fut, Key, KeyRange, Op, Result, Snapshot,
    Version, Watch,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A key of nobody's: no volume has keys that begin so.
const FOREIGN: &[u8] = b"\xfejostle";

/// How much more often somebody comes before a commit that wants to be alone.
const ALONE_TIMES: u32 = 3;

/// What is done between two calls.
pub type Between = Arc<dyn Fn() + Send + Sync>;

/// An engine with a crowd around it. Clones share it.
#[derive(Debug, Clone)]
pub struct Jostled(Arc<Shared>);

struct Shared {
    inner: Arc<dyn Engine>,
    random: SeededRandom,
    /// Once in so many calls; never when 0.
    one_in: AtomicU64,
    between: Mutex<Option<Between>>,
    /// It cannot be looked at, as if it were another engine.
    hidden: AtomicBool,
    lost: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jostled").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Jostled {
    /// Puts a crowd around an engine, which is calm until told otherwise.
    pub fn new(inner: Arc<dyn Engine>, seed: u64) -> Self {
        Self(Arc::new(Shared {
            inner,
            random: SeededRandom::new(seed),
            one_in: AtomicU64::new(0),
            between: Mutex::default(),
            hidden: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        }))
    }

    /// Once in so many calls somebody comes between; never when 0.
    pub fn jostle(&self, one_in: u64) {
        self.0.one_in.store(one_in, Ordering::Relaxed);
    }

    /// Who comes between, from now on; when nobody is named, a commit that has nothing to do with anything. Called
    /// in the midst of calls, it must not wait.
    pub fn set_between(&self, between: Option<Between>) {
        *self.0.between.lock() = between;
    }

    /// Whether it can be looked at, from now on. Where it cannot, everything needs a transaction.
    pub fn let_look(&self, looks: bool) {
        self.0.hidden.store(!looks, Ordering::Relaxed);
    }

    /// Commits of those who wanted to be alone and were not.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    fn strikes(&self) -> bool {
        self.0.random.one_in(self.0.one_in.load(Ordering::Relaxed))
    }

    fn between(&self) {
        if !self.strikes() {
            return;
        }
        let between = self.0.between.lock().clone();
        match between {
            Some(between) => between(),
            None => self.commit_foreign(),
        }
    }

    fn commit_foreign(&self) {
        let Some(at) = self.0.inner.newest() else { return };
        let value = Bytes::copy_from_slice(&self.0.random.next_u64().to_le_bytes());
        let commit = Commit {
            reads: Vec::new(),
            writes: Vec::new(),
            ops: vec![Op::Put(Key::new(FOREIGN), value)],
            durability: Durability::Process,
            frees: false,
        };
        // Where it has to wait it is not done: nobody misses it.
        let _ = self.0.inner.commit_at(at, commit).now();
    }

    /// A call that may take its time.
    fn slowly<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Engine) -> Fut<'static, T> + Send + 'static,
    ) -> Fut<'static, T> {
        self.between();
        if !self.strikes() {
            return call(&*self.0.inner);
        }
        let crowd = self.clone();
        Fut::later(async move {
            yield_now().await;
            crowd.between();
            let answer = call(&*crowd.0.inner).await;
            yield_now().await;
            answer
        })
    }
}

impl Engine for Jostled {
    fn capabilities(&self) -> &Capabilities {
        self.0.inner.capabilities()
    }

    fn snapshot(&self) -> Fut<'static, Result<Box<dyn Snapshot>>> {
        self.slowly(|inner| inner.snapshot())
    }

    fn commit(&self, snapshot: Box<dyn Snapshot>, commit: Commit) -> Fut<'static, Result<Version>> {
        self.slowly(|inner| inner.commit(snapshot, commit))
    }

    fn newest(&self) -> Option<Version> {
        // Who comes next comes early enough, and locks may be held over this.
        self.0.inner.newest().filter(|_| !self.0.hidden.load(Ordering::Relaxed))
    }

    fn look(&self, at: Version, key: &[u8]) -> Result<Option<Bytes>> {
        self.between();
        self.0.inner.look(at, key)
    }

    fn look_any(&self, at: Version, range: &KeyRange) -> Result<bool> {
        self.between();
        self.0.inner.look_any(at, range)
    }

    fn commit_at(&self, at: Version, commit: Commit) -> Fut<'static, Result<Version>> {
        self.slowly(move |inner| inner.commit_at(at, commit))
    }

    fn commit_alone(&self, at: Version, commit: Commit) -> Fut<'static, Result<Version>> {
        let crowd = self.clone();
        // Where it matters most they come most often.
        (0..ALONE_TIMES).for_each(|_| self.between());
        self.slowly(move |inner| inner.commit_alone(at, commit)).map(move |done| {
            if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict) {
                crowd.0.lost.fetch_add(1, Ordering::Relaxed);
            }
            done
        })
    }

    fn sync(&self) -> Fut<'static, Result<()>> {
        self.slowly(|inner| inner.sync())
    }

    fn watch(&self, key: &Key, since: Version) -> Fut<'static, Result<Watch>> {
        self.0.inner.watch(key, since)
    }
}
