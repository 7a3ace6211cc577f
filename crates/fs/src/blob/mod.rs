//! The bytes of files: inline beside their inode, or mapped in chunks of blocks.

pub mod block;
mod chunk;
mod damage;
mod inline;
pub mod parity;
mod read;
pub(crate) mod repair;
mod space;
pub(crate) mod stage;
mod truncate;
mod write;

pub use damage::Damage;

pub(crate) use chunk::ChunkEdit;
pub(crate) use inline::{load as inline_bytes, store as put_inline, to_mapped};
pub(crate) use read::read;
pub(crate) use space::{allocate, next_entry, seek, taken_in, zero};
pub(crate) use truncate::{drop_data, remove_chunks, truncate};
pub(crate) use write::{patched, write};

use crate::schema::VolumeRecord;

/// Sizes of a volume's chunks and blocks, and where an offset falls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) chunk_bytes: u64,
    pub(crate) block_bytes: u64,
    pub(crate) inline_bytes_max: u64,
}

impl Geometry {
    pub(crate) fn of(record: &VolumeRecord) -> Self {
        Self {
            chunk_bytes: record.chunk_bytes.into(),
            block_bytes: record.block_bytes.into(),
            inline_bytes_max: record.inline_bytes_max.into(),
        }
    }

    pub(crate) fn blocks_per_chunk(&self) -> u32 {
        (self.chunk_bytes / self.block_bytes) as u32
    }

    /// The pieces of a range that lie in one chunk each: chunk, and the range in it.
    pub(crate) fn chunks(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let size = self.chunk_bytes;
        let first = start / size;
        let last = if end > start { (end - 1) / size + 1 } else { first };
        (first..last).map(move |chunk| {
            let base = chunk * size;
            (chunk, start.max(base) - base, end.min(base.saturating_add(size)) - base)
        })
    }

    /// The pieces of a range in a chunk that lie in one block each: block, and the range in it.
    pub(crate) fn blocks(&self, start: u64, end: u64) -> impl Iterator<Item = (u32, usize, usize)> {
        let size = self.block_bytes;
        let first = start / size;
        let last = if end > start { (end - 1) / size + 1 } else { first };
        (first..last).map(move |block| {
            let base = block * size;
            let from = (start.max(base) - base) as usize;
            (block as u32, from, (end.min(base + size) - base) as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_fall_into_chunks_and_blocks() {
        let geometry =
            Geometry { chunk_bytes: 1 << 20, block_bytes: 1 << 16, inline_bytes_max: 1 << 14 };
        let chunks: Vec<_> = geometry.chunks((1 << 20) - 1, (2 << 20) + 1).collect();
        assert_eq!(chunks, [(0, (1 << 20) - 1, 1 << 20), (1, 0, 1 << 20), (2, 0, 1)]);
        assert_eq!(geometry.chunks(5, 5).count(), 0);
        let blocks: Vec<_> = geometry.blocks(10, (1 << 16) + 1).collect();
        assert_eq!(blocks, [(0, 10, 1 << 16), (1, 0, 1)]);
        let last = geometry.chunks(i64::MAX as u64 - 1, i64::MAX as u64).last().unwrap();
        assert_eq!(last.0, (i64::MAX as u64) >> 20);
    }
}
