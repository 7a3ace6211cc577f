//! Cutting a file short, or making it longer, and giving up all of its data.

use super::write::wait_for_trim;
use super::{ChunkEdit, Geometry, inline};
use crate::error::{Result, too_big};
use crate::schema::{Bits, Data, Form, Inode, Job, MapEntry, Parsed};
use crate::tx::Tx;
use crate::types::{FILE_BYTES_MAX, Ino};
use kv::{Query, Read};

/// Chunks that are removed in the transaction itself; more are a job.
pub(crate) const CHUNKS_AT_ONCE: usize = 16;

/// Generations of one chunk whose blocks are removed in the transaction itself. Large writes that
/// overlap can leave as many generations as the chunk has blocks, and a transaction has a bound.
pub(crate) const GENERATIONS_AT_ONCE: usize = 3;

/// Sets the size. `fresh` is a number for a new blob, where numbers are reserved. The caller writes
/// the inode.
pub(crate) async fn truncate(
    tx: &mut Tx,
    ino: Ino,
    inode: &mut Inode,
    size: u64,
    fresh: Option<u64>,
) -> Result<()> {
    if size > FILE_BYTES_MAX {
        return Err(too_big("a file has at most 2^63-1 bytes"));
    }
    let geometry = Geometry::of(&tx.session.volume.record);
    if inode.form == Form::Inline {
        if size > geometry.inline_bytes_max {
            inline::to_mapped(tx, ino, inode).await?;
        } else if size < u64::from(inode.inline_len) {
            let data = inline::load(tx, inode, Read::Serializable).await?;
            let kept = data.slice(..size as usize);
            inline::store(tx, inode, &kept).await?;
        }
    } else if size == 0 {
        let old = inode.clone();
        inode.blob = tx.fresh(fresh).await?;
        inode.form = Form::Inline;
        inode.inline_len = 0;
        (inode.trim, inode.trim_from) = (0, 0);
        drop_blob(tx, &old).await?;
        let changed = tx.keys.changed(ino);
        tx.delete(&changed)?;
        tx.forget_space(ino)?;
    } else if size < inode.size {
        shrink(tx, ino, inode, size, geometry).await?;
    } else if size > inode.size {
        wait_for_trim(inode, size, geometry)?;
    }
    inode.size = size;
    Ok(())
}

async fn shrink(
    tx: &mut Tx,
    ino: Ino,
    inode: &mut Inode,
    size: u64,
    geometry: Geometry,
) -> Result<()> {
    let (last, at) = (size / geometry.chunk_bytes, size % geometry.chunk_bytes);
    let first_dead = if at == 0 { last } else { last + 1 };
    // A trim that is under way goes on below, from a chunk that is not behind its own.
    if inode.trim != 0 && first_dead < inode.trim_from {
        let job = inode.trim;
        inode.trim_from = first_dead;
        tx.put_job(job, &Job::Trim { ino, next: first_dead })?;
    } else if inode.trim == 0 {
        let query = Query::new(tx.keys.map_from(inode.blob, first_dead)).limit(CHUNKS_AT_ONCE + 1);
        let page = tx.range(&query, Read::Serializable).await?;
        if page.len() > CHUNKS_AT_ONCE {
            let job = tx.fresh_job().await?;
            (inode.trim, inode.trim_from) = (job, first_dead);
            tx.put_job(job, &Job::Trim { ino, next: first_dead })?;
        } else {
            let freed = remove_chunks(tx, inode.slot, &page).await?;
            tx.count_space(ino, -freed);
        }
    }
    if at != 0 && tx.map_entry(inode.blob, last, Read::Serializable).await?.is_some() {
        let mut edit = ChunkEdit::open(tx, inode, last).await?;
        let first = (at / geometry.block_bytes) as u32;
        let cut = (at % geometry.block_bytes) as usize;
        if cut != 0 {
            edit.zero(tx, first, cut, usize::MAX).await?;
        }
        let dead = if cut == 0 { first } else { first + 1 };
        edit.clear_run(tx, dead..geometry.blocks_per_chunk(), false).await?;
        edit.finish(tx, ino).await?;
    }
    Ok(())
}

/// Removes the chunks of a page of the map, with their blocks; returns the bytes that they took.
pub(crate) async fn remove_chunks(tx: &mut Tx, slot: u64, page: &kv::Page) -> Result<i64> {
    let mut freed = 0;
    for (key, value) in page.iter() {
        let key = kv::Key::new(key);
        let Some(Parsed::Map { blob, chunk }) = tx.keys.parse(&key) else {
            continue;
        };
        let data = match MapEntry::decode(&key, value) {
            Some(MapEntry::Data(data)) => data,
            Some(MapEntry::Zero) => Data::default(),
            None => return Err(tx.damaged(&key, "is damaged")),
        };
        freed += i64::from(data.allocated.count());
        // Only what the entry names: others may be staging blocks for this chunk. Parity stands
        // under generation 0.
        let mut later = data.layers;
        later.retain(|(generation, _)| *generation != 0);
        if later.len() > GENERATIONS_AT_ONCE {
            sweep_later(tx, slot, blob, chunk, std::mem::take(&mut later)).await?;
        }
        for generation in later.iter().map(|(generation, _)| *generation).chain([0]) {
            let blocks = tx.keys.blocks_of(slot, blob, chunk, generation);
            tx.delete_range(&blocks)?;
        }
        tx.delete(&key)?;
    }
    freed *= i64::from(tx.session.volume.record.block_bytes);
    tx.count_bytes(-freed);
    Ok(freed)
}

/// Leaves the removal of a chunk's blocks, by generation, to a job. The map must not name them any
/// more when the transaction commits.
pub(crate) async fn sweep_later(
    tx: &mut Tx,
    slot: u64,
    blob: u64,
    chunk: u64,
    blocks: impl IntoIterator<Item = (u64, Bits)>,
) -> Result<()> {
    let replaced = blocks.into_iter().map(|(generation, bits)| (chunk, generation, bits)).collect();
    let job = tx.fresh_job().await?;
    tx.put_job(job, &Job::Sweep { slot, blob, replaced })
}

/// Gives up a mapped blob: a job removes it.
async fn drop_blob(tx: &mut Tx, inode: &Inode) -> Result<()> {
    if inode.trim != 0 {
        let key = tx.keys.job(inode.trim);
        tx.delete(&key)?;
    }
    let job = tx.fresh_job().await?;
    tx.put_job(job, &Job::DropBlob { slot: inode.slot, blob: inode.blob, next: 0 })
}

/// Gives up all data of an inode that is being removed.
pub(crate) async fn drop_data(tx: &mut Tx, inode: &mut Inode) -> Result<()> {
    match inode.form {
        Form::Inline if inode.inline_len > 0 => inline::store(tx, inode, &[]).await,
        Form::Inline => Ok(()),
        Form::Mapped => drop_blob(tx, inode).await,
        // Its file is given back apart.
        Form::Local => Ok(()),
    }
}
