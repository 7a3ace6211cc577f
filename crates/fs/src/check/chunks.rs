//! Chunks: map entries, the blocks that they name, and the space that files take.

use super::crew::Part;
use super::finding::{
    BLOCK_BEHIND_END, BLOCK_DAMAGED, BLOCK_MISSING, BLOCK_UNNAMED, DAMAGED_RECORD, INODE_SPACE,
    MAP_SHAPE, MAP_UNOWNED,
};
use super::lost_map::{Lost, Nameless};
use super::parity::Groups;
use super::scan::{Cursor, Scan};
use super::table::flag;
use crate::blob::{Geometry, block};
use crate::error::Result;
use crate::repair::Fix;
use crate::schema::{Bits, BlockPlace, Data, Job, MapEntry, PARITY_BLOCK, Parsed, VolumeRecord};
use crate::tx::number;
use crate::types::FILE_BYTES_MAX;
use kv::Key;
use std::sync::Arc;

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

impl Owner {
    /// Whether somebody can ask for the bytes of a chunk.
    fn needs(&self, chunk: u64) -> bool {
        self.row.is_some() && self.trim_from.is_none_or(|from| chunk < from)
    }
}

/// One chunk while its blocks are read.
struct Chunk {
    data: Option<Data>,
    /// There is an entry, also if it is damaged or goes.
    entry: bool,
    /// The map entry is damaged: nothing can be said of the blocks.
    unsure: bool,
    found: Bits,
    groups: Groups,
    /// The generation that no layer has which was last asked for, and the job that has its number.
    stage: Option<(u64, Option<Job>)>,
    nameless: Nameless,
}

/// Reads the map and the blocks of a part beside each other.
pub(super) async fn chunks(scan: &mut Scan<'_>, part: Part) -> Result<()> {
    let mut map = Cursor::new(part.map(&scan.keys));
    let mut blocks = Cursor::new(part.blocks(&scan.keys));
    let mut owner: Option<Owner> = None;
    let mut lost = Lost::default();
    loop {
        let entry_at = next_entry(scan, &mut map).await?;
        let block_at = next_block(scan, &mut blocks).await?.map(place_of);
        let at = entry_at.into_iter().chain(block_at).min();
        let blob = at.map(|(_, blob, _)| blob);
        if let Some(before) = owner.filter(|owner| Some(owner.blob) != blob) {
            settle(scan, &mut lost, before);
        }
        let (Some(at), Some(blob)) = (at, blob) else { break };
        let whose = match owner {
            Some(owner) if owner.blob == blob => owner,
            _ => owner_of(scan, blob, owner.and_then(|owner| owner.row)).await?,
        };
        let first = owner.is_none_or(|owner| owner.blob != blob);
        owner = Some(whose);
        let mut here = Chunk {
            data: None,
            entry: entry_at == Some(at),
            unsure: false,
            found: Bits::new(),
            groups: Groups::new(scan.volume().record()),
            stage: None,
            nameless: Nameless::default(),
        };
        if here.entry {
            check_owner(scan, &map, &whose, first);
            entry(scan, &map, whose, &mut here);
            map.advance();
        }
        while let Some(place) = next_block(scan, &mut blocks).await?
            && place_of(place) == at
        {
            one_block(scan, &blocks, whose, &mut here, place).await?;
            blocks.advance();
        }
        finish(scan, at, whose, here, &mut lost);
    }
    Ok(())
}

