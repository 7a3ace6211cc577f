//! Chunks: map entries, the blocks that they name, and the space that files take.

use super::finding::{
    BLOCK_BEHIND_END, BLOCK_DAMAGED, BLOCK_MISSING, BLOCK_UNNAMED, INODE_SPACE, MAP_SHAPE,
    MAP_UNOWNED,
};
use super::parity::Groups;
use super::scan::{Cursor, Scan};
use super::table::flag;
use crate::blob::{Geometry, block};
use crate::error::Result;
use crate::schema::{
    Bits, BlockPlace, Data, Family, Job, MapEntry, PARITY_BLOCK, Parsed, VolumeRecord,
};
use crate::tx::number;
use bytes::Bytes;

/// Slot, blob and chunk: the order of blocks, and with slot 0, the only one, that of the map.
type Place = (u64, u64, u64);

/// Whose bytes a blob is.
#[derive(Clone, Copy, Default)]
struct Owner {
    blob: u64,
    row: Option<usize>,
    /// Bytes from here on must be zeros; unknown for what is not a file's.
    size: Option<u64>,
    /// Chunks from here on are being removed.
    trim_from: Option<u64>,
}

/// One chunk while its blocks are read.
struct Chunk {
    data: Option<Data>,
    /// The map entry is damaged: nothing can be said of the blocks.
    unsure: bool,
    found: Bits,
    groups: Groups,
    /// The generation that no layer has which was last asked for, and the job that has its number.
    stage: Option<(u64, Option<Job>)>,
}

/// Reads the map and the blocks beside each other.
pub(super) async fn chunks(scan: &mut Scan<'_>) -> Result<()> {
    let mut map = scan.family(Family::Map);
    let mut blocks = scan.family(Family::Block);
    let mut owner: Option<Owner> = None;
    loop {
        let entry_at = next_entry(scan, &mut map).await?;
        let block_at = next_block(scan, &mut blocks).await?.map(place_of);
        let Some(at) = entry_at.into_iter().chain(block_at).min() else { break };
        let (_, blob, _) = at;
        let whose = match owner {
            Some(owner) if owner.blob == blob => owner,
            _ => owner_of(scan, blob).await?,
        };
        let first = owner.is_none_or(|owner| owner.blob != blob);
        owner = Some(whose);
        let mut here = Chunk {
            data: None,
            unsure: false,
            found: Bits::new(),
            groups: Groups::new(scan.volume.record()),
            stage: None,
        };
        if entry_at == Some(at) {
            if first {
                check_owner(scan, &map, &whose);
            }
            entry(scan, &map, whose, &mut here);
            map.advance();
        }
        while let Some(place) = next_block(scan, &mut blocks).await?
            && place_of(place) == at
        {
            one_block(scan, &blocks, whose, &mut here, place).await?;
            blocks.advance();
        }
        finish(scan, at, here);
    }
    Ok(())
}

fn place_of(place: BlockPlace) -> Place {
    (place.slot, place.blob, place.chunk)
}

async fn next_entry(scan: &mut Scan<'_>, map: &mut Cursor) -> Result<Option<Place>> {
    while map.fill(scan).await? {
        let Some((key, _)) = map.head() else { break };
        if let Some(Parsed::Map { blob, chunk }) = scan.keys.parse(key) {
            return Ok(Some((0, blob, chunk)));
        }
        scan.unknown(key);
        map.advance();
    }
    Ok(None)
}

async fn next_block(scan: &mut Scan<'_>, blocks: &mut Cursor) -> Result<Option<BlockPlace>> {
    while blocks.fill(scan).await? {
        let Some((key, _)) = blocks.head() else { break };
        if let Some(Parsed::Block(place)) = scan.keys.parse(key) {
            return Ok(Some(place));
        }
        scan.unknown(key);
        blocks.advance();
    }
    Ok(None)
}

async fn owner_of(scan: &mut Scan<'_>, blob: u64) -> Result<Owner> {
    let mut owner = Owner { blob, ..Owner::default() };
    let Some(at) = scan.table.owner(blob) else { return Ok(owner) };
    let Some(row) = scan.table.row(at).copied() else { return Ok(owner) };
    if row.has(flag::MAPPED | flag::DAMAGED) {
        owner.row = Some(at);
    }
    if row.has(flag::MAPPED)
        && let Some(inode) = scan.inode(row.ino).await?
    {
        owner.size = Some(inode.size);
        owner.trim_from = (inode.trim != 0).then_some(inode.trim_from);
    }
    Ok(owner)
}

fn check_owner(scan: &mut Scan<'_>, map: &Cursor, owner: &Owner) {
    if owner.row.is_none()
        && !scan.dropped.contains(&owner.blob)
        && let Some((key, _)) = map.head()
    {
        scan.found(MAP_UNOWNED, key, "no mapped file has this blob, and no job removes it");
    }
}

