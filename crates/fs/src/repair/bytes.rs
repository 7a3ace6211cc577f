//! Mending how bytes are kept: inline, maps, blocks, parity, space.

use super::edit::Edit;
use crate::blob::block;
use crate::blob::parity::Parity;
use crate::error::Result;
use crate::schema::{Bits, BlockPlace, Data, Form, MapEntry, PARITY_BLOCK};
use crate::types::Ino;
use bytes::Bytes;
use kv::{Key, Query};
use std::collections::BTreeMap;

/// The inline bytes of a blob, when they are there and whole.
pub(super) async fn inline_bytes(edit: &mut Edit<'_>, blob: u64) -> Result<Option<Bytes>> {
    let key = edit.keys.inline(blob);
    let bound = edit.volume.record().block_bytes as usize;
    Ok(edit.get(&key).await?.and_then(|stored| block::decode(&stored, &key, bound).ok()))
}

/// Makes an inode say how many inline bytes it has. Where they are more than may be inline they become a
/// block; where they are lost, it says no more than may be.
pub(super) async fn inline(edit: &mut Edit<'_>, ino: Ino) -> Result<()> {
    let Some(mut inode) = edit.inode(ino).await? else { return Ok(()) };
    if !inode.is_file() || inode.form != Form::Inline {
        return Ok(());
    }
    let max = edit.volume.record().inline_bytes_max;
    match inline_bytes(edit, inode.blob).await? {
        Some(bytes) if bytes.len() <= max as usize => inode.inline_len = bytes.len() as u32,
        Some(bytes) => {
            let blob = inode.blob;
            let place = BlockPlace { slot: 0, blob, chunk: 0, block: 0, generation: 0 };
            let (key, map) = (edit.keys.block(place), edit.keys.map(blob, 0));
            let stored = block::encode(&bytes, edit.volume.record().codec, &key);
            edit.put(&key, stored).await?;
            let mut data = Data { allocated: Bits::of(0..1), layers: Vec::new() };
            data.store(0, Some(0));
            edit.put(&map, MapEntry::Data(data).encode(&map)).await?;
            let old = edit.keys.inline(blob);
            edit.delete(&old).await?;
            (inode.form, inode.inline_len) = (Form::Mapped, 0);
            inode.size = inode.size.max(bytes.len() as u64);
            edit.put_inode(ino, &inode).await?;
            return space(edit, ino).await;
        }
        None => inode.inline_len = inode.inline_len.min(max),
    }
    inode.size = inode.size.max(inode.inline_len.into());
    edit.put_inode(ino, &inode).await
}

/// Gives a blob of its own to an inode that named another's. Inline bytes are copied; chunks stay with
/// the other, and this file is empty.
pub(super) async fn own_blob(edit: &mut Edit<'_>, ino: Ino) -> Result<()> {
    let Some(mut inode) = edit.inode(ino).await? else { return Ok(()) };
    if inode.blob == ino {
        return Ok(());
    }
    if inode.form != Form::Inline {
        inode.taken = 0;
        (inode.form, inode.size, inode.inline_len) = (Form::Inline, 0, 0);
        for side in [edit.keys.blocks(ino), edit.keys.changed(ino)] {
            edit.delete(&side).await?;
        }
    } else if let Some(bytes) = inline_bytes(edit, inode.blob).await?
        && inode.inline_len > 0
    {
        let key = edit.keys.inline(ino);
        let stored = block::encode(&bytes, edit.volume.record().codec, &key);
        edit.put(&key, stored).await?;
        inode.inline_len = bytes.len() as u32;
        inode.size = inode.size.max(bytes.len() as u64);
    } else if inode.inline_len > 0 {
        (inode.size, inode.inline_len) = (0, 0);
    }
    (inode.blob, inode.trim, inode.trim_from) = (ino, 0, 0);
    edit.put_inode(ino, &inode).await
}

/// Writes a map entry for blocks that are there, unless there is a good one.
pub(super) async fn map(edit: &mut Edit<'_>, blob: u64, chunk: u64, data: &Data) -> Result<()> {
    let key = edit.keys.map(blob, chunk);
    match edit.map_entry(&key).await? {
        Some(Some(_)) => Ok(()),
        _ if data.allocated.is_empty() => edit.delete(&key).await,
        _ => edit.put(&key, MapEntry::Data(data.clone()).encode(&key)).await,
    }
}

