//! An engine that counts reads by family of keys, and can make every call wait once.

use base::exec::yield_now;
use base::sync::Mutex;
use bytes::Bytes;
use kv::{Capabilities, Commit, Engine, Fut, Key, Page, Query, Result, Snapshot, Version, Watch};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    inner: Arc<dyn Engine>,
    /// Every call is pending once, so that who polls by hand sees every step.
    waits: bool,
    gets: Arc<Mutex<BTreeMap<u8, u64>>>,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn Engine>, waits: bool) -> Self {
        Self { inner, waits, gets: Arc::default() }
    }

    /// Keys of a family that were read since the last time that anybody asked for any.
    pub(super) fn gets(&self, family: u8) -> u64 {
        std::mem::take(&mut *self.gets.lock()).get(&family).copied().unwrap_or(0)
    }

    fn note(&self, key: &[u8]) {
        if let Some(family) = key.get(2) {
            *self.gets.lock().entry(*family).or_default() += 1;
        }
    }

    fn wait<'a, T: Send + 'a>(&self, call: Fut<'a, T>) -> Fut<'a, T> {
        if !self.waits {
            return call;
        }
        Fut::later(async move {
            yield_now().await;
            call.await
        })
    }
}

impl Engine for Watched {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn snapshot(&self) -> Fut<'static, Result<Box<dyn Snapshot>>> {
        let engine = self.clone();
        self.wait(self.inner.snapshot().map(move |inner| {
            let snapshot: Box<dyn Snapshot> = Box::new(Seen { engine, inner: inner? });
            Ok(snapshot)
        }))
    }

    fn commit(&self, snapshot: Box<dyn Snapshot>, commit: Commit) -> Fut<'static, Result<Version>> {
        let snapshot = (snapshot as Box<dyn Any>).downcast::<Seen>().unwrap();
        let inner = Arc::clone(&self.inner);
        if !self.waits {
            return inner.commit(snapshot.inner, commit);
        }
        Fut::later(async move {
            // Before it happens, and before the caller is told.
            yield_now().await;
            let done = inner.commit(snapshot.inner, commit).await;
            yield_now().await;
            done
        })
    }

    fn sync(&self) -> Fut<'static, Result<()>> {
        self.inner.sync()
    }

    fn watch(&self, key: &Key, since: Version) -> Fut<'static, Result<Watch>> {
        self.inner.watch(key, since)
    }
}

#[derive(Debug)]
struct Seen {
    engine: Watched,
    inner: Box<dyn Snapshot>,
}

impl Snapshot for Seen {
    fn version(&self) -> Version {
        self.inner.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Fut<'a, Result<Option<Bytes>>> {
        self.engine.note(key);
        self.engine.wait(self.inner.get(key))
    }

    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> Fut<'a, Result<Vec<Option<Bytes>>>> {
        keys.iter().for_each(|key| self.engine.note(key));
        self.engine.wait(self.inner.get_many(keys))
    }

    fn range<'a>(&'a self, query: &'a Query) -> Fut<'a, Result<Page>> {
        self.engine.note(&query.range.start);
        self.engine.wait(self.inner.range(query))
    }
}
