//! Space without bytes: allocating, zeroing, holes, and finding them.

use super::write::wait_for_trim;
use super::{ChunkEdit, Geometry, inline};
use crate::error::{Error, Kind, Result};
use crate::schema::{Form, Inode, MapEntry, Parsed};
use crate::tx::{Tx, inline_space};
use crate::types::{Ino, Seek};
use kv::{Query, Read};

/// Takes space for a range of a mapped file that lies in few chunks.
pub(crate) async fn allocate(
    tx: &mut Tx,
    ino: Ino,
    inode: &mut Inode,
    start: u64,
    end: u64,
) -> Result<()> {
    let geometry = Geometry::of(&tx.session.volume.record);
    wait_for_trim(inode, end, geometry)?;
    inline::to_mapped(tx, ino, inode).await?;
    for (chunk, from, to) in geometry.chunks(start, end) {
        let mut edit = ChunkEdit::open(tx, inode, chunk).await?;
        for (block, _, _) in geometry.blocks(from, to) {
            edit.allocate(block);
        }
        edit.finish(tx, ino).await?;
    }
    Ok(())
}

/// Makes a range zero that lies in few chunks. Its space stays taken or is given back, as
/// `allocated` says; a block of which only a part is in the range always keeps it.
pub(crate) async fn zero(
    tx: &mut Tx,
    ino: Ino,
    inode: &mut Inode,
    start: u64,
    end: u64,
    allocated: bool,
) -> Result<()> {
    let geometry = Geometry::of(&tx.session.volume.record);
    if inode.form == Form::Inline {
        let mut data = inline::load(tx, inode, Read::Serializable).await?.to_vec();
        let (from, to) = (start.min(data.len() as u64), end.min(data.len() as u64));
        if let Some(part) = data.get_mut(from as usize..to as usize) {
            part.fill(0);
        }
        return inline::store(tx, inode, &data).await;
    }
    wait_for_trim(inode, end, geometry)?;
    for (chunk, from, to) in geometry.chunks(start, end) {
        if tx.map_entry(inode.blob, chunk, Read::Serializable).await?.is_none() {
            continue;
        }
        let mut edit = ChunkEdit::open(tx, inode, chunk).await?;
        let whole = |from: usize, to: usize| from == 0 && to as u64 == geometry.block_bytes;
        let mut run: Option<std::ops::Range<u32>> = None;
        for (block, from, to) in geometry.blocks(from, to) {
            if whole(from, to) {
                run = Some(run.map_or(block, |run| run.start)..block + 1);
            } else {
                edit.zero(tx, block, from, to).await?;
            }
        }
        if let Some(run) = run {
            edit.clear_run(tx, run, allocated).await?;
        }
        edit.finish(tx, ino).await?;
    }
    Ok(())
}

/// Bytes of all blocks that a range touches and that take space already.
pub(crate) async fn taken_in(tx: &mut Tx, inode: &Inode, start: u64, end: u64) -> Result<u64> {
    let geometry = Geometry::of(&tx.session.volume.record);
    if inode.form == Form::Inline {
        return Ok(inline_space(inode.inline_len) as u64);
    }
    let mut blocks = 0;
    let mut chunk = start / geometry.chunk_bytes;
    while let Some((found, entry)) = next_entry(tx, inode.blob, chunk, Read::Snapshot).await? {
        let base = found * geometry.chunk_bytes;
        if base >= end {
            break;
        }
        if let MapEntry::Data(data) = entry {
            let (from, to) = (start.max(base) - base, (end - base).min(geometry.chunk_bytes));
            let range = geometry.blocks(from, to);
            blocks += range.filter(|(block, ..)| data.allocated.has(*block)).count() as u64;
        }
        chunk = found + 1;
    }
    Ok(blocks * geometry.block_bytes)
}

/// The next chunk at or behind `chunk` that has an entry.
pub(crate) async fn next_entry(
    tx: &mut Tx,
    blob: u64,
    chunk: u64,
    read: Read,
) -> Result<Option<(u64, MapEntry)>> {
    let query = Query::new(tx.keys.map_from(blob, chunk)).limit(1);
    let page = tx.range(&query, read).await?;
    let Some((key, value)) = page.get(0) else {
        return Ok(None);
    };
    match (tx.keys.parse(key), MapEntry::decode(key, value)) {
        (Some(Parsed::Map { chunk, .. }), Some(entry)) => Ok(Some((chunk, entry))),
        _ => Err(tx.damaged(key, "is damaged")),
    }
}

/// The first data or hole at or behind `offset`.
pub(crate) async fn seek(tx: &mut Tx, inode: &Inode, offset: u64, what: Seek) -> Result<u64> {
    let nothing = || Error::new(Kind::NoDevice, "there is nothing more behind this offset");
    if offset >= inode.size {
        return Err(nothing());
    }
    let geometry = Geometry::of(&tx.session.volume.record);
    if inode.form == Form::Inline {
        let end = u64::from(inode.inline_len);
        return match what {
            Seek::Data if offset < end => Ok(offset),
            Seek::Data => Err(nothing()),
            Seek::Hole => Ok(offset.max(end)),
        };
    }
    let mut at = offset;
    loop {
        let chunk = at / geometry.chunk_bytes;
        let Some((found, entry)) = next_entry(tx, inode.blob, chunk, Read::Snapshot).await? else {
            return if what == Seek::Hole { Ok(at.min(inode.size)) } else { Err(nothing()) };
        };
        let base = found * geometry.chunk_bytes;
        if base >= inode.size {
            return if what == Seek::Hole { Ok(at.min(inode.size)) } else { Err(nothing()) };
        }
        if found > chunk {
            if what == Seek::Hole {
                return Ok(at);
            }
            at = base;
        }
        let first = ((at - base) / geometry.block_bytes) as u32;
        let stored = |block| match &entry {
            MapEntry::Data(data) => data.generation_of(block).is_some(),
            MapEntry::Zero => false,
        };
        let wanted = what == Seek::Data;
        if let Some(block) =
            (first..geometry.blocks_per_chunk()).find(|block| stored(*block) == wanted)
        {
            let found = at.max(base + u64::from(block) * geometry.block_bytes);
            return match what {
                Seek::Hole => Ok(found.min(inode.size)),
                Seek::Data if found < inode.size => Ok(found),
                Seek::Data => Err(nothing()),
            };
        }
        at = base.saturating_add(geometry.chunk_bytes);
        if at >= inode.size {
            return if what == Seek::Hole { Ok(inode.size) } else { Err(nothing()) };
        }
    }
}
