//! Reading blocks, and rebuilding from parity those that are damaged or missing.

use super::block;
use super::parity::Parity;
use crate::error::{Error, Kind, Result};
use crate::schema::{BlockPlace, PARITY_BLOCK};
use crate::session::{OpKind, Session};
use crate::tx::Tx;
use bytes::Bytes;
use kv::{Key, Read};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// What is wrong with a block, when something is.
enum Raw {
    Sound(Bytes, Bytes),
    Damaged(Error),
}

/// A block that was rebuilt and should be written again.
#[derive(Debug, Clone)]
pub(crate) struct Rebuilt {
    pub(crate) place: BlockPlace,
    pub(crate) stored: Bytes,
}

async fn raw(tx: &mut Tx, place: BlockPlace, read: Read) -> Result<Raw> {
    let key = tx.keys.block(place);
    match tx.get(&key, read).await {
        Ok(stored) => Ok(check(tx, &key, stored)),
        Err(error) if error.kind() == Kind::Corrupt => Ok(Raw::Damaged(error)),
        Err(error) => Err(error),
    }
}

fn check(tx: &Tx, key: &Key, stored: Option<Bytes>) -> Raw {
    let Some(stored) = stored else {
        return Raw::Damaged(tx.damaged(key, "is missing"));
    };
    let block_bytes = tx.session.volume.record.block_bytes as usize;
    match block::decode(&stored, key, block_bytes) {
        Ok(bytes) => Raw::Sound(stored, bytes),
        Err(damage) => Raw::Damaged(tx.damaged(key, &damage.to_string())),
    }
}

/// The bytes of several blocks, in one round trip where that matters.
pub(crate) async fn load_many(
    tx: &mut Tx,
    places: &[BlockPlace],
    read: Read,
    repairs: &mut Vec<Rebuilt>,
) -> Result<Vec<Bytes>> {
    let mut all = Vec::with_capacity(places.len());
    if let [place] = places {
        let (bytes, rebuilt) = load(tx, *place, read, None).await?;
        repairs.extend(rebuilt);
        all.push(bytes);
        return Ok(all);
    }
    let keys: Vec<Key> = places.iter().map(|place| tx.keys.block(*place)).collect();
    let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let found = match tx.get_many(&slices, read).await {
        Ok(found) => found,
        // One of them is damaged in the engine: which one is found out below.
        Err(error) if error.kind() == Kind::Corrupt => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut found = found.into_iter();
    for (place, key) in places.iter().zip(&keys) {
        if let Some(stored) = found.next()
            && let Raw::Sound(_, bytes) = check(tx, key, stored)
        {
            all.push(bytes);
            continue;
        }
        let (bytes, rebuilt) = load(tx, *place, read, None).await?;
        repairs.extend(rebuilt);
        all.push(bytes);
    }
    Ok(all)
}

/// The bytes of a block, and the block itself when it had to be rebuilt. `known` is the parity of its
/// group where the transaction is about to write another than is stored.
pub(crate) async fn load(
    tx: &mut Tx,
    place: BlockPlace,
    read: Read,
    known: Option<&Parity>,
) -> Result<(Bytes, Option<Rebuilt>)> {
    match raw(tx, place, read).await? {
        Raw::Sound(_, bytes) => Ok((bytes, None)),
        Raw::Damaged(error) => {
            let (stored, bytes) = rebuild(tx, place, error, known).await?;
            Ok((bytes, Some(Rebuilt { place, stored })))
        }
    }
}

/// A block as it is stored, or was.
pub(crate) async fn load_stored(
    tx: &mut Tx,
    place: BlockPlace,
    known: Option<&Parity>,
) -> Result<Bytes> {
    match raw(tx, place, Read::Serializable).await? {
        Raw::Sound(stored, _) => Ok(stored),
        Raw::Damaged(error) => Ok(rebuild(tx, place, error, known).await?.0),
    }
}

/// The parity of a group of the chunk of `place`.
pub(crate) async fn load_parity(
    tx: &mut Tx,
    place: BlockPlace,
    group: u32,
) -> Result<Option<Parity>> {
    let at = BlockPlace { block: PARITY_BLOCK | group as u16, generation: 0, ..place };
    let key = tx.keys.block(at);
    let stored = match tx.get(&key, Read::Serializable).await {
        Ok(Some(stored)) => stored,
        Ok(None) => return Ok(None),
        // Damaged parity is made again from the blocks by who writes next.
        Err(error) if error.kind() == Kind::Corrupt => return Ok(None),
        Err(error) => return Err(error),
    };
    match Parity::decode(&stored, &key) {
        Ok(parity) => Ok(Some(parity)),
        Err(damage) => {
            tx.damaged(&key, &damage.to_string());
            Ok(None)
        }
    }
}

async fn rebuild(
    tx: &mut Tx,
    place: BlockPlace,
    error: Error,
    known: Option<&Parity>,
) -> Result<(Bytes, Bytes)> {
    let size = u16::from(tx.session.volume.record.parity_group);
    if size == 0 {
        return Err(error);
    }
    let group = u32::from(place.block / size);
    let parity = match known {
        Some(known) => Some(known.clone()),
        None => load_parity(tx, place, group).await?,
    };
    let Some(parity) = parity else {
        return Err(error);
    };
    let mut others = BTreeMap::new();
    for member in parity.members() {
        if member.block != u32::from(place.block) {
            let at =
                BlockPlace { block: member.block as u16, generation: member.generation, ..place };
            let key = tx.keys.block(at);
            if let Ok(Some(stored)) = tx.get(&key, Read::Serializable).await {
                others.insert((member.block, member.generation), stored);
            }
        }
    }
    let rebuilt = parity
        .rebuild(place.block.into(), |block, generation| others.get(&(block, generation)).cloned());
    let Ok(stored) = rebuilt else {
        return Err(error);
    };
    let key = tx.keys.block(place);
    let block_bytes = tx.session.volume.record.block_bytes as usize;
    match block::decode(&stored, &key, block_bytes) {
        Ok(bytes) => Ok((stored, bytes)),
        Err(_) => Err(error),
    }
}

impl Session {
    /// Writes blocks again that reading found damaged and parity has rebuilt.
    pub(crate) async fn write_repairs(&self, repairs: Vec<Rebuilt>) -> Result<()> {
        for rebuilt in &repairs {
            let place = rebuilt.place;
            let repaired = self
                .change(OpKind::Idempotent, |mut tx| async move {
                    // Somebody may have written or removed it meanwhile.
                    let entry = tx.map_entry(place.blob, place.chunk, Read::Serializable).await?;
                    let current = match &entry {
                        Some(crate::schema::MapEntry::Data(data)) => {
                            data.generation_of(place.block.into()) == Some(place.generation)
                        }
                        _ => false,
                    };
                    let damaged = current
                        && matches!(
                            raw(&mut tx, place, Read::Serializable).await?,
                            Raw::Damaged(_)
                        );
                    if damaged {
                        let key = tx.keys.block(place);
                        tx.put(&key, rebuilt.stored.clone())?;
                    }
                    Ok((tx, damaged))
                })
                .await?;
            if repaired {
                self.0.counts.repaired_blocks.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    volume = self.0.volume.name(),
                    blob = place.blob,
                    chunk = place.chunk,
                    block = place.block,
                    "a damaged block was rebuilt from parity and written again"
                );
            }
        }
        Ok(())
    }
}
