//! Changing one chunk of a mapped file in a transaction: blocks, the map entry, parity and space, all
//! of which must agree.

use super::block;
use super::parity::Parity;
use super::repair::{self, load_stored};
use crate::error::{Result, no_space};
use crate::schema::{BlockPlace, Data, Inode, MapEntry, PARITY_BLOCK};
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

    /// What a block holds, without the zeros at its end; `None` for a hole or zeros.
    pub(crate) async fn load(&self, tx: &mut Tx, block: u32) -> Result<Option<Bytes>> {
        match self.data.generation_of(block) {
            None => Ok(None),
            Some(generation) => {
                let place = self.place(block, generation);
                Ok(Some(repair::load(tx, place, Read::Serializable).await?.0))
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
        let mut generations = std::collections::BTreeSet::new();
        for block in run.clone().filter(|block| self.data.allocated.has(*block)).collect::<Vec<_>>()
        {
            if let Some(generation) = self.data.generation_of(block) {
                self.note_parity(tx, block, None).await?;
                self.data.store(block, None);
                generations.insert(generation);
            }
            if !allocated {
                self.data.allocated.clear(block);
            }
        }
        for generation in generations {
            let start = tx.keys.block(self.place(run.start, generation));
            let end = tx.keys.block(self.place(run.end, generation));
            tx.delete_range(&KeyRange { start, end })?;
        }
        Ok(())
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
        let group = block / size;
        let mut parity = match self.groups.remove(&group) {
            Some(parity) => parity,
            None => repair::load_parity(tx, self.place(0, 0), group).await?.unwrap_or_default(),
        };
        let old = match self.data.generation_of(block) {
            Some(generation) => {
                let place = self.place(block, generation);
                Some((generation, load_stored(tx, place, Read::Serializable).await?.0))
            }
            None => None,
        };
        let old = old.as_ref().map(|(generation, bytes)| (*generation, &bytes[..]));
        let new = new.map(|(generation, bytes)| (generation, &bytes[..]));
        if parity.replace(block, old, new).is_err() {
            // What the record says is not what is there: it is made again from the blocks.
            parity = self.parity_of(tx, group * size..(group + 1) * size, block, new).await?;
        }
        self.groups.insert(group, parity);
        Ok(())
    }

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
                members.push((
                    block,
                    generation,
                    load_stored(tx, place, Read::Serializable).await?.0,
                ));
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
        for (group, parity) in &self.groups {
            let key = tx.keys.block(self.place(u32::from(PARITY_BLOCK) | group, 0));
            if parity.members().is_empty() {
                tx.delete(&key)?;
            } else {
                tx.put(&key, parity.encode(&key))?;
            }
        }
        let by = i64::from(self.data.allocated.count()) - i64::from(self.allocated_before);
        let by = by * i64::from(tx.session.volume.record.block_bytes);
        take_space(tx, by).await?;
        if by != 0 {
            let key = tx.keys.blocks(ino);
            tx.add(&key, by)?;
        }
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
