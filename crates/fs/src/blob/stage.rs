//! A write that does not fit one transaction: its blocks are written under a generation of their own,
//! which nothing refers to, and one transaction then makes all of them the file's. Readers see the
//! whole write or nothing of it.

use super::{ChunkEdit, Geometry, block, to_mapped};
use crate::error::{Error, Kind, Result, too_big};
use crate::schema::{Bits, BlockPlace, Form, Inode, Job, Part};
use crate::session::{OpKind, Session};
use crate::tx::Tx;
use crate::types::{Caller, FILE_BYTES_MAX, Ino};
use base::sync::Mutex;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// The most bytes that one call writes; a longer one is answered with a shorter count.
const STAGED_BYTES_MAX: u64 = 32 << 20;

/// Operations of a transaction that are not blocks: inode, counters, log, map entries.
const OTHER_OPS: usize = 40;
/// Their bytes.
const OTHER_BYTES: usize = 32 << 10;

/// How often an append starts again because the end of the file moved.
const APPEND_TRIES: usize = 16;

/// How many blocks fit one transaction.
fn blocks_at_once(session: &Session) -> u64 {
    let bounds = session.0.volume.world.store.capabilities();
    let block = session.0.volume.record.block_bytes as usize + 128;
    let by_bytes = bounds.txn_bytes_max.saturating_sub(OTHER_BYTES) / block;
    let by_ops = bounds.txn_ops_max.saturating_sub(OTHER_OPS);
    by_bytes.min(by_ops).max(1) as u64
}

/// Whether a write of `len` bytes fits one transaction, wherever it begins.
pub(crate) fn fits(session: &Session, len: u64) -> bool {
    let record = &session.0.volume.record;
    let mut blocks = len.div_ceil(record.block_bytes.into()) + 2;
    if record.parity_group > 0 {
        blocks += blocks.div_ceil(record.parity_group.into()) + 2;
    }
    blocks <= blocks_at_once(session)
}

/// The most bytes that one call writes on this store: the parity of staged blocks is written by the
/// transaction that publishes them.
pub(crate) fn bytes_max(session: &Session) -> u64 {
    let record = &session.0.volume.record;
    match u64::from(record.parity_group) {
        0 => STAGED_BYTES_MAX,
        group => {
            let groups = (blocks_at_once(session) / 2).saturating_sub(2).max(1);
            STAGED_BYTES_MAX.min(groups * group * u64::from(record.block_bytes))
        }
    }
}

/// The most bytes that surely fit one transaction.
pub(crate) fn fitting_bytes(session: &Session) -> u64 {
    let block = u64::from(session.0.volume.record.block_bytes);
    let mut len = STAGED_BYTES_MAX;
    while len > block && !fits(session, len) {
        len /= 2;
    }
    len
}

/// Jobs of a large write that is under way: nobody else of this session runs them until it ends, or
/// nobody waits for it any more.
struct Staging<'a> {
    session: &'a Session,
    jobs: Mutex<Vec<u64>>,
}

impl<'a> Staging<'a> {
    fn new(session: &'a Session) -> Self {
        Self { session, jobs: Mutex::default() }
    }

    fn add(&self, job: u64) {
        self.jobs.lock().push(job);
        self.session.0.staging.lock().insert(job);
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        let mut staging = self.session.0.staging.lock();
        for job in self.jobs.lock().drain(..) {
            staging.remove(&job);
        }
    }
}

/// Blocks that wait to become the file's.
struct Staged {
    job: u64,
    blob: u64,
    /// Counted from the blob's beginning; those that are missing are zeros.
    blocks: BTreeMap<u64, Bytes>,
    range: Range<u64>,
}

