//! The least that the contract allows: an engine that is never ready at once, ends its pages after
//! three entries, and answers one key at a time. What passes on it needs nothing better.

use base::exec::yield_now;
use bytes::Bytes;
use kv::conformance::Harness;
use kv::mem::Mem;
use kv::{
    Capabilities, Commit, Engine, Error, ErrorKind, Fut, Key, Page, Query, Result, Snapshot,
    Version, Watch,
};
use std::any::Any;
use std::sync::Arc;

pub(crate) struct OnSlow;

impl Harness for OnSlow {
    fn fresh(&self) -> Arc<dyn Engine> {
        Arc::new(Slow(Mem::new()))
    }
}

const ENTRIES_MAX: usize = 3;

#[derive(Debug)]
struct Slow(Mem);

#[derive(Debug)]
struct SlowSnapshot(Box<dyn Snapshot>);

impl Engine for Slow {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn snapshot(&self) -> Fut<'static, Result<Box<dyn Snapshot>>> {
        let mem = self.0.clone();
        Fut::later(async move {
            yield_now().await;
            let snapshot = mem.snapshot().await?;
            yield_now().await;
            Ok(Box::new(SlowSnapshot(snapshot)) as Box<dyn Snapshot>)
        })
    }

    fn commit(&self, snapshot: Box<dyn Snapshot>, commit: Commit) -> Fut<'static, Result<Version>> {
        let mem = self.0.clone();
        Fut::later(async move {
            yield_now().await;
            let snapshot = (snapshot as Box<dyn Any>)
                .downcast::<SlowSnapshot>()
                .map_err(|_| Error::new(ErrorKind::Unsupported, "another engine's snapshot"))?;
            let outcome = mem.commit(snapshot.0, commit).await;
            yield_now().await;
            outcome
        })
    }

    fn sync(&self) -> Fut<'static, Result<()>> {
        let mem = self.0.clone();
        Fut::later(async move {
            yield_now().await;
            mem.sync().await
        })
    }

    fn watch(&self, key: &Key, since: Version) -> Fut<'static, Result<Watch>> {
        let (mem, key) = (self.0.clone(), key.clone());
        Fut::later(async move {
            yield_now().await;
            mem.watch(&key, since).await
        })
    }
}

impl Snapshot for SlowSnapshot {
    fn version(&self) -> Version {
        self.0.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Fut<'a, Result<Option<Bytes>>> {
        Fut::later(async move {
            yield_now().await;
            self.0.get(key).await
        })
    }

    fn range<'a>(&'a self, query: &'a Query) -> Fut<'a, Result<Page>> {
        Fut::later(async move {
            yield_now().await;
            let few = query.clone().limit(query.limit.min(ENTRIES_MAX));
            self.0.range(&few).await
        })
    }
}
