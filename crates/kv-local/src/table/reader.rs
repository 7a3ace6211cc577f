//! Reading a table, through a cache of verified blocks that all tables share.

use super::block::Block;
use super::pool::{Buffer, Pool};
use super::{FOOTER_BYTES, Footer, TableInfo, block_seed, bloom, name_of};
use crate::error::{corrupt, io_error};
use base::{Disk, File};
use bytes::Bytes;
use kv::{KeyRange, Result};
use std::cmp::Ordering as Order;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

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
    /// The first bytes of those keys behind `prefix`, which they all begin with, in one piece of
    /// memory: a search in the index itself would miss the processor's cache at every step.
    heads: Vec<u128>,
    /// Every [`STRIDE`]th of them: few enough, over all tables, to stay in the processor's cache.
    strides: Vec<u128>,
    prefix: Vec<u8>,
    filter: Buffer,
}

/// Heads between two strides: four cache lines.
const STRIDE: usize = 16;

/// Which part of a table its index and filter are, about.
const PINNED_PART: u64 = 24;

/// The place under which a directory is cached: no block begins there.
const DIRECTORY: u64 = u64::MAX;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight;

impl quick_cache::Weighter<(u64, u64), Arc<Cached>> for Weight {
    fn weight(&self, _: &(u64, u64), cached: &Arc<Cached>) -> u64 {
        let bytes = match &**cached {
            Cached::Block(block) => block.len(),
            Cached::Directory(directory) => directory.len(),
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
fn new_cache(bytes: usize) -> Cache {
    let items = bytes / (4 << 10);
    Cache::with(items.max(16), bytes as u64, Weight, Mix, Default::default())
}

/// A table that can be read.
pub(crate) struct Table {
    pub(crate) info: TableInfo,
    /// It has keys that are gone; not known of one that was not written by this process.
    pub(crate) hides: bool,
    store: u64,
    /// Why the file cannot be read, when it cannot.
    file: std::result::Result<Arc<dyn File>, String>,
    cache: Arc<Cache>,
    /// The directory, when there was room to keep it for good.
    pinned: OnceLock<Arc<Cached>>,
    pins: Arc<Pins>,
    pool: Arc<Pool>,
}

/// Room for directories that need not be looked for in the cache.
#[derive(Debug)]
pub(crate) struct Pins {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Pins {
    fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes.load(Ordering::Relaxed).saturating_add(bytes) <= self.bytes_max
    }

    fn take(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= self.bytes_max);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// What all tables of a store share: a cache and room for directories.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    cache: Arc<Cache>,
    pins: Arc<Pins>,
    pool: Arc<Pool>,
}

impl Memory {
    pub(crate) fn new(cache_bytes: usize, pinned_bytes: usize) -> Self {
        Self {
            cache: Arc::new(new_cache(cache_bytes)),
            pins: Arc::new(Pins::new(pinned_bytes)),
            pool: Arc::default(),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(cached) = self.pinned.get()
            && let Cached::Directory(directory) = &**cached
        {
            self.pins.bytes.fetch_sub(directory.len(), Ordering::Relaxed);
        }
    }
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
        hides: bool,
        store: u64,
        memory: &Memory,
    ) -> Self {
        let mut table = Self::with_file(info, Ok(file), store, memory);
        table.hides = hides;
        table
    }

    fn with_file(
        info: TableInfo,
        file: std::result::Result<Arc<dyn File>, String>,
        store: u64,
        memory: &Memory,
    ) -> Self {
        let Memory { cache, pins, pool } = memory.clone();
        Self { info, hides: false, store, file, cache, pinned: OnceLock::new(), pins, pool }
    }

    /// A table that a manifest names. One whose file is lost or cut is kept as such: what it held
    /// cannot be read, and everything else can.
    pub(crate) fn open(disk: &dyn Disk, info: TableInfo, store: u64, memory: &Memory) -> Self {
        let name = name_of(info.id);
        let file = disk.open(&name).and_then(|file| Ok((file.len()?, file)));
        let file = match file {
            Ok((len, file)) if len == info.bytes => Ok(file),
            Ok((len, _)) => Err(format!("{name} has {len} bytes instead of {}", info.bytes)),
            Err(error) => Err(format!("cannot open {name}: {error}")),
        };
        Self::with_file(info, file, store, memory)
    }

    /// Why nothing of it can be read, if so.
    pub(crate) fn lost(&self) -> Option<String> {
        self.file.as_ref().err().map(|why| format!("{why}: what it held cannot be read"))
    }

    pub(crate) fn name(&self) -> String {
        name_of(self.info.id)
    }

    /// Whether a key of `range` may be here.
    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        self.info.smallest < range.end && range.start <= self.info.largest
    }

    fn read(&self, offset: u64, len: u64) -> Result<Buffer> {
        let file = self.file.as_ref().map_err(|why| corrupt(why.clone()))?;
        if offset.checked_add(len).is_none_or(|end| end > self.info.bytes) {
            return Err(corrupt(format!("{}: a place behind its end", self.name())));
        }
        let mut bytes = self.pool.take(len as usize);
        file.read_at(bytes.as_mut(), offset)
            .map_err(|error| io_error(format!("cannot read {}", self.name()), error))?;
        Ok(bytes)
    }

    fn damaged(&self, offset: u64) -> kv::Error {
        corrupt(format!("{} is damaged at byte {offset}", self.name()))
    }

    /// The index and filter.
    pub(crate) fn directory(&self) -> Result<Arc<Cached>> {
        if let Some(cached) = self.pinned.get() {
            return Ok(Arc::clone(cached));
        }
        self.load_directory()
    }

    /// Reads the index and filter if they can stay in memory for as long as the table does. False when there is no room.
    pub(crate) fn pin(&self) -> Result<bool> {
        // About what they take; when it is more, they are in the cache.
        let expects = (self.info.bytes / PINNED_PART) as usize;
        if self.pinned.get().is_none() && self.pins.has_room(expects) {
            self.load_directory()?;
        }
        Ok(self.pinned.get().is_some())
    }

    fn load_directory(&self) -> Result<Arc<Cached>> {
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
        let directory = Directory::new(index, filter);
        let bytes = directory.len();
        let cached = Arc::new(Cached::Directory(directory));
        if self.pins.take(bytes) {
            if self.pinned.set(Arc::clone(&cached)).is_err() {
                // Somebody else was faster.
                self.pins.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        } else {
            self.cache.insert(key, Arc::clone(&cached));
        }
        Ok(cached)
    }

    /// The block at place `index` of the directory.
    pub(crate) fn block(
        &self,
        directory: &Directory,
        index: usize,
        keep: bool,
    ) -> Result<Arc<Cached>> {
        let place = directory.place(index);
        let (offset, len) =
            place.ok_or_else(|| corrupt(format!("{}: its index is broken", self.name())))?;
        if let Some(cached) = self.cache.get(&(self.info.id, offset)) {
            return Ok(cached);
        }
        let bytes = self.read(offset, len.into())?;
        let seed = block_seed(self.store, self.info.id, offset);
        let block = Block::open(bytes, seed).ok_or_else(|| self.damaged(offset))?;
        let cached = Arc::new(Cached::Block(block));
        if keep {
            self.cache.insert((self.info.id, offset), Arc::clone(&cached));
        }
        Ok(cached)
    }

    /// What the table says of a key: nothing, that it is gone, or its value.
    pub(crate) fn get(&self, key: &[u8], hash: u64) -> Result<Option<Option<Bytes>>> {
        match self.pinned.get() {
            Some(cached) => self.get_by(cached, key, hash),
            None => self.get_by(&*self.load_directory()?, key, hash),
        }
    }

    fn get_by(&self, cached: &Cached, key: &[u8], hash: u64) -> Result<Option<Option<Bytes>>> {
        let Cached::Directory(directory) = cached else { return Ok(None) };
        if !bloom::may_contain(&directory.filter, hash) {
            return Ok(None);
        }
        let index = directory.block_for(key);
        if index >= directory.blocks() {
            return Ok(None);
        }
        let cached = self.block(directory, index, true)?;
        let Cached::Block(block) = &*cached else { return Ok(None) };
        Ok(block.find(key).map(|at| block.value_owned(at)))
    }

    /// Forgets what is cached of it: nobody will look for it again, and others want the room.
    pub(crate) fn forget(&self) {
        let key = (self.info.id, DIRECTORY);
        let cached = self.pinned.get().cloned().or_else(|| self.cache.get(&key));
        if let Some(Cached::Directory(directory)) = cached.as_deref() {
            for (offset, _) in (0..directory.blocks()).filter_map(|index| directory.place(index)) {
                self.cache.remove(&(self.info.id, offset));
            }
        }
        self.cache.remove(&key);
    }
}

/// The hash that [`Table::get`] wants.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    bloom::hash(key)
}

/// The first 16 bytes of a key as a number that orders as they do.
fn head(bytes: &[u8]) -> u128 {
    let mut whole = [0; 16];
    let len = bytes.len().min(16);
    whole[..len].copy_from_slice(&bytes[..len]);
    u128::from_be_bytes(whole)
}

impl Directory {
    fn new(index: Block, filter: Buffer) -> Self {
        let count = index.count();
        let mut prefix = Vec::new();
        if count > 0 {
            let (first, last) = (index.key(0), index.key(count - 1));
            let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
            prefix = first[..common].to_vec();
        }
        let heads = (0..count)
            .map(|at| head(index.key(at).get(prefix.len()..).unwrap_or_default()))
            .collect::<Vec<u128>>();
        let strides = heads.iter().copied().step_by(STRIDE).collect();
        Self { index, heads, strides, prefix, filter }
    }

    /// Memory that it takes.
    fn len(&self) -> usize {
        self.index.len() + self.filter.len() + 17 * self.heads.len()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.index.count()
    }

    /// Where a block begins, and how long it is.
    fn place(&self, index: usize) -> Option<(u64, u32)> {
        let mut reader = crate::codec::Reader(self.index.value(index)?);
        Some((reader.u64()?, reader.u32()?))
    }

    /// The first block that may hold `key` or something behind it.
    pub(crate) fn block_for(&self, key: &[u8]) -> usize {
        let len = key.len().min(self.prefix.len());
        match key[..len].cmp(&self.prefix[..len]) {
            Order::Less => 0,
            Order::Greater => self.heads.len(),
            // Shorter than the prefix that all keys have: below all of them.
            Order::Equal if key.len() < self.prefix.len() => 0,
            Order::Equal => {
                let wanted = head(&key[len..]);
                let stride = self.strides.partition_point(|&head| head < wanted);
                let from = stride.saturating_sub(1) * STRIDE;
                let to = self.heads.len().min(stride * STRIDE);
                let low = from + self.heads[from..to].partition_point(|&head| head < wanted);
                let same = self.heads[low..].iter().take_while(|&&head| head == wanted).count();
                self.index.lower_bound_in(key, low, low + same)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Writer;
    use base::SimDisk;
    use kv::Key;

    #[test]
    fn what_is_cached_of_a_table_goes_with_it() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let key = |number: u32| Key::new(&number.to_be_bytes());
        for pinned_bytes in [0, 1 << 20] {
            let memory = Memory::new(1 << 20, pinned_bytes);
            let table = |id| {
                let mut writer = Writer::create(&disk, 7, id).unwrap();
                for number in 0..1000 {
                    writer.push(&key(number), Some(&[5; 100])).unwrap();
                }
                let (info, file, hides) = writer.finish().unwrap().unwrap();
                let table = Table::new(info, file, hides, 7, &memory);
                for number in 0..1000 {
                    let key = key(number);
                    let found = table.get(&key, key_hash(&key)).unwrap();
                    assert_eq!(found.flatten().as_deref(), Some(&[5; 100][..]));
                }
                table
            };
            let (one, other) =
                (table(2 * pinned_bytes as u64 + 1), table(2 * pinned_bytes as u64 + 2));
            let both = memory.cache.len();
            assert!(both >= 40, "{both}");
            one.forget();
            assert_eq!(memory.cache.len(), both / 2);
            other.forget();
            assert_eq!(memory.cache.len(), 0);
        }
    }
}