impl Session {
    /// Writes `bytes`, which do not fit one transaction. `None` as offset is the end of the file.
    /// Returns how many were written.
    pub(crate) async fn write_staged(
        &self,
        ino: Ino,
        offset: Option<u64>,
        bytes: &[u8],
        caller: &Caller,
    ) -> Result<u64> {
        for _ in 0..APPEND_TRIES {
            let inode = self.mapped(ino).await?;
            let at = offset.unwrap_or(inode.size);
            let room = FILE_BYTES_MAX.saturating_sub(at).min(bytes.len() as u64) as usize;
            let Some(bytes) = bytes.get(..room).filter(|bytes| !bytes.is_empty()) else {
                return Err(too_big("a file has at most 2^63-1 bytes"));
            };
            let staging = Staging::new(self);
            let staged = self.stage(&staging, &inode, at, bytes).await?;
            let append = offset.is_none();
            match self.publish(ino, &staged, at, append, bytes, caller).await {
                Ok(Some(count)) => return Ok(count),
                Ok(None) => self.unstage(staged.job).await?,
                Err(error) => {
                    // What cannot be removed now is removed by the background, or by others.
                    let _ = self.unstage(staged.job).await;
                    return Err(error);
                }
            }
        }
        // Others append all the time: at least a part of it gets in.
        let part = fitting_bytes(self).min(bytes.len() as u64) as usize;
        let part = bytes.get(..part).unwrap_or(bytes);
        self.write_once(ino, offset, part, caller).await
    }

    /// The inode, after making it mapped.
    async fn mapped(&self, ino: Ino) -> Result<Inode> {
        loop {
            let inode = self
                .view(|mut tx| async move {
                    let inode = tx.inode_seen(ino).await?;
                    Ok((tx, inode))
                })
                .await?;
            if inode.form == Form::Mapped {
                return Ok(inode);
            }
            if self.is_moving_to(ino, &inode, u64::MAX) {
                return Err(Error::moved());
            }
            self.change(OpKind::Idempotent, |mut tx| async move {
                let mut inode = tx.inode(ino).await?;
                if inode.form == Form::Inline {
                    to_mapped(&mut tx, ino, &mut inode).await?;
                    tx.put_inode(ino, &inode, &[Part::Data])?;
                }
                Ok((tx, ()))
            })
            .await?;
        }
    }

    /// Writes the blocks that `bytes` cover wholly under a generation of their own.
    async fn stage(
        &self,
        staging: &Staging<'_>,
        inode: &Inode,
        at: u64,
        bytes: &[u8],
    ) -> Result<Staged> {
        let geometry = Geometry::of(&self.0.volume.record);
        let size = geometry.block_bytes;
        let first = at.div_ceil(size);
        let end = ((at + bytes.len() as u64) / size).max(first);
        let (slot, blob, session) = (inode.slot, inode.blob, self.0.id);
        let job = self
            .change(OpKind::NeedsReplay, |mut tx| async move {
                let job = tx.fresh_job().await?;
                staging.add(job);
                let stage = Job::Stage { session, slot, blob, generation: job, next: first, end };
                tx.put_job(job, &stage)?;
                Ok((tx, job))
            })
            .await?;
        // Also when the number was read back from the op log.
        staging.add(job);
        let mut staged = Staged { job, blob, blocks: BTreeMap::new(), range: first..end };
        let per_chunk = u64::from(geometry.blocks_per_chunk());
        let codec = self.0.volume.record.codec;
        for index in first..end {
            let from = (index * size - at) as usize;
            let piece = bytes.get(from..from + size as usize).unwrap_or_default();
            if !block::is_zero(piece) {
                let place = place_of(slot, blob, index, per_chunk, job);
                let key = self.0.volume.keys.block(place);
                staged.blocks.insert(index, block::encode(piece, codec, &key).into());
            }
        }
        let all: Vec<(u64, Bytes)> =
            staged.blocks.iter().map(|(index, bytes)| (*index, bytes.clone())).collect();
        for batch in all.chunks(blocks_at_once(self) as usize) {
            self.change(OpKind::Idempotent, |mut tx| async move {
                // Without the job nobody would ever remove them.
                if tx.job(job).await?.is_none() {
                    return Err(Error::new(Kind::Io, "the job of a large write is gone"));
                }
                for (index, stored) in batch {
                    let key = tx.keys.block(place_of(slot, blob, *index, per_chunk, job));
                    tx.put(&key, stored.clone())?;
                }
                Ok((tx, ()))
            })
            .await?;
        }
        Ok(staged)
    }

