//! fallocate: space without bytes, holes, and zeros.

use crate::access;
use crate::blob::{self, next_entry};
use crate::error::{Error, Result, bad_handle, invalid, no_space, too_big};
use crate::schema::{Form, Inode, Part};
use crate::session::{OpKind, Session};
use crate::tx::Tx;
use crate::types::{Caller, FILE_BYTES_MAX, Fallocate, Handle, Ino};
use kv::Read;

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

/// Chunks that one step changes.
const CHUNKS: u64 = 8;
/// The most bytes that one call allocates: beyond it there surely is no room.
const ALLOCATED_BYTES_MAX: u64 = 1 << 40;

impl Session {
    /// Allocates, zeroes or frees a range. What is longer than a few chunks is done in steps, each of
    /// which is whole; the size changes with the last.
    pub async fn fallocate(
        &self,
        caller: &Caller,
        handle: Handle,
        what: Fallocate,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        let file = self.0.handles.file(handle)?;
        if len == 0 {
            return Err(invalid("a range has at least one byte"));
        }
        if !file.flags.write && !file.flags.append {
            return Err(bad_handle("the handle is not open for writing"));
        }
        let end = offset.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or_else(|| too_big("a file has at most 2^63-1 bytes"))?;
        let reach = if what == Fallocate::PunchHole { 0 } else { end };
        if let Some(local) = self.to_local(file.ino, Some(0), reach).await? {
            return self.fallocate_local(&local, caller, what, offset, len).await;
        }
        match self.fallocate_stored(caller, file.ino, what, offset, end).await {
            Err(error) if error.is_moved() => {
                let local = self.lend(file.ino, false).await?;
                self.fallocate_local(&local, caller, what, offset, len).await
            }
            done => done,
        }
    }

    async fn fallocate_stored(
        &self,
        caller: &Caller,
        ino: Ino,
        what: Fallocate,
        offset: u64,
        end: u64,
    ) -> Result<()> {
        let (grows, takes) = match what {
            Fallocate::Allocate { keep_size } | Fallocate::ZeroRange { keep_size } => {
                (!keep_size, true)
            }
            Fallocate::PunchHole => (false, false),
        };
        if takes && !self.has_room(ino, offset, end).await? {
            return Err(no_space("the volume has no room for this range"));
        }
        let step_bytes = u64::from(self.0.volume.record.chunk_bytes) * CHUNKS;
        let mut at = offset;
        while at < end {
            // To the next multiple of the step.
            let until = end.min((at / step_bytes + 1).saturating_mul(step_bytes));
            let last = until == end;
            let piece = Piece { what, start: at, end: until, grows: grows && last, last };
            at = self.fallocate_step(caller, ino, piece).await?.max(until);
        }
        Ok(())
    }

    /// Whether a range may fit: each step finds out exactly, but the first should know of the last.
    async fn has_room(&self, ino: Ino, start: u64, end: u64) -> Result<bool> {
        let stat = self.statfs().await?;
        let free = stat.blocks_free.saturating_mul(stat.block_bytes.into());
        if end - start <= free.min(ALLOCATED_BYTES_MAX) {
            return Ok(true);
        }
        if end - start > ALLOCATED_BYTES_MAX {
            return Ok(false);
        }
        // Some of it may have its space already.
        let taken = self
            .view(|mut tx| async move {
                let inode = tx.inode_seen(ino).await?;
                let taken = blob::taken_in(&mut tx, &inode, start, end).await?;
                Ok((tx, taken))
            })
            .await?;
        Ok((end - start).saturating_sub(taken) <= free)
    }

    /// One step; returns where to go on.
    async fn fallocate_step(&self, caller: &Caller, ino: Ino, piece: Piece) -> Result<u64> {
        self.change_data(KIND, |mut tx| async move {
            let mut inode = tx.inode(ino).await?;
            let reach = if piece.what == Fallocate::PunchHole { 0 } else { piece.end };
            if self.is_moving_to(ino, &inode, reach) {
                return Err(Error::moved());
            }
            if piece.what == Fallocate::PunchHole {
                tx.frees_space();
            }
            let next = apply(&mut tx, ino, &mut inode, piece).await?;
            let mut parts = vec![Part::Data];
            if piece.grows {
                inode.size = inode.size.max(piece.end);
            }
            if access::drop_privileges(&mut inode, caller) {
                parts.push(Part::Access);
            }
            (inode.mtime, inode.ctime) = (tx.now, tx.now);
            tx.put_inode(ino, &inode, &parts)?;
            if inode.form == Form::Mapped {
                tx.touch(ino)?;
            }
            Ok((tx, next))
        })
        .await
    }
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    what: Fallocate,
    start: u64,
    end: u64,
    grows: bool,
    last: bool,
}

async fn apply(tx: &mut Tx, ino: Ino, inode: &mut Inode, piece: Piece) -> Result<u64> {
    let Piece { what, start, end, .. } = piece;
    let small = end.max(inode.size) <= u64::from(tx.session.volume.record.inline_bytes_max);
    let inline = inode.form == Form::Inline && small;
    match what {
        // A small file is stored whole: there is nothing to take ahead.
        Fallocate::Allocate { .. } if inline => {}
        Fallocate::Allocate { .. } => blob::allocate(tx, ino, inode, start, end).await?,
        Fallocate::ZeroRange { .. } => {
            blob::zero(tx, ino, inode, start, end, true).await?;
            if !inline {
                blob::allocate(tx, ino, inode, start, end).await?;
            }
        }
        Fallocate::PunchHole => {
            blob::zero(tx, ino, inode, start, end, false).await?;
            if !piece.last {
                return skip_holes(tx, inode, end).await;
            }
        }
    }
    Ok(end)
}

/// Where the next chunk begins that is not a hole already.
async fn skip_holes(tx: &mut Tx, inode: &Inode, from: u64) -> Result<u64> {
    if inode.form == Form::Inline {
        return Ok(FILE_BYTES_MAX);
    }
    let chunk_bytes = u64::from(tx.session.volume.record.chunk_bytes);
    let next = next_entry(tx, inode.blob, from / chunk_bytes, Read::Snapshot).await?;
    Ok(next.map_or(FILE_BYTES_MAX, |(chunk, _)| from.max(chunk * chunk_bytes)))
}
