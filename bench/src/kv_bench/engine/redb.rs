//! redb: a copy-on-write tree with one writer. It has no atomic add, and needs none: the writer
//! reads and writes back.

use super::add_to;
use crate::error::Result;
use crate::kv_bench::subject::{CACHE_BYTES, Edit, Subject, View};
use kv::{Durability, KeyRange, Page};
use redb::backends::FileBackend;
use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend, Table,
    TableDefinition,
};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");

pub(crate) const LEGEND_MEMORY: &str = "\
cache 256 MiB. Unsynced: Durability::None, its fastest setting, which keeps commits in the memory of
the process until a synced one follows: a commit does NOT survive kill -9. Synced:
Durability::Immediate. Its adds read and write back under the one writer's lock.";

pub(crate) const LEGEND_SYSTEM: &str = "\
redb as above, but unsynced is Durability::Immediate on a file whose sync does nothing: a commit is in
the operating system's memory and survives kill -9.";

/// How it commits when it need not sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsynced {
    /// To the memory of this process.
    Memory,
    /// To the memory of the operating system.
    System,
}

struct Redb {
    database: Database,
    unsynced: Unsynced,
    syncs: Arc<AtomicBool>,
    durability: Durability,
}

pub(crate) fn open(directory: &Path, unsynced: Unsynced) -> Result<Box<dyn Subject>> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(directory.join("redb"))?;
    let syncs = Arc::new(AtomicBool::new(true));
    let backend = Backend { file: FileBackend::new(file)?, syncs: Arc::clone(&syncs) };
    let database = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend)?;
    // A table that no commit made cannot be read.
    if database.begin_read()?.open_table(RECORDS).is_err() {
        let txn = database.begin_write()?;
        drop(txn.open_table(RECORDS)?);
        txn.commit()?;
    }
    let mut opened = Redb { database, unsynced, syncs, durability: Durability::Process };
    opened.set_durability(Durability::Process)?;
    Ok(Box::new(opened))
}

impl Subject for Redb {
    fn transact(&self, body: &mut dyn FnMut(&mut dyn Edit) -> Result<()>) -> Result<u64> {
        let mut txn = self.database.begin_write()?;
        if self.durability == Durability::Process && self.unsynced == Unsynced::Memory {
            txn.set_durability(redb::Durability::None)?;
        }
        {
            let mut table = Editing(txn.open_table(RECORDS)?);
            body(&mut table)?;
        }
        txn.commit()?;
        Ok(0)
    }

    fn view(&self, body: &mut dyn FnMut(&mut dyn View) -> Result<()>) -> Result<()> {
        let txn = self.database.begin_read()?;
        body(&mut Viewing(txn.open_table(RECORDS)?))
    }

    fn set_durability(&mut self, durability: Durability) -> Result<()> {
        self.durability = durability;
        let syncs = durability == Durability::Synced || self.unsynced == Unsynced::Memory;
        self.syncs.store(syncs, Ordering::SeqCst);
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.database);
        Ok(())
    }
}

struct Viewing(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl View for Viewing {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        get(&self.0, key, out)
    }

    fn scan(&mut self, prefix: &[u8]) -> Result<Page> {
        let range = KeyRange::prefix(prefix);
        let mut page = Page::new();
        for entry in self.0.range::<&[u8]>(&*range.start..&*range.end)? {
            let (key, value) = entry?;
            page.push(key.value(), value.value());
        }
        Ok(page)
    }
}

struct Editing<'a>(Table<'a, &'static [u8], &'static [u8]>);

impl Edit for Editing<'_> {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        get(&self.0, key, out)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key, value)?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.remove(key)?;
        Ok(())
    }

    fn add(&mut self, key: &[u8], by: u64) -> Result<()> {
        let old = self.0.get(key)?;
        let sum = add_to(old.as_ref().map(|old| old.value()), by);
        drop(old);
        self.put(key, &sum)
    }
}

fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool> {
    out.clear();
    let value = table.get(key)?;
    if let Some(value) = &value {
        out.extend_from_slice(value.value());
    }
    Ok(value.is_some())
}

/// redb's own file, with a switch for its syncs. It has no setting for a commit that is written but
/// not synced.
#[derive(Debug)]
struct Backend {
    file: FileBackend,
    syncs: Arc<AtomicBool>,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.syncs.load(Ordering::SeqCst) {
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