/// Takes out of a map entry what cannot be; one without blocks goes.
pub(super) async fn shape(edit: &mut Edit<'_>, key: &Key) -> Result<()> {
    let Some(Some(MapEntry::Data(mut data))) = edit.map_entry(key).await? else { return Ok(()) };
    let per_chunk = edit.volume.record().blocks_per_chunk();
    let wrong: Vec<u32> = data.allocated.iter().filter(|block| *block >= per_chunk).collect();
    for block in wrong {
        data.store(block, None);
        data.allocated.clear(block);
    }
    match data.allocated.is_empty() {
        true => edit.delete(key).await,
        false => edit.put(key, MapEntry::Data(data).encode(key)).await,
    }
}

/// Counts the bytes that a mapped file takes; not where an entry is damaged.
pub(super) async fn space(edit: &mut Edit<'_>, ino: Ino) -> Result<()> {
    let Some(inode) = edit.inode(ino).await?.filter(|inode| inode.form == Form::Mapped) else {
        return Ok(());
    };
    let mut blocks = 0_u64;
    let mut next = Some(Query::new(edit.keys.map_from(inode.blob, 0)));
    while let Some(query) = next {
        let page = edit.range(&query).await?;
        for (key, value) in page.iter() {
            match MapEntry::decode(key, value) {
                Some(MapEntry::Data(data)) => blocks += u64::from(data.allocated.count()),
                Some(MapEntry::Zero) => {}
                None => return Ok(()),
            }
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    let key = edit.keys.blocks(ino);
    edit.put_count(&key, blocks * u64::from(edit.volume.record().block_bytes)).await
}

/// Rebuilds a block from parity. Where that cannot be done nothing is changed.
pub(super) async fn rebuild(edit: &mut Edit<'_>, place: BlockPlace) -> Result<()> {
    if let Some(stored) = rebuilt(edit, place).await? {
        let key = edit.keys.block(place);
        edit.put(&key, stored).await?;
    }
    Ok(())
}

async fn rebuilt(edit: &mut Edit<'_>, place: BlockPlace) -> Result<Option<Bytes>> {
    let size = u16::from(edit.volume.record().parity_group);
    let Some(group) = place.block.checked_div(size) else { return Ok(None) };
    let at = BlockPlace { block: PARITY_BLOCK | group, generation: 0, ..place };
    let key = edit.keys.block(at);
    let parity = edit.get(&key).await?.and_then(|stored| Parity::decode(&stored, &key).ok());
    let Some(parity) = parity else { return Ok(None) };
    let mut others = BTreeMap::new();
    for member in parity.members().iter().filter(|other| other.block != u32::from(place.block)) {
        let (block, generation) = (member.block as u16, member.generation);
        let key = edit.keys.block(BlockPlace { block, generation, ..place });
        if let Some(stored) = edit.get(&key).await? {
            others.insert((member.block, generation), stored);
        }
    }
    let stored = parity
        .rebuild(place.block.into(), |block, generation| others.get(&(block, generation)).cloned());
    let key = edit.keys.block(place);
    let bound = edit.volume.record().block_bytes as usize;
    Ok(stored.ok().filter(|stored| block::decode(stored, &key, bound).is_ok()))
}

/// Takes a block that nobody needs out of the map, and removes it.
pub(super) async fn unname(edit: &mut Edit<'_>, place: BlockPlace) -> Result<()> {
    let (map, key) = (edit.keys.map(place.blob, place.chunk), edit.keys.block(place));
    if let Some(Some(MapEntry::Data(mut data))) = edit.map_entry(&map).await?
        && data.generation_of(place.block.into()) == Some(place.generation)
    {
        data.store(place.block.into(), None);
        edit.put(&map, MapEntry::Data(data).encode(&map)).await?;
        edit.delete(&key).await?;
    }
    Ok(())
}

/// Makes the parity of a group again, of its blocks that are whole; it goes where none is stored.
pub(super) async fn parity(edit: &mut Edit<'_>, place: BlockPlace) -> Result<()> {
    let key = edit.keys.block(place);
    let map = edit.keys.map(place.blob, place.chunk);
    let size = u32::from(edit.volume.record().parity_group);
    let group = u32::from(place.block & !PARITY_BLOCK);
    let entry = edit.map_entry(&map).await?;
    let Some(Some(MapEntry::Data(data))) = entry else { return Ok(()) };
    let bound = edit.volume.record().block_bytes as usize;
    let mut parity = Parity::default();
    let mut needed = false;
    for block in group * size..(group + 1) * size {
        let Some(generation) = data.generation_of(block) else { continue };
        needed = true;
        let at = edit.keys.block(BlockPlace { block: block as u16, generation, ..place });
        if let Some(stored) = edit.get(&at).await?
            && block::decode(&stored, &at, bound).is_ok()
        {
            // Each block once, and no more than a group has.
            let _ = parity.replace(block, None, Some((generation, &stored)));
        }
    }
    match needed {
        true => edit.put(&key, parity.encode(&key)).await,
        false => edit.delete(&key).await,
    }
}
