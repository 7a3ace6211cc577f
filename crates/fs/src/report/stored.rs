//! How much is stored of a file, and which stretches of it take space.

use super::info::{Extent, Info};
use crate::blob::Geometry;
use crate::error::Result;
use crate::schema::{BlockPlace, Data, Form, Inode, MapEntry, PARITY_BLOCK, Parsed};
use crate::tx::Tx;
use kv::{KeyRange, Query, Read};

/// Map entries that are read at once.
const ENTRIES: usize = 64;

/// Fills in what `info` says of the bytes of a file.
pub(super) async fn measure(tx: &mut Tx, inode: &Inode, info: &mut Info) -> Result<()> {
    if inode.form == Form::Inline {
        return measure_inline(tx, inode, info).await;
    }
    if inode.form == Form::Local {
        info.stored_bytes = info.attr.blocks * 512;
        if info.stored_bytes > 0 {
            let (end, stored_bytes) = (info.attr.size, info.stored_bytes);
            add_extent(info, Extent { start: 0, end, stored_bytes });
        }
        return Ok(());
    }
    let geometry = Geometry::of(&tx.session.volume.record);
    let mut next = Some(Query::new(tx.keys.map_from(inode.blob, 0)).limit(ENTRIES));
    while let Some(query) = next {
        let page = tx.range(&query, Read::Snapshot).await?;
        for (key, value) in page.iter() {
            let entry = MapEntry::decode(key, value);
            let (Some(Parsed::Map { chunk, .. }), Some(entry)) = (tx.keys.parse(key), entry) else {
                return Err(tx.damaged(key, "is damaged"));
            };
            info.chunks += 1;
            let MapEntry::Data(data) = entry else { continue };
            let sizes = stored_sizes(tx, inode, chunk, &data, info).await?;
            for block in data.allocated.iter() {
                info.blocks += 1;
                let start = chunk
                    .saturating_mul(geometry.chunk_bytes)
                    .saturating_add(u64::from(block) * geometry.block_bytes);
                let stored_bytes = sizes.get(block as usize).copied().unwrap_or(0).into();
                let end = start.saturating_add(geometry.block_bytes);
                add_extent(info, Extent { start, end, stored_bytes });
            }
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    Ok(())
}

async fn measure_inline(tx: &mut Tx, inode: &Inode, info: &mut Info) -> Result<()> {
    if inode.inline_len == 0 {
        return Ok(());
    }
    let key = tx.keys.inline(inode.blob);
    let Some(stored) = tx.get(&key, Read::Snapshot).await? else {
        return Err(tx.damaged(&key, "is missing"));
    };
    info.stored_bytes = stored.len() as u64;
    let end = inode.inline_len.into();
    add_extent(info, Extent { start: 0, end, stored_bytes: info.stored_bytes });
    Ok(())
}

/// Bytes of the stored form of each block of a chunk; all of them, and parity, are added to `info`.
async fn stored_sizes(
    tx: &mut Tx,
    inode: &Inode,
    chunk: u64,
    data: &Data,
    info: &mut Info,
) -> Result<Vec<u32>> {
    let first =
        |chunk| BlockPlace { slot: inode.slot, blob: inode.blob, chunk, block: 0, generation: 0 };
    let start = tx.keys.block(first(chunk));
    let end = tx.keys.block(first(chunk.saturating_add(1)));
    let mut sizes = Vec::new();
    let mut next = Some(Query::new(KeyRange { start, end }));
    while let Some(query) = next {
        let page = tx.range(&query, Read::Snapshot).await?;
        for (key, value) in page.iter() {
            let Some(Parsed::Block(place)) = tx.keys.parse(key) else {
                return Err(tx.damaged(key, "is no key of a block"));
            };
            let block = u32::from(place.block);
            if place.block & PARITY_BLOCK != 0 {
                info.stored_bytes += value.len() as u64;
            } else if data.generation_of(block) == Some(place.generation) {
                // What is staged or replaced is not the file's.
                info.stored_bytes += value.len() as u64;
                if sizes.len() <= block as usize {
                    sizes.resize(block as usize + 1, 0);
                }
                if let Some(size) = sizes.get_mut(block as usize) {
                    *size = value.len() as u32;
                }
            }
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    Ok(sizes)
}

/// Adds a stretch behind the others, or to the last when it goes on where that ended and is as much
/// there.
fn add_extent(info: &mut Info, extent: Extent) {
    if let Some(last) = info.extents.last_mut()
        && last.end == extent.start
        && (last.stored_bytes == 0) == (extent.stored_bytes == 0)
        && !info.extents_cut
    {
        last.end = extent.end;
        last.stored_bytes += extent.stored_bytes;
    } else if info.extents.len() < Info::EXTENTS_MAX {
        info.extents.push(extent);
    } else {
        info.extents_cut = true;
    }
}