fn entry(scan: &mut Scan<'_>, map: &Cursor, owner: Owner, here: &mut Chunk) {
    let Some((key, value)) = map.head() else { return };
    let data = match MapEntry::decode(key, value) {
        Some(MapEntry::Data(data)) => data,
        Some(MapEntry::Zero) => return,
        None => {
            scan.damaged(key);
            (here.unsure, scan.bytes_unsure) = (true, true);
            if let Some(at) = owner.row {
                scan.table.change(at, |row| row.flags |= flag::UNSURE);
            }
            return;
        }
    };
    let record = scan.volume.record();
    let per_chunk = record.blocks_per_chunk();
    if data.allocated.is_empty() || data.allocated.iter().any(|block| block >= per_chunk) {
        let what = format!("names no block, or one that is not below {per_chunk}");
        scan.found(MAP_SHAPE, key, what);
    }
    let taken = u64::from(data.allocated.count()) * u64::from(record.block_bytes);
    scan.report.bytes += taken;
    if let Some(at) = owner.row {
        scan.table.change(at, |row| {
            if row.has(flag::MAPPED) {
                row.value = row.value.wrapping_sub(taken);
            }
        });
    }
    here.data = Some(data);
}

async fn one_block(
    scan: &mut Scan<'_>,
    blocks: &Cursor,
    owner: Owner,
    here: &mut Chunk,
    place: BlockPlace,
) -> Result<()> {
    let Some((key, value)) = blocks.head() else { return Ok(()) };
    if place.block & PARITY_BLOCK != 0 && place.generation == 0 && here.data.is_some() {
        here.groups.add(scan, key, value, place.block & !PARITY_BLOCK);
        return Ok(());
    }
    scan.report.blocks += u64::from(place.block & PARITY_BLOCK == 0);
    if here.unsure {
        return Ok(());
    }
    let block = u32::from(place.block);
    let generation = here.data.as_ref().and_then(|data| data.generation_of(block));
    if place.slot != 0 || generation != Some(place.generation) {
        if !is_removed(scan, here, place).await? {
            scan.found(BLOCK_UNNAMED, key, "no map entry names it, and no job removes it");
        }
        return Ok(());
    }
    here.found.set(block);
    if !scan.deep {
        return Ok(());
    }
    let record = scan.volume.record();
    let bytes = block::decode(&Bytes::copy_from_slice(value), key, record.block_bytes as usize);
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(damage) => {
            scan.found(BLOCK_DAMAGED, key, damage.to_string());
            return Ok(());
        }
    };
    here.groups.member(block, place.generation, value);
    let end = start_of(record, place).saturating_add(bytes.len() as u64);
    let trimmed = owner.trim_from.is_some_and(|from| place.chunk >= from);
    if !trimmed && owner.size.is_some_and(|size| end > size) {
        let size = owner.size.unwrap_or_default();
        let what = format!("ends at {end}, and the file at {size}");
        scan.found(BLOCK_BEHIND_END, key, what);
    }
    Ok(())
}

fn start_of(record: &VolumeRecord, place: BlockPlace) -> u64 {
    let geometry = Geometry::of(record);
    let chunk = place.chunk.saturating_mul(geometry.chunk_bytes);
    chunk.saturating_add(u64::from(place.block) * geometry.block_bytes)
}

/// Whether a block is one that a large write is storing, or has replaced.
async fn is_removed(scan: &mut Scan<'_>, here: &mut Chunk, place: BlockPlace) -> Result<bool> {
    let known = match &here.stage {
        Some((generation, job)) if *generation == place.generation => job.clone(),
        _ => scan.job(place.generation).await?,
    };
    here.stage = Some((place.generation, known));
    if let Some((_, Some(Job::Stage { slot, blob, next, end, .. }))) = &here.stage {
        let per_chunk = u64::from(scan.volume.record().blocks_per_chunk());
        let index = place.chunk.saturating_mul(per_chunk).saturating_add(place.block.into());
        if *slot == place.slot && *blob == place.blob && (*next..*end).contains(&index) {
            return Ok(true);
        }
    }
    let from = scan.sweeps.partition_point(|(blob, _)| *blob < place.blob);
    for at in from..scan.sweeps.len() {
        let Some((blob, id)) = scan.sweeps.get(at).copied() else { break };
        if blob != place.blob {
            break;
        }
        if let Some(Job::Sweep { slot, replaced, .. }) = scan.job(id).await?
            && slot == place.slot
            && replaced.iter().any(|(chunk, generation, bits)| {
                *chunk == place.chunk
                    && *generation == place.generation
                    && bits.has(place.block.into())
            })
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Looks for what a chunk should have and has not.
fn finish(scan: &mut Scan<'_>, at: Place, here: Chunk) {
    let (slot, blob, chunk) = at;
    let Some(data) = here.data else { return };
    for (generation, bits) in &data.layers {
        for block in bits.iter().filter(|block| !here.found.has(*block)) {
            let generation = *generation;
            let place = BlockPlace { slot, blob, chunk, block: block as u16, generation };
            let key = scan.keys.block(place);
            scan.found(BLOCK_MISSING, &key, "the map names it, and it is not stored");
        }
    }
    here.groups.finish(scan, at, &data, &here.found);
}

/// Compares what mapped files say that they take with what was counted.
pub(super) async fn space(scan: &mut Scan<'_>) -> Result<()> {
    for at in 0..scan.table.rows.len() {
        if let Some(row) = scan.table.row(at).copied()
            && row.has(flag::MAPPED)
            && !row.has(flag::UNSURE)
            && row.value != 0
        {
            let key = scan.keys.blocks(row.ino);
            let says = scan.get(&key).await?.as_deref().map_or(0, number);
            let takes = says.wrapping_sub(row.value);
            let what = format!("says {} bytes, and the file takes {takes}", says as i64);
            scan.found(INODE_SPACE, &key, what);
        }
    }
    Ok(())
}
