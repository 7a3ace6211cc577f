//! One piece of a scrub: a page of records, or a chunk with its blocks and parity.

use super::{Scrub, record};
use crate::blob::parity::Parity;
use crate::blob::{block, repair};
use crate::error::{Error, Kind, Result};
use crate::schema::{BlockPlace, Data, Family, Form, Inode, MapEntry, PARITY_BLOCK, Parsed};
use crate::session::OpKind;
use bytes::Bytes;
use kv::{Key, KeyRange, Query, Read, Txn};
use std::collections::BTreeMap;

/// Bytes that a piece of records has, about.
const PAGE_BYTES: usize = 256 << 10;

/// Numbers of a family in a row of which nothing can be read before the rest of it is passed over.
const FAILURES_MAX: u32 = 1000;

/// What was read of a chunk, on one snapshot.
#[derive(Default)]
struct Chunk {
    data: Option<Data>,
    /// Blocks that the map names: whole ones in their stored form, and damaged ones with why.
    whole: BTreeMap<u32, (u64, Bytes)>,
    damaged: BTreeMap<u32, String>,
    /// By group; none for a damaged one.
    parity: BTreeMap<u32, Option<Parity>>,
}

impl Scrub<'_> {
    fn block_bytes(&self) -> usize {
        self.session.0.volume.record.block_bytes as usize
    }

    async fn begin(&self) -> Result<Txn> {
        Ok(self.session.0.volume.world.store.begin().await?)
    }

    /// Reads what is at a key, and says where to go on.
    pub(super) async fn piece(&mut self, at: &Key) -> Result<Option<Key>> {
        let blocks = self.keys.family_range(Family::Block);
        let bound = match (at < &blocks.start, at < &blocks.end) {
            (true, _) => &blocks.start,
            (false, true) => &blocks.end,
            (false, false) => &self.keys.all().end,
        };
        let family = Window::of(at, self.window, bound);
        let next = match blocks.contains(at) {
            true => self.chunk(at, &family).await,
            false => self.records(at, &family).await,
        };
        let next = match next {
            Ok(next) => {
                self.failures = 0;
                self.window = self.window.saturating_mul(2);
                next
            }
            Err(error) if error.kind() == Kind::Corrupt => {
                // Halved until what cannot be read is alone, so that all else is read.
                if self.window > 1 {
                    self.window /= 2;
                    return Ok(Some(at.clone()));
                }
                self.failures += 1;
                let what =
                    format!("{}: cannot be read: {error}", self.session.0.volume.describe(at));
                self.found("unreadable", family.number, what);
                match self.failures < FAILURES_MAX {
                    true => family.end.clone(),
                    false => family.family_end,
                }
            }
            Err(error) => return Err(error),
        };
        Ok((next < self.keys.all().end).then_some(next))
    }

    /// A page of records.
    async fn records(&mut self, at: &Key, window: &Window) -> Result<Key> {
        let range = KeyRange { start: at.clone(), end: window.end.clone() };
        let query = Query { bytes: PAGE_BYTES, ..Query::new(range) };
        let page = self.begin().await?.range(&query, Read::Snapshot).await?;
        let block_bytes = self.block_bytes();
        for (key, value) in page.iter() {
            self.count(key, value);
            let Some(parsed) = self.keys.parse(key) else { continue };
            self.record.blocks += u64::from(matches!(parsed, Parsed::Inline { .. }));
            if let Parsed::Inode { ino } = parsed
                && let Some(inode) = Inode::decode(key, ino, value)
                && inode.form == Form::Local
            {
                self.local.push(ino);
            }
            if let Some((kind, what)) = record::damage(&parsed, key, value, block_bytes) {
                let what = format!("{}: {what}", self.session.0.volume.describe(key));
                self.found(kind, record::owner(&parsed), what);
            }
        }
        Ok(match page.last_key().filter(|_| page.more) {
            Some(last) => last.successor(),
            None => window.end.clone(),
        })
    }

    fn count(&mut self, key: &[u8], value: &[u8]) {
        self.record.keys += 1;
        self.record.bytes += (key.len() + value.len()) as u64;
    }

    /// The first chunk at or behind a key of a block.
    async fn chunk(&mut self, at: &Key, window: &Window) -> Result<Key> {
        let (blob, chunk) = place_of(at);
        let end = match blob.checked_add(self.window) {
            Some(end) if self.window < u64::MAX => self.keys.map(end, 0),
            _ => self.keys.family_range(Family::Map).end,
        };
        let map = KeyRange { start: self.keys.map(blob, chunk), end };
        let blocks = KeyRange { start: at.clone(), end: window.end.clone() };
        let mut txn = self.begin().await?;
        let mut first = None;
        for range in [map, blocks] {
            let page = txn.range(&Query::new(range).limit(1), Read::Snapshot).await?;
            let place = page.get(0).and_then(|(key, _)| match self.keys.parse(key)? {
                Parsed::Map { blob, chunk } => Some((0, blob, chunk)),
                Parsed::Block(place) => Some((place.slot, place.blob, place.chunk)),
                _ => None,
            });
            first = first.into_iter().chain(place).min();
        }
        // Of other slots nothing is known; keys that are none are a check's matter.
        let Some((0, blob, chunk)) = first else { return Ok(window.end.clone()) };
        let first = |blob, chunk| {
            self.keys.block(BlockPlace { slot: 0, blob, chunk, block: 0, generation: 0 })
        };
        let next = match (chunk.checked_add(1), blob.checked_add(1)) {
            (Some(chunk), _) => first(blob, chunk),
            (None, Some(blob)) => first(blob, 0),
            (None, None) => window.family_end.clone(),
        };
        let range = KeyRange { start: first(blob, chunk), end: next.clone() };
        match self.read_chunk(&mut txn, blob, chunk, range).await {
            Ok(found) => self.compare(blob, chunk, found).await?,
            Err(error) if error.kind() == Kind::Corrupt => {
                self.by_blocks(blob, chunk, &error).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(next)
    }

    async fn read_chunk(
        &mut self,
        txn: &mut Txn,
        blob: u64,
        chunk: u64,
        range: KeyRange,
    ) -> Result<Chunk> {
        let mut found = Chunk::default();
        let map = self.keys.map(blob, chunk);
        // A damaged one is found among the records.
        let entry = txn.get(&map, Read::Snapshot).await?;
        if let Some(MapEntry::Data(data)) = entry.and_then(|entry| MapEntry::decode(&map, &entry)) {
            found.data = Some(data);
        }
        let mut next = Some(Query::new(range));
        while let Some(query) = next {
            let page = txn.range(&query, Read::Snapshot).await?;
            for (key, value) in page.iter() {
                self.count(key, value);
                self.record.blocks += 1;
                if let Some(Parsed::Block(place)) = self.keys.parse(key) {
                    self.one_block(&mut found, place, key, value);
                }
            }
            next = if page.more { query.behind(&page) } else { None };
        }
        Ok(found)
    }

    fn one_block(&self, found: &mut Chunk, place: BlockPlace, key: &[u8], value: &[u8]) {
        if place.block & PARITY_BLOCK != 0 {
            let group = u32::from(place.block & !PARITY_BLOCK);
            found.parity.insert(group, Parity::decode(value, key).ok());
            return;
        }
        let block = u32::from(place.block);
        let named = found.data.as_ref().and_then(|data| data.generation_of(block));
        if named != Some(place.generation) {
            // On its way in or out: nobody can ask for it.
            return;
        }
        let stored = Bytes::copy_from_slice(value);
        match block::decode(&stored, key, self.block_bytes()) {
            Ok(_) => drop(found.whole.insert(block, (place.generation, stored))),
            Err(damage) => drop(found.damaged.insert(block, damage.to_string())),
        }
    }

    /// Looks for what is missing, and mends what parity can.
    async fn compare(&mut self, blob: u64, chunk: u64, mut found: Chunk) -> Result<()> {
        let Some(data) = found.data.take() else { return Ok(()) };
        for block in data.layers.iter().flat_map(|(_, bits)| bits.iter()) {
            if !found.whole.contains_key(&block) {
                found.damaged.entry(block).or_insert_with(|| "is missing".to_owned());
            }
        }
        for (block, why) in &found.damaged {
            let Some(generation) = data.generation_of(*block) else { continue };
            let kind = if why == "is missing" { "block-missing" } else { "block-damaged" };
            let place = BlockPlace { slot: 0, blob, chunk, block: *block as u16, generation };
            self.rebuild(kind, place, why).await?;
        }
        let size = u32::from(self.session.0.volume.record.parity_group);
        if size == 0 {
            return Ok(());
        }
        let mut groups: Vec<u32> = found.whole.keys().map(|block| block / size).collect();
        groups.dedup();
        for group in groups {
            let range = group * size..(group + 1) * size;
            if found.damaged.range(range.clone()).next().is_some() {
                continue;
            }
            let members = found.whole.range(range);
            let made = Parity::of(
                members.map(|(block, (generation, stored))| (*block, *generation, stored.as_ref())),
            );
            let stored = found.parity.get(&group);
            if made.is_ok_and(|made| stored.is_none_or(|stored| stored.as_ref() != Some(&made))) {
                self.mend_parity(blob, chunk, group).await?;
            }
        }
        Ok(())
    }

    /// Rebuilds a block where parity can, or notes that it is lost.
    async fn rebuild(&mut self, kind: &str, place: BlockPlace, why: &str) -> Result<()> {
        let loaded = self
            .session
            .view(|mut tx| async move {
                let loaded = repair::load(&mut tx, place, Read::Snapshot, None).await;
                match loaded {
                    Ok((_, rebuilt)) => Ok((tx, Ok(rebuilt))),
                    Err(error) if error.kind() == Kind::Corrupt => Ok((tx, Err(error))),
                    Err(error) => Err(error),
                }
            })
            .await?;
        match loaded {
            Ok(Some(rebuilt)) => {
                self.session.write_repairs(vec![rebuilt]).await?;
                self.record.repaired += 1;
            }
            // Somebody was quicker.
            Ok(None) => {}
            Err(_) => {
                let key = self.keys.block(place);
                let what = format!("{}: {why}", self.session.0.volume.describe(&key));
                self.found(kind, place.blob, what);
            }
        }
        Ok(())
    }

    /// Makes the parity of a group again, of what its blocks are by then.
    async fn mend_parity(&mut self, blob: u64, chunk: u64, group: u32) -> Result<()> {
        let size = u32::from(self.session.0.volume.record.parity_group);
        let block_bytes = self.block_bytes();
        let mended = self
            .session
            .change(OpKind::Idempotent, |mut tx| async move {
                let entry = tx.map_entry(blob, chunk, Read::Serializable).await?;
                let Some(MapEntry::Data(data)) = entry else { return Ok((tx, false)) };
                let place = |block: u32, generation| BlockPlace {
                    slot: 0,
                    blob,
                    chunk,
                    block: block as u16,
                    generation,
                };
                let mut parity = Parity::default();
                for block in group * size..(group + 1) * size {
                    let Some(generation) = data.generation_of(block) else { continue };
                    let key = tx.keys.block(place(block, generation));
                    let stored = tx.get(&key, Read::Serializable).await?;
                    let Some(stored) = stored else { return Ok((tx, false)) };
                    let whole = block::decode(&stored, &key, block_bytes).is_ok();
                    let old = parity.replace(block, None, Some((generation, &stored)));
                    if !whole || old.is_err() {
                        return Ok((tx, false));
                    }
                }
                let key = tx.keys.block(place(PARITY_BLOCK as u32 | group, 0));
                let made = Bytes::from(parity.encode(&key));
                let there = tx.get(&key, Read::Serializable).await.ok().flatten();
                let differs = !parity.members().is_empty() && there.as_ref() != Some(&made);
                if differs {
                    tx.put(&key, made)?;
                }
                Ok((tx, differs))
            })
            .await?;
        self.record.repaired += u64::from(mended);
        Ok(())
    }

    /// A chunk of which the store cannot read all: block by block.
    async fn by_blocks(&mut self, blob: u64, chunk: u64, error: &Error) -> Result<()> {
        let entry = self
            .session
            .view(|mut tx| async move {
                let entry = tx.map_entry(blob, chunk, Read::Snapshot).await;
                Ok((tx, entry.ok().flatten()))
            })
            .await?;
        let before = self.record.damaged + self.record.repaired;
        if let Some(MapEntry::Data(data)) = entry {
            for (generation, bits) in &data.layers {
                for block in bits.iter() {
                    let generation = *generation;
                    let place =
                        BlockPlace { slot: 0, blob, chunk, block: block as u16, generation };
                    let sound = self.session.view(|mut tx| async move {
                        let key = tx.keys.block(place);
                        let found = tx.get(&key, Read::Snapshot).await;
                        Ok((tx, matches!(found, Ok(Some(_)))))
                    });
                    if !sound.await? {
                        self.rebuild("unreadable", place, &error.to_string()).await?;
                    }
                }
            }
        }
        if self.record.damaged + self.record.repaired == before {
            // The map, parity, or what is on its way in or out.
            let key = self.keys.map(blob, chunk);
            let what = format!("{}: cannot be read: {error}", self.session.0.volume.describe(&key));
            self.found("unreadable", blob, what);
        }
        Ok(())
    }
}

/// Blob and chunk of a key in the family of blocks; the first where it is shorter.
fn place_of(key: &Key) -> (u64, u64) {
    let number = |at: usize| {
        let bytes = key.get(at..at + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        bytes.map_or(0, u64::from_be_bytes)
    };
    (number(11), number(19))
}

/// So many numbers of a family, from that of a key on; all of them are up to the bound.
struct Window {
    number: u64,
    end: Key,
    family_end: Key,
}

impl Window {
    fn of(key: &Key, numbers: u64, bound: &Key) -> Self {
        let volume = key.get(..2).unwrap_or_default();
        let family = key.get(2).copied().unwrap_or(0);
        let family_end = match family.checked_add(1) {
            Some(next) => Key::new(&[volume, &[next]].concat()).min(bound.clone()),
            None => bound.clone(),
        };
        // A block's key has its slot before its blob.
        let at = if family == Family::Block.byte() { 11 } else { 3 };
        let mut head = key.get(..at).unwrap_or(key).to_vec();
        head.resize(at, 0);
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(key.get(at..).unwrap_or_default()).for_each(|(to, from)| *to = *from);
        let number = u64::from_be_bytes(bytes);
        let end = match number.checked_add(numbers) {
            _ if numbers == u64::MAX => bound.clone(),
            Some(end) => {
                Key::new(&[&head[..], &end.to_be_bytes()].concat()).min(family_end.clone())
            }
            None => family_end.clone(),
        };
        Self { number, end, family_end }
    }
}
