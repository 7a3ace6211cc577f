//! Reading a table, through a cache of verified blocks that all tables share.

use super::block::{Block, Value};
use super::{FOOTER_BYTES, Footer, TableInfo, block_seed, bloom, name_of};
use crate::error::{corrupt, io_error};
use base::{Disk, File};
use bytes::Bytes;
use kv::{KeyRange, Result};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// Verified blocks and indexes, by table and place; bounded in bytes.
pub(crate) type Cache = quick_cache::sync::Cache<(u64, u64), Arc<Cached>, Weight, Mix>;

/// What the cache holds.
#[derive(Debug)]
pub(crate) enum Cached {
    Block(Block),
    Directory(Directory),
}

/// A table's index and filter.
#[derive(Debug)]
pub(crate) struct Directory {
    /// From the last key of each block to its place.
    index: Block,
    filter: Vec<u8>,
}

/// The place under which a directory is cached: no block begins there.
const DIRECTORY: u64 = u64::MAX;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight;

impl quick_cache::Weighter<(u64, u64), Arc<Cached>> for Weight {
    fn weight(&self, _: &(u64, u64), cached: &Arc<Cached>) -> u64 {
        let bytes = match &**cached {
            Cached::Block(block) => block.len(),
            Cached::Directory(directory) => directory.index.len() + directory.filter.len(),
        };
        // The entry itself, its links and the allocator's share.
        bytes as u64 + 160
    }
}

/// A hash for pairs of numbers that nobody chooses: tables are numbered by us.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mix;

pub(crate) struct MixHasher(u64);

impl BuildHasher for Mix {
    type Hasher = MixHasher;

    fn build_hasher(&self) -> MixHasher {
        MixHasher(0)
    }
}

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

/// A cache of about `bytes`.
pub(crate) fn new_cache(bytes: usize) -> Cache {
    let items = bytes / (4 << 10);
    Cache::with(items.max(16), bytes as u64, Weight, Mix, Default::default())
}

/// A table that can be read.
pub(crate) struct Table {
    pub(crate) info: TableInfo,
    store: u64,
    /// Why the file cannot be read, when it cannot.
    file: std::result::Result<Arc<dyn File>, String>,
    cache: Arc<Cache>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Table {
    /// A table that has just been written.
    pub(crate) fn new(
        info: TableInfo,
        file: Arc<dyn File>,
        store: u64,
        cache: &Arc<Cache>,
    ) -> Self {
        Self { info, store, file: Ok(file), cache: Arc::clone(cache) }
    }

    /// A table that a manifest names. One whose file is lost or cut is kept as such: what it held
    /// cannot be read, and everything else can.
    pub(crate) fn open(disk: &dyn Disk, info: TableInfo, store: u64, cache: &Arc<Cache>) -> Self {
        let name = name_of(info.id);
        let file = disk.open(&name).and_then(|file| Ok((file.len()?, file)));
        let file = match file {
            Ok((len, file)) if len == info.bytes => Ok(file),
            Ok((len, _)) => Err(format!("{name} has {len} bytes instead of {}", info.bytes)),
            Err(error) => Err(format!("cannot open {name}: {error}")),
        };
        Self { info, store, file, cache: Arc::clone(cache) }
    }

    pub(crate) fn name(&self) -> String {
        name_of(self.info.id)
    }

    /// Whether a key of `range` may be here.
    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        self.info.smallest < range.end && range.start <= self.info.largest
    }

    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let file = self.file.as_ref().map_err(|why| corrupt(why.clone()))?;
        if offset.checked_add(len).is_none_or(|end| end > self.info.bytes) {
            return Err(corrupt(format!("{}: a place behind its end", self.name())));
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(&mut bytes, offset)
            .map_err(|error| io_error(format!("cannot read {}", self.name()), error))?;
        Ok(bytes)
    }

    fn damaged(&self, offset: u64) -> kv::Error {
        corrupt(format!("{} is damaged at byte {offset}", self.name()))
    }

    /// The index and filter.
    pub(crate) fn directory(&self) -> Result<Arc<Cached>> {
        let key = (self.info.id, DIRECTORY);
        if let Some(cached) = self.cache.get(&key) {
            return Ok(cached);
        }
        let bytes = self.info.bytes;
        let footer_at = bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(|| self.damaged(0))?;
        let footer = self.read(footer_at, FOOTER_BYTES as u64)?;
        let footer = Footer::decode(&footer, self.store, self.info.id)
            .filter(|footer| footer.filter_at <= footer_at)
            .ok_or_else(|| self.damaged(footer_at))?;
        let index = self.read(footer.index_at, footer.filter_at - footer.index_at)?;
        let seed = block_seed(self.store, self.info.id, footer.index_at);
        let index = Block::open(index, seed).ok_or_else(|| self.damaged(footer.index_at))?;
        let filter = self.read(footer.filter_at, footer_at - footer.filter_at)?;
        if Footer::filter_hash(self.store, self.info.id, &filter) != footer.filter_hash {
            return Err(self.damaged(footer.filter_at));
        }
        let cached = Arc::new(Cached::Directory(Directory { index, filter }));
        self.cache.insert(key, Arc::clone(&cached));
        Ok(cached)
    }

    /// The block at place `index` of the directory.
    pub(crate) fn block(&self, directory: &Directory, index: usize, keep: bool) -> Result<Block> {
        let place = directory.index.value(index).and_then(|place| {
            let mut reader = crate::codec::Reader(place);
            Some((reader.u64()?, reader.u32()?))
        });
        let (offset, len) =
            place.ok_or_else(|| corrupt(format!("{}: its index is broken", self.name())))?;
        if let Some(cached) = self.cache.get(&(self.info.id, offset))
            && let Cached::Block(block) = &*cached
        {
            return Ok(block.clone());
        }
        let bytes = self.read(offset, len.into())?;
        let seed = block_seed(self.store, self.info.id, offset);
        let block = Block::open(bytes, seed).ok_or_else(|| self.damaged(offset))?;
        if keep {
            let cached = Arc::new(Cached::Block(block.clone()));
            self.cache.insert((self.info.id, offset), cached);
        }
        Ok(block)
    }

    /// What the table says of a key: nothing, that it is gone, or its value.
    pub(crate) fn get(&self, key: &[u8], hash: u64) -> Result<Option<Option<Bytes>>> {
        let cached = self.directory()?;
        let Cached::Directory(directory) = &*cached else {
            return Ok(None);
        };
        if !bloom::may_contain(&directory.filter, hash) {
            return Ok(None);
        }
        let index = directory.index.lower_bound(key);
        if index >= directory.index.count() {
            return Ok(None);
        }
        let block = self.block(directory, index, true)?;
        let at = block.lower_bound(key);
        if at >= block.count() || block.key(at) != key {
            return Ok(None);
        }
        Ok(Some(block.value_owned(at)))
    }

    /// Forgets what is cached of it.
    pub(crate) fn forget(&self) {
        self.cache.remove(&(self.info.id, DIRECTORY));
    }
}

/// The hash that [`Table::get`] wants.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    bloom::hash(key)
}

impl Directory {
    pub(crate) fn blocks(&self) -> usize {
        self.index.count()
    }

    /// The first block that may hold `key` or something behind it.
    pub(crate) fn block_for(&self, key: &[u8]) -> usize {
        self.index.lower_bound(key)
    }
}

/// An entry of a block.
pub(crate) fn entry(block: &Block, index: usize) -> (&[u8], Value<'_>) {
    (block.key(index), block.value(index))
}
