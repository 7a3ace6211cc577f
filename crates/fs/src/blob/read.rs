//! Reading a range of a file.

use super::repair::{self, Rebuilt};
use super::{Geometry, inline};
use crate::error::Result;
use crate::schema::{BlockPlace, Form, Inode, MapEntry};
use crate::tx::Tx;
use bytes::{Bytes, BytesMut};
use kv::Read;

/// Blocks that are read in one round trip.
const AT_ONCE: usize = 64;

/// What reading found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) bytes: Bytes,
    pub(crate) repairs: Vec<Rebuilt>,
}

/// The bytes from `offset` on, at most `len` and not past the end.
pub(crate) async fn read(
    tx: &mut Tx,
    inode: &Inode,
    offset: u64,
    len: u64,
    mode: Read,
) -> Result<Found> {
    let end = inode.size.min(offset.saturating_add(len));
    if offset >= end {
        return Ok(Found::default());
    }
    if inode.form == Form::Inline {
        let data = inline::load(tx, inode, mode).await?;
        return Ok(Found { bytes: cut(&data, offset, end), repairs: Vec::new() });
    }
    let geometry = Geometry::of(&tx.session.volume.record);
    let mut repairs = Vec::new();
    let mut out: Option<BytesMut> = None;
    let total = (end - offset) as usize;
    let mut done = 0usize;
    for (chunk, from, to) in geometry.chunks(offset, end) {
        let entry = tx.map_entry(inode.blob, chunk, mode).await?;
        let data = match &entry {
            Some(MapEntry::Data(data)) => Some(data),
            Some(MapEntry::Zero) | None => None,
        };
        // The stored pieces: where they go, and which part of the block.
        let mut pieces = Vec::new();
        let mut places = Vec::new();
        for (block, from, to) in geometry.blocks(from, to) {
            if let Some(generation) = data.and_then(|data| data.generation_of(block)) {
                pieces.push((done, from, to));
                places.push(BlockPlace {
                    slot: inode.slot,
                    blob: inode.blob,
                    chunk,
                    block: block as u16,
                    generation,
                });
            }
            done += to - from;
        }
        for (pieces, places) in pieces.chunks(AT_ONCE).zip(places.chunks(AT_ONCE)) {
            let loaded = repair::load_many(tx, places, mode, &mut repairs).await?;
            for ((at, from, to), bytes) in pieces.iter().copied().zip(loaded) {
                // All that was asked for, in one piece: nothing is copied.
                if to - from == total && bytes.len() >= to {
                    return Ok(Found { bytes: bytes.slice(from..to), repairs });
                }
                let out = out.get_or_insert_with(|| BytesMut::zeroed(total));
                let have = bytes.get(from..to.min(bytes.len())).unwrap_or_default();
                if let Some(space) = out.get_mut(at..at + have.len()) {
                    space.copy_from_slice(have);
                }
            }
        }
    }
    let out = out.unwrap_or_else(|| BytesMut::zeroed(total));
    Ok(Found { bytes: out.freeze(), repairs })
}

/// A range of data whose zeros at the end may be missing.
fn cut(data: &Bytes, offset: u64, end: u64) -> Bytes {
    let (from, to) = (offset as usize, end as usize);
    if to <= data.len() {
        return data.slice(from..to);
    }
    let mut out = BytesMut::zeroed(to - from);
    if let Some(have) = data.get(from..)
        && let Some(space) = out.get_mut(..have.len())
    {
        space.copy_from_slice(have);
    }
    out.freeze()
}
