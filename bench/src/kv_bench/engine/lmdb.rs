//! LMDB: a copy-on-write tree in a memory map, with one writer. It has no atomic add, and needs none:
//! the writer reads and writes back.

// Opening a memory map is unsafe by nature: who else changes the file changes memory under this
// process. The stores measured here are private to one process at a time. Its flags are unsafe
// because they weaken what a loss of power leaves, which is what is compared.
#![allow(unsafe_code)]

use super::add_to;
use crate::error::Result;
use crate::kv_bench::subject::{Edit, Subject, View};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, FlagSetMode, RoTxn, RwTxn};
use kv::{Durability, Page};
use std::path::Path;

pub(crate) const LEGEND: &str = "\
no cache of its own: it reads the memory map, whose pages count as resident memory. Unsynced:
MDB_NOSYNC without MDB_WRITEMAP: a commit is in the operating system's memory and survives kill -9,
and a loss of power may corrupt the store. Synced: no flags. Its adds read and write back under the
one writer's lock.";

/// Address space only: the file grows as it is filled.
const MAP_BYTES: usize = 64 << 30;

type Records = Database<'static, Bytes, Bytes>;

struct Lmdb {
    env: Env,
    records: Records,
}

pub(crate) fn open(directory: &Path) -> Result<Box<dyn Subject>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: this process alone has the files open, and it does not change them by other means.
    // The flags are safe against everything but a loss of power.
    let env = unsafe {
        options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_MEM_INIT);
        options.open(directory)?
    };
    let txn = env.write_txn()?;
    let records = env
        .create_databases_and_commit(txn, |opener, txn| {
            let records = opener.create_database::<Bytes, Bytes>(txn, None)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(records))
        })?
        .unwrap_commit();
    Ok(Box::new(Lmdb { env, records }))
}

impl Subject for Lmdb {
    fn transact(&self, body: &mut dyn FnMut(&mut dyn Edit) -> Result<()>) -> Result<u64> {
        let mut editing = Editing { txn: self.env.write_txn()?, records: self.records };
        body(&mut editing)?;
        editing.txn.commit()?;
        Ok(0)
    }

    fn view(&self, body: &mut dyn FnMut(&mut dyn View) -> Result<()>) -> Result<()> {
        let txn = self.env.read_txn()?;
        body(&mut Viewing { txn: &txn, records: self.records })
    }

    fn set_durability(&mut self, durability: Durability) -> Result<()> {
        let unsynced = match durability {
            Durability::Process => FlagSetMode::Enable,
            Durability::Synced => FlagSetMode::Disable,
        };
        // SAFETY: only one thread may change flags at a time, and `&mut self` is that thread.
        unsafe { self.env.set_flags(EnvFlags::NO_SYNC, unsynced)? };
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.force_sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct Viewing<'a> {
    txn: &'a RoTxn<'a>,
    records: Records,
}

impl View for Viewing<'_> {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        get(self.txn, self.records, key, out)
    }

    fn scan(&mut self, prefix: &[u8]) -> Result<Page> {
        let mut page = Page::new();
        for entry in self.records.prefix_iter(self.txn, prefix)? {
            let (key, value) = entry?;
            page.push(key, value);
        }
        Ok(page)
    }
}

struct Editing<'a> {
    txn: RwTxn<'a>,
    records: Records,
}

impl Edit for Editing<'_> {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        get(&self.txn, self.records, key, out)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.records.put(&mut self.txn, key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.records.delete(&mut self.txn, key)?;
        Ok(())
    }

    fn add(&mut self, key: &[u8], by: u64) -> Result<()> {
        let sum = add_to(self.records.get(&self.txn, key)?, by);
        self.put(key, &sum)
    }
}

fn get(txn: &RoTxn<'_>, records: Records, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
    out.clear();
    let value = records.get(txn, key)?;
    if let Some(value) = value {
        out.extend_from_slice(value);
    }
    Ok(value.is_some())
}