/// All chunks of a blob were read.
fn settle(scan: &mut Scan<'_>, lost: &mut Lost, owner: Owner) {
    let row = owner.row.and_then(|at| scan.ground.table.row(at));
    let left = row.filter(|row| row.has(flag::MAPPED)).map_or(0, |row| row.value);
    lost.settle(scan, owner.blob, left);
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

async fn owner_of(scan: &mut Scan<'_>, blob: u64, hint: Option<usize>) -> Result<Owner> {
    let mut owner = Owner { blob, ..Owner::default() };
    let table = &scan.ground.table;
    let Some(at) = table.owner_near(blob, hint.unwrap_or_default()) else { return Ok(owner) };
    let Some(row) = table.row(at) else { return Ok(owner) };
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

/// Looks whether somebody has the blob, or removes it.
fn check_owner(scan: &mut Scan<'_>, map: &Cursor, owner: &Owner, first: bool) {
    let blob = owner.blob;
    let Some((key, _)) = map.head() else { return };
    if owner.row.is_some() || scan.ground.is_dropped(blob) {
        return;
    }
    if first {
        scan.found(MAP_UNOWNED, key, "no mapped file has this blob, and no job removes it");
    }
    match scan.ground.is_taken(blob) {
        // Its file says that it is kept otherwise. What is named goes when the name has gone.
        true => scan.mend(MAP_UNOWNED, |_| Fix::Remove(Key::new(key))),
        // The inode is gone, and the bytes are not.
        false if first => scan.mend(MAP_UNOWNED, |_| Fix::Rescue(blob)),
        false => {}
    }
}

fn entry(scan: &mut Scan<'_>, map: &Cursor, owner: Owner, here: &mut Chunk) {
    let Some((key, value)) = map.head() else { return };
    let data = match MapEntry::decode(key, value) {
        Some(MapEntry::Data(data)) => data,
        Some(MapEntry::Zero) => return,
        None => {
            scan.damaged(key);
            (here.unsure, scan.found.bytes_unsure) = (true, true);
            if let Some(at) = owner.row {
                scan.ground.table.set(at, flag::UNSURE);
            }
            return;
        }
    };
    let record = scan.volume().record();
    let (block_bytes, per_chunk) = (u64::from(record.block_bytes), record.blocks_per_chunk());
    if data.allocated.is_empty() || data.allocated.iter().any(|block| block >= per_chunk) {
        let what = format!("names no block, or one that is not below {per_chunk}");
        scan.found(MAP_SHAPE, key, what);
        scan.mend(MAP_SHAPE, |_| Fix::Shape(Key::new(key)));
    }
    let taken = u64::from(data.allocated.count()) * block_bytes;
    scan.found.report.bytes += taken;
    let table = &scan.ground.table;
    if let Some(at) = owner.row
        && table.row(at).is_some_and(|row| row.has(flag::MAPPED))
    {
        table.take(at, taken);
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
    scan.found.report.blocks += u64::from(place.block & PARITY_BLOCK == 0);
    let parity = place.block & PARITY_BLOCK != 0;
    if here.unsure {
        if scan.mends() && !parity && place.slot == 0 && !is_removed(scan, here, place).await? {
            here.nameless.add(place);
        }
        return Ok(());
    }
    let block = u32::from(place.block);
    let generation = here.data.as_ref().and_then(|data| data.generation_of(block));
    if place.slot != 0 || generation != Some(place.generation) {
        if !is_removed(scan, here, place).await? {
            scan.found(BLOCK_UNNAMED, key, "no map entry names it, and no job removes it");
            match owner.row.is_some() && !here.entry && !parity && place.slot == 0 {
                true if scan.mends() => here.nameless.add(place),
                _ => scan.mend(BLOCK_UNNAMED, |_| Fix::Remove(Key::new(key))),
            }
        }
        return Ok(());
    }
    here.found.set(block);
    if !scan.deep {
        return Ok(());
    }
    let block_bytes = scan.volume().record().block_bytes as usize;
    let len = match block::verify(value, key, block_bytes) {
        Ok(len) => len as u64,
        Err(damage) => {
            scan.found(BLOCK_DAMAGED, key, damage.to_string());
            lost_block(scan, BLOCK_DAMAGED, owner, place);
            return Ok(());
        }
    };
    here.groups.member(block, place.generation, value);
    let end = start_of(scan.volume().record(), place).saturating_add(len);
    let trimmed = owner.trim_from.is_some_and(|from| place.chunk >= from);
    if !trimmed && owner.size.is_some_and(|size| end > size) {
        let size = owner.size.unwrap_or_default();
        let what = format!("ends at {end}, and the file at {size}");
        scan.found(BLOCK_BEHIND_END, key, what);
        let row = owner.row.and_then(|at| scan.ground.table.row(at));
        if let Some(ino) = row.map(|row| row.ino) {
            scan.mend(BLOCK_BEHIND_END, |_| match end <= FILE_BYTES_MAX {
                true => Fix::Size { ino, end },
                // No file can be so long.
                false => Fix::Block { place, needed: false },
            });
        }
    }
    Ok(())
}

/// A block that is damaged or missing: parity may rebuild it, and nobody else can.
fn lost_block(scan: &mut Scan<'_>, kind: &'static str, owner: Owner, place: BlockPlace) {
    let needed = owner.needs(place.chunk);
    if !needed || scan.volume().record().parity_group > 0 {
        scan.mend(kind, |_| Fix::Block { place, needed });
    }
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
        let per_chunk = u64::from(scan.volume().record().blocks_per_chunk());
        let index = place.chunk.saturating_mul(per_chunk).saturating_add(place.block.into());
        if *slot == place.slot && *blob == place.blob && (*next..*end).contains(&index) {
            return Ok(true);
        }
    }
    let ground = Arc::clone(&scan.ground);
    let from = ground.sweeps.partition_point(|(blob, _)| *blob < place.blob);
    for (blob, id) in ground.sweeps.iter().skip(from).copied() {
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
fn finish(scan: &mut Scan<'_>, at: Place, owner: Owner, here: Chunk, lost: &mut Lost) {
    let (slot, blob, chunk) = at;
    if here.unsure && scan.mends() {
        let per_chunk = scan.volume().record().blocks_per_chunk();
        match owner.needs(chunk) || !scan.ground.is_dropped(blob) && owner.row.is_none() {
            true => here.nameless.replace(scan, blob, chunk, per_chunk),
            false => scan.mend(DAMAGED_RECORD, |keys| Fix::Remove(keys.map(blob, chunk))),
        }
        return;
    }
    let Some(data) = here.data else {
        lost.add(scan, chunk, here.nameless);
        return;
    };
    for (generation, bits) in &data.layers {
        for block in bits.iter().filter(|block| !here.found.has(*block)) {
            let generation = *generation;
            let place = BlockPlace { slot, blob, chunk, block: block as u16, generation };
            let key = scan.keys.block(place);
            scan.found(BLOCK_MISSING, &key, "the map names it, and it is not stored");
            lost_block(scan, BLOCK_MISSING, owner, place);
        }
    }
    here.groups.finish(scan, at, &data, &here.found);
}

/// Compares what mapped files say that they take with what was counted.
pub(super) async fn space(scan: &mut Scan<'_>) -> Result<()> {
    let ground = Arc::clone(&scan.ground);
    for row in (0..ground.table.len()).filter_map(|at| ground.table.row(at)) {
        if row.has(flag::MAPPED) && !row.has(flag::UNSURE) && row.value != 0 {
            let key = scan.keys.blocks(row.ino);
            let says = scan.get(&key).await?.as_deref().map_or(0, number);
            let takes = says.wrapping_sub(row.value);
            let what = format!("says {} bytes, and the file takes {takes}", says as i64);
            scan.found(INODE_SPACE, &key, what);
            scan.mend(INODE_SPACE, |_| Fix::Space(row.ino));
            scan.write(false).await?;
        }
    }
    Ok(())
}
