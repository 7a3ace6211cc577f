//! Changing one chunk of a mapped file in a transaction: blocks, the map entry, parity and space, all
//! of which must agree.

use super::block;
use super::parity::Parity;
use super::repair::{self, load_stored};
use super::truncate::{GENERATIONS_AT_ONCE, sweep_later};
use crate::error::{Kind, Result, no_space};
use crate::schema::{Bits, BlockPlace, Data, Inode, MapEntry, PARITY_BLOCK};
use crate::tx::Tx;
use crate::types::Ino;
use bytes::Bytes;
use kv::{KeyRange, Read};
use std::collections::BTreeMap;
use std::ops::Range;

/// A chunk that is being changed. Nothing but its blocks is written before `finish`.
pub(crate) struct ChunkEdit {
    slot: u64,
    blob: u64,
    chunk: u64,
    before: Option<MapEntry>,
    data: Data,
    allocated_before: u32,
    /// Parity groups that have to be written again.
    groups: BTreeMap<u32, Parity>,
}

impl ChunkEdit {
    pub(crate) async fn open(tx: &mut Tx, inode: &Inode, chunk: u64) -> Result<Self> {
        let before = tx.map_entry(inode.blob, chunk, Read::Serializable).await?;
        let data = match &before {
            Some(MapEntry::Data(data)) => data.clone(),
            Some(MapEntry::Zero) | None => Data::default(),
        };
        let allocated_before = data.allocated.count();
        Ok(Self {
            slot: inode.slot,
            blob: inode.blob,
            chunk,
            before,
            data,
            allocated_before,
            groups: BTreeMap::new(),
        })
    }

    fn place(&self, block: u32, generation: u64) -> BlockPlace {
        BlockPlace {
            slot: self.slot,
            blob: self.blob,
            chunk: self.chunk,
            block: block as u16,
            generation,
        }
    }

    fn parity_place(&self, group: u32) -> BlockPlace {
        self.place(u32::from(PARITY_BLOCK) | group, 0)
    }

    /// What a block holds, without the zeros at its end; `None` for a hole or zeros.
    pub(crate) async fn load(&self, tx: &mut Tx, block: u32) -> Result<Option<Bytes>> {
        match self.data.generation_of(block) {
            None => Ok(None),
            Some(generation) => {
                let place = self.place(block, generation);
                let known = self.groups.get(&group_of(tx, block));
                Ok(Some(repair::load(tx, place, Read::Serializable, known).await?.0))
            }
        }
    }

    /// Sets what a block holds.
    pub(crate) async fn put(&mut self, tx: &mut Tx, block: u32, bytes: &[u8]) -> Result<()> {
        if block::is_zero(bytes) {
            return self.clear(tx, block, true).await;
        }
        let generation = self.data.generation_of(block).unwrap_or(0);
        let key = tx.keys.block(self.place(block, generation));
        let stored = Bytes::from(block::encode(bytes, tx.session.volume.record.codec, &key));
        self.note_parity(tx, block, Some((generation, &stored))).await?;
        tx.put(&key, stored)?;
        self.data.allocated.set(block);
        self.data.store(block, Some(generation));
        Ok(())
    }

    /// Changes a part of a block; the rest stays.
    pub(crate) async fn patch(
        &mut self,
        tx: &mut Tx,
        block: u32,
        at: usize,
        bytes: &[u8],
    ) -> Result<()> {
        let old = self.load(tx, block).await?.unwrap_or_default();
        let mut whole = Vec::with_capacity(old.len().max(at + bytes.len()));
        whole.extend_from_slice(&old);
        if whole.len() < at + bytes.len() {
            whole.resize(at + bytes.len(), 0);
        }
        if let Some(part) = whole.get_mut(at..at + bytes.len()) {
            part.copy_from_slice(bytes);
        }
        self.put(tx, block, &whole).await
    }

    /// Makes a range of a block zero; the rest stays, and so does its space.
    pub(crate) async fn zero(
        &mut self,
        tx: &mut Tx,
        block: u32,
        from: usize,
        to: usize,
    ) -> Result<()> {
        let Some(old) = self.load(tx, block).await? else {
            return Ok(());
        };
        let to = to.min(old.len());
        if from >= to {
            return Ok(());
        }
        let mut whole = old.to_vec();
        if let Some(part) = whole.get_mut(from..to) {
            part.fill(0);
        }
        self.put(tx, block, &whole).await
    }

