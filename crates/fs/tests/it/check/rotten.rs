//! A store of which a part cannot be read.

use kv::{Engine, Fut, Query};
use std::sync::Arc;

/// An engine that cannot read its blocks of files any more.
#[derive(Debug)]
pub(super) struct Rotten(pub(super) Arc<dyn Engine>);

#[derive(Debug)]
struct RottenSnapshot(Box<dyn kv::Snapshot>);

impl Engine for Rotten {
    fn capabilities(&self) -> &kv::Capabilities {
        self.0.capabilities()
    }

    fn snapshot(&self) -> Fut<'static, kv::Result<Box<dyn kv::Snapshot>>> {
        self.0.snapshot().map(|snapshot| {
            let snapshot: Box<dyn kv::Snapshot> = Box::new(RottenSnapshot(snapshot?));
            Ok(snapshot)
        })
    }

    fn commit(
        &self,
        _: Box<dyn kv::Snapshot>,
        _: kv::Commit,
    ) -> Fut<'static, kv::Result<kv::Version>> {
        panic!("what cannot be read is not changed")
    }

    fn sync(&self) -> Fut<'static, kv::Result<()>> {
        self.0.sync()
    }

    fn watch(&self, key: &kv::Key, since: kv::Version) -> Fut<'static, kv::Result<kv::Watch>> {
        self.0.watch(key, since)
    }
}

impl kv::Snapshot for RottenSnapshot {
    fn version(&self) -> kv::Version {
        self.0.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Fut<'a, kv::Result<Option<bytes::Bytes>>> {
        self.0.get(key)
    }

    fn range<'a>(&'a self, query: &'a Query) -> Fut<'a, kv::Result<kv::Page>> {
        if query.range.start.get(2) == Some(&b'c') {
            return Fut::ready(Err(kv::Error::new(kv::ErrorKind::Corrupt, "a table is damaged")));
        }
        self.0.range(query)
    }
}
