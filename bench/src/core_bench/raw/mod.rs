//! Raw transactions of the keys that the core's operations read and write: what the engine and its
//! contract cost alone. Nothing is encoded, decoded, sealed or checked beyond that it is there.

mod data;
mod keys;
mod names;
mod records;

use super::action::Action;
use super::side::{Extent, Noise, Places, Side};
use super::work::Who;
use crate::error::{Error, Result};
use base::{OsRandom, SystemClock, block_on};
use data::Data;
use fs::ROOT;
use kv::{Durability, Read, Store, Txn};
use records::Records;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The session; one number is as good as another.
const SESSION: u64 = 0x5ea3_0047_1234_5678;

/// The first number of an inode, as in the core.
const FIRST_INODE: u64 = 256;

/// Sizes of a volume on an engine that does not bound them.
const BLOCK_BYTES: u64 = 64 << 10;
const CHUNK_BYTES: u64 = 4 << 20;

/// A store with the keys of a volume.
pub(crate) struct Raw {
    store: Store,
    session: [u8; 12],
    records: Records,
    places: Places,
    /// The next inode.
    next: AtomicU64,
    /// Stands for the time: a number that grows.
    now: AtomicU64,
    noise: Noise,
    data: OnceLock<Data>,
}

impl Raw {
    pub(crate) fn open(engine: Arc<dyn kv::Engine>, extent: Extent) -> Result<Self> {
        let store = Store::new(engine, Arc::new(SystemClock::new()), Arc::new(OsRandom::new()));
        let raw = Self {
            store,
            session: keys::session(SESSION),
            records: Records::new((CHUNK_BYTES / BLOCK_BYTES) as u32),
            places: Places::new(extent),
            next: AtomicU64::new(FIRST_INODE),
            now: AtomicU64::new(1),
            noise: Noise::new(),
            data: OnceLock::new(),
        };
        let this = &raw;
        block_on(raw.store.transact_send(Durability::Process, |mut txn, _| async move {
            txn.put(&this.session, this.records.session.clone())?;
            txn.put(&keys::EPOCH, 1u64.to_le_bytes().to_vec())?;
            txn.put(&keys::inode(ROOT), this.records.directory.clone())?;
            txn.add(&keys::INODES, 1)?;
            Ok::<_, Error>((txn, ()))
        }))?;
        Ok(raw)
    }

    /// Runs `body` on one snapshot.
    fn view<T, F: Future<Output = Result<(Txn, T)>>>(&self, body: impl Fn(Txn) -> F) -> Result<T> {
        let done = self.store.transact_send(Durability::Process, |txn, _| body(txn));
        Ok(block_on(done)?.value)
    }

    /// Runs `body` in a transaction that reads what every change of the core reads.
    fn change<T, F: Future<Output = Result<(Txn, T)>>>(
        &self,
        body: impl Fn(Txn) -> F,
    ) -> Result<T> {
        let (session, body) = (&self.session, &body);
        let done = self.store.transact_send(Durability::Process, |mut txn, _| async move {
            let fence: [&[u8]; 2] = [session, &keys::EPOCH];
            for found in txn.get_many(&fence, Read::Serializable).await? {
                present(found)?;
            }
            body(txn).await
        });
        Ok(block_on(done)?.value)
    }

    fn fresh(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        self.now.fetch_add(1, Ordering::Relaxed)
    }
}

fn present<T>(found: Option<T>) -> Result<T> {
    found.ok_or_else(|| Error::new("something is not there"))
}

fn absent<T>(found: Option<T>) -> Result<()> {
    match found {
        None => Ok(()),
        Some(_) => Err(Error::new("something is there already")),
    }
}

impl Side for Raw {
    fn run(&self, who: Who, action: &Action) -> Result<()> {
        match action {
            Action::Directory(number) => {
                let name = super::action::directory_name(*number);
                let ino = self.make(ROOT, &name, names::Kind::Directory)?;
                self.places.note_directory(*number, ino)
            }
            Action::Mknod(file) | Action::Create(file) => {
                let parent = self.places.directory(file.directory());
                let ino = self.make(parent, &file.name, names::Kind::File)?;
                self.places.note_file(file.number, ino);
                Ok(())
            }
            Action::Mkdir(file) => {
                let parent = self.places.directory(file.directory());
                self.make(parent, &file.name, names::Kind::Directory).map(|_| ())
            }
            Action::Lookup(file) => self.lookup(file, who),
            Action::Missing(file) => self.missing(file),
            Action::Getattr(number) => self.getattr(*number),
            Action::Unlink(file) => self.unlink(file),
            Action::Rename(file, to) => self.rename(file, to),
            Action::List(directory) => self.list(*directory),
            Action::WriteInline(index) => self.write_inline(*index),
            Action::ReadInline(index) => self.read_inline(*index),
            Action::Write { offset, len } => self.write(*offset, *len),
            Action::Read { offset, len } => self.read(*offset, *len),
        }
    }

    fn prepare_data(&self) -> Result<()> {
        self.make_data()
    }

    fn rest(&self) -> Result<()> {
        Ok(())
    }
}