    /// Makes the staged blocks the file's. `None` when the file is no longer what they were made for.
    async fn publish(
        &self,
        ino: Ino,
        staged: &Staged,
        at: u64,
        append: bool,
        bytes: &[u8],
        caller: &Caller,
    ) -> Result<Option<u64>> {
        self.change_data(OpKind::NeedsReplay, |mut tx| async move {
            let mut inode = tx.inode(ino).await?;
            let moved = append && inode.size != at;
            if inode.blob != staged.blob || inode.form != Form::Mapped || moved {
                return Ok((tx, None));
            }
            publish_in(&mut tx, ino, &mut inode, staged, at, bytes).await?;
            let mut parts = vec![Part::Data];
            if crate::access::drop_privileges(&mut inode, caller) {
                parts.push(Part::Access);
            }
            (inode.mtime, inode.ctime) = (tx.now, tx.now);
            tx.put_inode(ino, &inode, &parts)?;
            tx.touch(ino)?;
            Ok((tx, Some(bytes.len() as u64)))
        })
        .await
    }

    /// Removes blocks that did not become a file's.
    pub(crate) async fn unstage(&self, job: u64) -> Result<()> {
        while self.step_job(job).await? {}
        Ok(())
    }
}

async fn publish_in(
    tx: &mut Tx,
    ino: Ino,
    inode: &mut Inode,
    staged: &Staged,
    at: u64,
    bytes: &[u8],
) -> Result<()> {
    let geometry = Geometry::of(&tx.session.volume.record);
    let size = geometry.block_bytes;
    let end = at + bytes.len() as u64;
    super::write::wait_for_trim(inode, end, geometry)?;
    // The edges, which the write covers in part: they are not staged.
    let (head, tail) = (staged.range.start * size, staged.range.end * size);
    let mut replaced: Vec<(u64, u64, Bits)> = Vec::new();
    if staged.range.is_empty() {
        super::write(tx, ino, inode, at, bytes).await?;
    } else {
        let head_len = (head - at) as usize;
        if let Some(piece) = bytes.get(..head_len).filter(|piece| !piece.is_empty()) {
            super::write(tx, ino, inode, at, piece).await?;
        }
        for (chunk, from, to) in geometry.chunks(head, tail) {
            let mut edit = ChunkEdit::open(tx, inode, chunk).await?;
            for (block, _, _) in geometry.blocks(from, to) {
                let index = chunk * u64::from(geometry.blocks_per_chunk()) + u64::from(block);
                let stored = staged.blocks.get(&index).map(|stored| (staged.job, stored));
                if let Some(old) = edit.adopt(tx, block, stored).await? {
                    note_replaced(&mut replaced, chunk, old, block);
                }
            }
            edit.finish(tx, ino).await?;
        }
        inode.size = inode.size.max(tail);
        let tail_at = (tail - at) as usize;
        if let Some(piece) = bytes.get(tail_at..).filter(|piece| !piece.is_empty()) {
            super::write(tx, ino, inode, tail, piece).await?;
        }
    }
    // The blocks belong to the file now; what they replaced is swept away.
    if tx.job(staged.job).await?.is_none() {
        return Err(Error::again("the staged blocks were removed"));
    }
    if replaced.is_empty() {
        let key = tx.keys.job(staged.job);
        tx.delete(&key)
    } else {
        tx.put_job(staged.job, &Job::Sweep { slot: inode.slot, blob: inode.blob, replaced })
    }
}

fn note_replaced(replaced: &mut Vec<(u64, u64, Bits)>, chunk: u64, generation: u64, block: u32) {
    match replaced.iter_mut().find(|(at, of, _)| *at == chunk && *of == generation) {
        Some((_, _, bits)) => bits.set(block),
        None => replaced.push((chunk, generation, Bits::of(block..block + 1))),
    }
}

pub(crate) fn place_of(
    slot: u64,
    blob: u64,
    index: u64,
    per_chunk: u64,
    generation: u64,
) -> BlockPlace {
    BlockPlace {
        slot,
        blob,
        chunk: index / per_chunk,
        block: (index % per_chunk) as u16,
        generation,
    }
}