    /// Makes a block zeros that keep their space, or a hole.
    pub(crate) async fn clear(&mut self, tx: &mut Tx, block: u32, allocated: bool) -> Result<()> {
        if let Some(generation) = self.data.generation_of(block) {
            self.note_parity(tx, block, None).await?;
            let key = tx.keys.block(self.place(block, generation));
            tx.delete(&key)?;
            self.data.store(block, None);
        }
        if allocated {
            self.data.allocated.set(block);
        } else {
            self.data.allocated.clear(block);
        }
        Ok(())
    }

    /// The same for all blocks of a run, in few operations.
    pub(crate) async fn clear_run(
        &mut self,
        tx: &mut Tx,
        run: Range<u32>,
        allocated: bool,
    ) -> Result<()> {
        let mut generations: BTreeMap<u64, Bits> = BTreeMap::new();
        let whole = self.empty_groups(tx, &run);
        for block in run.clone().filter(|block| self.data.allocated.has(*block)).collect::<Vec<_>>()
        {
            if let Some(generation) = self.data.generation_of(block) {
                if !whole.contains(&group_of(tx, block)) {
                    self.note_parity(tx, block, None).await?;
                }
                self.data.store(block, None);
                generations.entry(generation).or_default().set(block);
            }
            if !allocated {
                self.data.allocated.clear(block);
            }
        }
        if generations.len() > GENERATIONS_AT_ONCE {
            return sweep_later(tx, self.slot, self.blob, self.chunk, generations).await;
        }
        for generation in generations.into_keys() {
            let start = tx.keys.block(self.place(run.start, generation));
            let end = tx.keys.block(self.place(run.end, generation));
            tx.delete_range(&KeyRange { start, end })?;
        }
        Ok(())
    }

    /// Groups that have no block outside of a run: their parity goes without being read.
    fn empty_groups(&mut self, tx: &Tx, run: &Range<u32>) -> Range<u32> {
        let record = &tx.session.volume.record;
        let size = u32::from(record.parity_group);
        if size == 0 {
            return 0..0;
        }
        let first = run.start.div_ceil(size);
        // The last group of a chunk may be a short one.
        let to_end = run.end >= record.blocks_per_chunk();
        let end = if to_end { run.end.div_ceil(size) } else { run.end / size };
        let groups = first..end.max(first);
        let stored = |block: u32| self.data.generation_of(block).is_some();
        let with_parity: Vec<u32> =
            groups.clone().filter(|group| (group * size..(group + 1) * size).any(stored)).collect();
        for group in with_parity {
            self.groups.insert(group, Parity::default());
        }
        groups
    }

    /// Takes a block that stands under `generation` already; returns the generation that it replaces.
    pub(crate) async fn adopt(
        &mut self,
        tx: &mut Tx,
        block: u32,
        staged: Option<(u64, &Bytes)>,
    ) -> Result<Option<u64>> {
        self.note_parity(tx, block, staged).await?;
        self.data.allocated.set(block);
        Ok(self.data.store(block, staged.map(|(generation, _)| generation)))
    }

    /// Takes space for a block that has none.
    pub(crate) fn allocate(&mut self, block: u32) {
        self.data.allocated.set(block);
    }

    /// Keeps the parity of a block's group in step with what is about to be stored.
    async fn note_parity(
        &mut self,
        tx: &mut Tx,
        block: u32,
        new: Option<(u64, &Bytes)>,
    ) -> Result<()> {
        let size = u32::from(tx.session.volume.record.parity_group);
        if size == 0 {
            return Ok(());
        }
        let group = group_of(tx, block);
        let blocks = group * size..(group + 1) * size;
        let known = match self.groups.remove(&group) {
            Some(parity) => Some(parity),
            None => {
                let found = repair::load_parity(tx, self.place(0, 0), group).await?;
                Some(found.unwrap_or_default()).filter(|parity| self.agrees(parity, blocks.clone()))
            }
        };
        let new = new.map(|(generation, bytes)| (generation, &bytes[..]));
        let replaced = match known {
            Some(parity) => self.replaced(tx, parity, block, new).await?,
            None => None,
        };
        // Where the record says what is not there, it is made again from the blocks.
        let parity = match replaced {
            Some(parity) => parity,
            None => self.parity_of(tx, blocks, block, new).await?,
        };
        self.groups.insert(group, parity);
        Ok(())
    }

