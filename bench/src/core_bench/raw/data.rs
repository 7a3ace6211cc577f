//! The transactions of bytes.

use super::records::stored;
use super::{BLOCK_BYTES, CHUNK_BYTES, Raw, keys, present};
use crate::core_bench::side::{INLINE_FILES, MAPPED_BYTES};
use crate::core_bench::work::SMALL_BYTES;
use crate::error::{Error, Result};
use fs::blob::block::OVERHEAD_BYTES;
use kv::{KeyRange, Read};
use std::hint::black_box;

/// Files with bytes in them, by their inodes.
#[derive(Debug)]
pub(super) struct Data {
    inline: Vec<u64>,
    mapped: u64,
}

/// Where an offset is: its chunk and its block there.
fn place(offset: u64) -> (u64, u16) {
    (offset / CHUNK_BYTES, (offset % CHUNK_BYTES / BLOCK_BYTES) as u16)
}

impl Raw {
    fn data(&self) -> Result<&Data> {
        self.data.get().ok_or_else(|| Error::new("no files with bytes were made"))
    }

    pub(super) fn make_data(&self) -> Result<()> {
        let inline: Vec<u64> = (0..INLINE_FILES).map(|_| self.fresh()).collect();
        for &ino in &inline {
            self.change(|mut txn| async move {
                txn.put(&keys::inode(ino), self.records.written.clone())?;
                txn.put(&keys::inline(ino), stored(self.noise.bytes(ino, SMALL_BYTES)))?;
                Ok((txn, ()))
            })?;
        }
        let mapped = self.fresh();
        self.change(|mut txn| async move {
            txn.put(&keys::inode(mapped), self.records.mapped.clone())?;
            txn.add(&keys::blocks(mapped), MAPPED_BYTES)?;
            for chunk in 0..MAPPED_BYTES / CHUNK_BYTES {
                txn.put(&keys::map(mapped, chunk), self.records.map.clone())?;
            }
            Ok((txn, ()))
        })?;
        self.data.set(Data { inline, mapped }).map_err(|_| Error::new("made twice"))?;
        for offset in (0..MAPPED_BYTES).step_by(BLOCK_BYTES as usize) {
            self.write(offset, BLOCK_BYTES as usize)?;
        }
        Ok(())
    }

    pub(super) fn write_inline(&self, index: u64) -> Result<()> {
        let ino = self.data()?.inline[index as usize];
        self.change(|mut txn| async move {
            let (inode, part) = (keys::inode(ino), KeyRange::point(&keys::part(ino, keys::DATA)));
            txn.read_conflict(&part)?;
            present(txn.get(&inode, Read::Snapshot).await?)?;
            present(txn.get(&inode, Read::Serializable).await?)?;
            let bytes = self.noise.bytes(self.now(), SMALL_BYTES);
            txn.put(&keys::inline(ino), stored(bytes))?;
            txn.write_conflict(&part)?;
            txn.put(&inode, self.records.written.clone())?;
            Ok((txn, ()))
        })
    }

    pub(super) fn read_inline(&self, index: u64) -> Result<()> {
        let ino = self.data()?.inline[index as usize];
        self.view(|mut txn| async move {
            present(txn.get(&keys::inode(ino), Read::Snapshot).await?)?;
            black_box(present(txn.get(&keys::inline(ino), Read::Snapshot).await?)?);
            Ok((txn, ()))
        })
    }

    /// Whole blocks, or a part of one.
    pub(super) fn write(&self, offset: u64, len: usize) -> Result<()> {
        let ino = self.data()?.mapped;
        self.change(|mut txn| async move {
            txn.read_conflict(&KeyRange::point(&keys::part(ino, keys::DATA)))?;
            present(txn.get(&keys::inode(ino), Read::Snapshot).await?)?;
            let (chunk, first) = place(offset);
            present(txn.get(&keys::map(ino, chunk), Read::Serializable).await?)?;
            let bytes = self.noise.bytes(self.now(), len);
            if len < BLOCK_BYTES as usize {
                let key = keys::block(ino, chunk, first);
                let mut block = present(txn.get(&key, Read::Serializable).await?)?.to_vec();
                let at = OVERHEAD_BYTES + (offset % BLOCK_BYTES) as usize;
                block[at..at + len].copy_from_slice(bytes);
                txn.put(&key, block)?;
            } else {
                for (block, piece) in (first..).zip(bytes.chunks(BLOCK_BYTES as usize)) {
                    txn.put(&keys::block(ino, chunk, block), stored(piece))?;
                }
            }
            txn.max(&keys::changed(ino), self.now())?;
            Ok((txn, ()))
        })
    }

    pub(super) fn read(&self, offset: u64, len: usize) -> Result<()> {
        let ino = self.data()?.mapped;
        self.view(|mut txn| async move {
            present(txn.get(&keys::inode(ino), Read::Snapshot).await?)?;
            let (chunk, first) = place(offset);
            present(txn.get(&keys::map(ino, chunk), Read::Snapshot).await?)?;
            for block in (first..).take(len.div_ceil(BLOCK_BYTES as usize)) {
                let key = keys::block(ino, chunk, block);
                black_box(present(txn.get(&key, Read::Snapshot).await?)?);
            }
            let sides: [&[u8]; 2] = [&keys::changed(ino), &keys::blocks(ino)];
            black_box(txn.get_many(&sides, Read::Snapshot).await?);
            Ok((txn, ()))
        })
    }
}
