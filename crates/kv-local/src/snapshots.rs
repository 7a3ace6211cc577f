//! Snapshots that are open.

use crate::view::View;
use bytes::Bytes;
use kv::{Fut, Page, Query, Result, Snapshot, Version};

/// All open snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots;

/// A snapshot of the store.
#[derive(Debug)]
pub(crate) struct LocalSnapshot {
    view: View,
}

impl LocalSnapshot {
    pub(crate) fn new(view: View) -> Self {
        Self { view }
    }
}

impl Snapshot for LocalSnapshot {
    fn version(&self) -> Version {
        self.view.version
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Fut<'a, Result<Option<Bytes>>> {
        Fut::ready(self.view.get(key))
    }

    fn range<'a>(&'a self, query: &'a Query) -> Fut<'a, Result<Page>> {
        Fut::ready(self.view.range(query))
    }
}
