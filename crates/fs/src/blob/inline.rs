//! Inline data: one record beside the inode.

use super::{ChunkEdit, block, chunk};
use crate::error::Result;
use crate::schema::{Form, Inode};
use crate::tx::{Tx, inline_space};
use crate::types::Ino;
use bytes::Bytes;
use kv::Read;

/// The data without the zeros at its end.
pub(crate) async fn load(tx: &mut Tx, inode: &Inode, read: Read) -> Result<Bytes> {
    if inode.inline_len == 0 {
        return Ok(Bytes::new());
    }
    let key = tx.keys.inline(inode.blob);
    let Some(stored) = tx.get(&key, read).await? else {
        return Err(tx.damaged(&key, "is missing"));
    };
    let bound = tx.session.volume.record.block_bytes as usize;
    match block::decode(&stored, &key, bound) {
        Ok(bytes) if bytes.len() == inode.inline_len as usize => Ok(bytes),
        Ok(_) => Err(tx.damaged(&key, "has another length than its inode says")),
        Err(damage) => Err(tx.damaged(&key, &damage.to_string())),
    }
}

/// Replaces the data; the caller writes the inode.
pub(crate) async fn store(tx: &mut Tx, inode: &mut Inode, data: &[u8]) -> Result<()> {
    let len = block::trimmed_len(data);
    let key = tx.keys.inline(inode.blob);
    let before = inline_space(inode.inline_len);
    if len > 0 {
        let data = data.get(..len).unwrap_or_default();
        tx.put(&key, block::encode(data, tx.session.volume.record.codec, &key))?;
    } else if inode.inline_len > 0 {
        tx.delete(&key)?;
    }
    inode.inline_len = len as u32;
    chunk::take_space(tx, inline_space(inode.inline_len) - before).await
}

/// Makes a file mapped; what it held inline becomes its first block. The caller writes the inode.
pub(crate) async fn to_mapped(tx: &mut Tx, ino: Ino, inode: &mut Inode) -> Result<()> {
    if inode.form == Form::Mapped {
        return Ok(());
    }
    let data = load(tx, inode, Read::Serializable).await?;
    store(tx, inode, &[]).await?;
    inode.form = Form::Mapped;
    if !data.is_empty() {
        let mut edit = ChunkEdit::open(tx, inode, 0).await?;
        edit.put(tx, 0, &data).await?;
        edit.finish(tx, ino).await?;
    }
    Ok(())
}