    /// Whether parity is that of the blocks that the map entry names.
    fn agrees(&self, parity: &Parity, blocks: Range<u32>) -> bool {
        let named = blocks.filter_map(|block| Some((block, self.data.generation_of(block)?)));
        named.eq(parity.members().iter().map(|member| (member.block, member.generation)))
    }

    /// The parity after a change of one block; `None` when that cannot be told from what is there.
    async fn replaced(
        &self,
        tx: &mut Tx,
        mut parity: Parity,
        block: u32,
        new: Option<(u64, &[u8])>,
    ) -> Result<Option<Parity>> {
        let old = match self.data.generation_of(block) {
            Some(generation) => {
                let place = self.place(block, generation);
                match load_stored(tx, place, Some(&parity)).await {
                    Ok(stored) => Some((generation, stored)),
                    // What is lost can be replaced all the same.
                    Err(error) if error.kind() == Kind::Corrupt => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
            None => None,
        };
        let old = old.as_ref().map(|(generation, bytes)| (*generation, &bytes[..]));
        Ok(parity.replace(block, old, new).is_ok().then_some(parity))
    }

    /// The parity of a group, made from its blocks. Those that are lost have no part in it.
    async fn parity_of(
        &self,
        tx: &mut Tx,
        blocks: Range<u32>,
        changed: u32,
        new: Option<(u64, &[u8])>,
    ) -> Result<Parity> {
        let mut members = Vec::new();
        for block in blocks.filter(|block| *block != changed) {
            if let Some(generation) = self.data.generation_of(block) {
                let place = self.place(block, generation);
                match load_stored(tx, place, None).await {
                    Ok(stored) => members.push((block, generation, stored)),
                    Err(error) if error.kind() == Kind::Corrupt => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let all = members
            .iter()
            .map(|(block, generation, bytes)| (*block, *generation, &bytes[..]))
            .chain(new.map(|(generation, bytes)| (changed, generation, bytes)));
        let key = tx.keys.block(self.place(changed, 0));
        Parity::of(all).map_err(|damage| tx.damaged(&key, &damage.to_string()))
    }

    /// Writes the map entry, parity and the space that changed.
    pub(crate) async fn finish(self, tx: &mut Tx, ino: Ino) -> Result<()> {
        let mut empty: Vec<Range<u32>> = Vec::new();
        for (&group, parity) in &self.groups {
            if !parity.members().is_empty() {
                let key = tx.keys.block(self.parity_place(group));
                tx.put(&key, parity.encode(&key))?;
                continue;
            }
            match empty.last_mut() {
                Some(run) if run.end == group => run.end += 1,
                _ => empty.push(group..group + 1),
            }
        }
        for run in empty {
            let start = tx.keys.block(self.parity_place(run.start));
            let end = tx.keys.block(self.parity_place(run.end));
            tx.delete_range(&KeyRange { start, end })?;
        }
        let by = i64::from(self.data.allocated.count()) - i64::from(self.allocated_before);
        let by = by * i64::from(tx.session.volume.record.block_bytes);
        take_space(tx, by).await?;
        tx.count_space(ino, by);
        if self.data.allocated.is_empty() {
            if self.before.is_some() {
                let key = tx.keys.map(self.blob, self.chunk);
                tx.delete(&key)?;
            }
            return Ok(());
        }
        let after = MapEntry::Data(self.data);
        if self.before.as_ref() != Some(&after) {
            tx.put_map_entry(self.blob, self.chunk, &after)?;
        }
        Ok(())
    }
}

/// The parity group of a block; 0 where there is no parity.
fn group_of(tx: &Tx, block: u32) -> u32 {
    block.checked_div(tx.session.volume.record.parity_group.into()).unwrap_or(0)
}

/// Counts space, and refuses what the volume has no room for.
pub(crate) async fn take_space(tx: &mut Tx, by: i64) -> Result<()> {
    tx.count_bytes(by);
    let capacity = tx.session.volume.record.capacity_bytes;
    if by > 0 && capacity > 0 {
        let used = tx.total(crate::schema::Counter::Bytes).await?;
        if used.saturating_add_signed(tx.bytes_added()) > capacity {
            return Err(no_space("the volume has reached its capacity: remove something first"));
        }
    }
    Ok(())
}
