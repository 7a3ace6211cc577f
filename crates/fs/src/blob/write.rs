//! Writing a range of a file in one transaction.

use super::{ChunkEdit, Geometry, inline};
use crate::error::{Error, Result};
use crate::schema::{Form, Inode};
use crate::tx::Tx;
use crate::types::Ino;
use kv::Read;

/// Writes `bytes` at `offset` and moves the end of the file when it lies before theirs. The caller
/// writes the inode.
pub(crate) async fn write(
    tx: &mut Tx,
    ino: Ino,
    inode: &mut Inode,
    offset: u64,
    bytes: &[u8],
) -> Result<()> {
    let geometry = Geometry::of(&tx.session.volume.record);
    let end = offset + bytes.len() as u64;
    if inode.form == Form::Inline && end.max(inode.size) <= geometry.inline_bytes_max {
        return write_inline(tx, inode, offset as usize, bytes).await;
    }
    wait_for_trim(inode, end, geometry)?;
    inline::to_mapped(tx, ino, inode).await?;
    let old_size = inode.size;
    let mut rest = bytes;
    for (chunk, from, to) in geometry.chunks(offset, end) {
        let mut edit = ChunkEdit::open(tx, inode, chunk).await?;
        for (block, from, to) in geometry.blocks(from, to) {
            let Some((piece, behind)) = rest.split_at_checked(to - from) else {
                break;
            };
            rest = behind;
            let block_start =
                chunk * geometry.chunk_bytes + u64::from(block) * geometry.block_bytes;
            // Nothing of the old block is left when what lies behind the piece is behind the end.
            let covers_end =
                block_start + to as u64 >= old_size || to as u64 == geometry.block_bytes;
            if from == 0 && covers_end {
                edit.put(tx, block, piece).await?;
            } else {
                edit.patch(tx, block, from, piece).await?;
            }
        }
        edit.finish(tx, ino).await?;
    }
    inode.size = inode.size.max(end);
    Ok(())
}

async fn write_inline(tx: &mut Tx, inode: &mut Inode, offset: usize, bytes: &[u8]) -> Result<()> {
    let end = offset + bytes.len();
    if offset == 0 && end as u64 >= inode.size {
        inline::store(tx, inode, bytes).await?;
    } else {
        let old = inline::load(tx, inode, Read::Serializable).await?;
        inline::store(tx, inode, &patched(&old, offset, bytes)).await?;
    }
    inode.size = inode.size.max(end as u64);
    Ok(())
}

/// `old` with `bytes` from `offset` on, and zeros between the two.
pub(crate) fn patched(old: &[u8], offset: usize, bytes: &[u8]) -> Vec<u8> {
    let end = offset + bytes.len();
    let mut whole = Vec::with_capacity(old.len().max(end));
    whole.extend_from_slice(old);
    if whole.len() < end {
        whole.resize(end, 0);
    }
    if let Some(part) = whole.get_mut(offset..end) {
        part.copy_from_slice(bytes);
    }
    whole
}

/// Chunks that a truncation cut off are still there: nothing may be written to them, nor may the file
/// grow over them, before they are gone.
pub(super) fn wait_for_trim(inode: &Inode, end: u64, geometry: Geometry) -> Result<()> {
    if inode.trim != 0 && end > inode.trim_from.saturating_mul(geometry.chunk_bytes) {
        return Err(Error::trimming(inode.trim));
    }
    Ok(())
}
