//! The embedded engine, used through the store contract as the layers above use it.

use crate::error::{Error, Result};
use crate::kv_bench::subject::{CACHE_BYTES, Edit, Subject, View};
use base::{OsRandom, SystemClock, block_on};
use kv::{Durability, KeyRange, Page, Query, Read, Store, Txn};
use std::path::Path;
use std::sync::Arc;

pub(crate) const LEGEND: &str = "\
through the store contract, retries included; memory 256 MiB in all, its default. Unsynced:
Durability::Process: a commit is in the operating system's memory and survives kill -9. Synced:
Durability::Synced. Adds are atomic operations.";

struct Local {
    engine: kv_local::Local,
    store: Store,
    durability: Durability,
}

pub(crate) fn open(directory: &Path) -> Result<Box<dyn Subject>> {
    let options = kv_local::Options { memory_bytes: CACHE_BYTES, ..Default::default() };
    let engine = kv_local::Local::open_dir(directory, options)?;
    let store = Store::new(
        Arc::new(engine.clone()),
        Arc::new(SystemClock::new()),
        Arc::new(OsRandom::new()),
    );
    Ok(Box::new(Local { engine, store, durability: Durability::Process }))
}

impl Subject for Local {
    fn transact(&self, body: &mut dyn FnMut(&mut dyn Edit) -> Result<()>) -> Result<u64> {
        let committed = block_on(self.store.transact(self.durability, async |txn, attempt| {
            body(&mut Editing(txn))?;
            Ok::<u64, Error>(u64::from(attempt.number - 1))
        }))?;
        Ok(committed.value)
    }

    fn view(&self, body: &mut dyn FnMut(&mut dyn View) -> Result<()>) -> Result<()> {
        let mut txn = block_on(self.store.begin())?;
        body(&mut Viewing(&mut txn))
    }

    fn set_durability(&mut self, durability: Durability) -> Result<()> {
        self.durability = durability;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Local { engine, store, .. } = *self;
        drop(store);
        Ok(engine.close()?)
    }
}

fn copy(value: Option<impl AsRef<[u8]>>, out: &mut Vec<u8>) -> bool {
    out.clear();
    if let Some(value) = &value {
        out.extend_from_slice(value.as_ref());
    }
    value.is_some()
}

struct Viewing<'a>(&'a mut Txn);

impl View for Viewing<'_> {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        Ok(copy(block_on(self.0.get(key, Read::Snapshot))?, out))
    }

    fn scan(&mut self, prefix: &[u8]) -> Result<Page> {
        let query = Query::new(KeyRange::prefix(prefix));
        let mut page = block_on(self.0.range(&query, Read::Snapshot))?;
        // An engine may end a page early.
        while page.more {
            let Some(rest) = query.behind(&page) else {
                break;
            };
            let next = block_on(self.0.range(&rest, Read::Snapshot))?;
            page.more = next.more;
            for (key, value) in next.iter() {
                page.push(key, value);
            }
        }
        Ok(page)
    }
}

struct Editing<'a>(&'a mut Txn);

impl Edit for Editing<'_> {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        Ok(copy(block_on(self.0.get(key, Read::Serializable))?, out))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value.to_vec())?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.0.delete(key)?)
    }

    fn add(&mut self, key: &[u8], by: u64) -> Result<()> {
        Ok(self.0.add(key, by)?)
    }
}
