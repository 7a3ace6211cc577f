//! fjall: a log-structured tree, here its optimistic transactions. It has no atomic add: the counter
//! is read and written back, and a conflict runs the transaction again.

use super::add_to;
use crate::error::Result;
use crate::kv_bench::subject::{Edit, Subject, View};
use fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx,
    PersistMode, Readable, Snapshot,
};
use kv::{Durability, Page};
use std::path::Path;

pub(crate) const LEGEND: &str = "\
optimistic transactions, block cache 256 MiB (write buffers come on top), the rest as shipped.
Unsynced: PersistMode::Buffer, its default: a commit is in the operating system's memory and survives
kill -9. Synced: the same, then PersistMode::SyncData before it returns, which is faster with many
threads than syncing in the commit. Its adds read and write back, and conflict.";

/// A cache with which the whole of it stays resident in about what the embedded engine takes.
pub(crate) const LEAN_BYTES: usize = 176 << 20;

pub(crate) const LEGEND_LEAN: &str = "\
as fjall, with a block cache of 176 MiB: with its write buffers that makes about 256 MiB resident.";

struct Fjall {
    database: OptimisticTxDatabase,
    records: OptimisticTxKeyspace,
    synced: bool,
}

pub(crate) fn open(directory: &Path, cache_bytes: usize) -> Result<Box<dyn Subject>> {
    let database =
        OptimisticTxDatabase::builder(directory).cache_size(cache_bytes as u64).open()?;
    let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { database, records, synced: false }))
}

impl Subject for Fjall {
    fn transact(&self, body: &mut dyn FnMut(&mut dyn Edit) -> Result<()>) -> Result<u64> {
        let mut retries = 0;
        loop {
            let mut editing = Editing { txn: self.database.write_tx()?, records: &self.records };
            body(&mut editing)?;
            if editing.txn.commit()?.is_err() {
                retries += 1;
                continue;
            }
            // A commit that syncs does so under the lock that orders commits; synced after it, one
            // sync can serve the commits of several threads.
            if self.synced {
                self.database.persist(PersistMode::SyncData)?;
            }
            return Ok(retries);
        }
    }

    fn view(&self, body: &mut dyn FnMut(&mut dyn View) -> Result<()>) -> Result<()> {
        body(&mut Viewing { snapshot: self.database.read_tx(), records: &self.records })
    }

    fn set_durability(&mut self, durability: Durability) -> Result<()> {
        self.synced = durability == Durability::Synced;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.persist(PersistMode::SyncAll)?;
        Ok(())
    }
}

struct Viewing<'a> {
    snapshot: Snapshot,
    records: &'a OptimisticTxKeyspace,
}

impl View for Viewing<'_> {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        get(&self.snapshot, self.records, key, out)
    }

    fn scan(&mut self, prefix: &[u8]) -> Result<Page> {
        let mut page = Page::new();
        for entry in self.snapshot.prefix(self.records, prefix) {
            let (key, value) = entry.into_inner()?;
            page.push(&key, &value);
        }
        Ok(page)
    }
}

struct Editing<'a> {
    txn: OptimisticWriteTx,
    records: &'a OptimisticTxKeyspace,
}

impl Edit for Editing<'_> {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        get(&self.txn, self.records, key, out)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.insert(self.records, key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.txn.remove(self.records, key);
        Ok(())
    }

    fn add(&mut self, key: &[u8], by: u64) -> Result<()> {
        let old = self.txn.get(self.records, key)?;
        self.put(key, &add_to(old.as_deref(), by))
    }
}

fn get(
    source: &impl Readable,
    records: &OptimisticTxKeyspace,
    key: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool> {
    out.clear();
    let value = source.get(records, key)?;
    if let Some(value) = &value {
        out.extend_from_slice(value);
    }
    Ok(value.is_some())
}
