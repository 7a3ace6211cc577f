//! Chunks whose map entry is damaged or gone, and whose blocks are there: what the entry was.

use super::finding::{BLOCK_UNNAMED, DAMAGED_RECORD};
use super::scan::Scan;
use crate::repair::Fix;
use crate::schema::{BlockPlace, Data};

/// Chunks of one file that are remembered until all of it was counted; of others blocks are not named
/// again.
const CHUNKS_MAX: usize = 1024;

/// The blocks of one chunk that nothing names.
#[derive(Debug, Default)]
pub(super) struct Nameless {
    data: Data,
    /// A block is there twice, under two generations: nobody knows which was the last.
    ambiguous: bool,
    places: Vec<BlockPlace>,
}

impl Nameless {
    pub(super) fn add(&mut self, place: BlockPlace) {
        let block = u32::from(place.block);
        self.ambiguous |= self.data.allocated.has(block);
        self.data.allocated.set(block);
        self.data.store(block, Some(place.generation));
        self.places.push(place);
    }

    /// Of a chunk whose entry is damaged: the entry is made again, if there is no doubt. Else it stays,
    /// and reading the chunk is an error.
    pub(super) fn replace(self, scan: &mut Scan<'_>, blob: u64, chunk: u64, per_chunk: u32) {
        if !self.ambiguous && self.data.allocated.iter().all(|block| block < per_chunk) {
            let data = self.data;
            scan.mend(DAMAGED_RECORD, |_| Fix::Map { blob, chunk, data });
        }
    }
}

/// Chunks of one file that have blocks and no entry.
#[derive(Debug, Default)]
pub(super) struct Lost {
    chunks: Vec<(u64, Nameless)>,
}

impl Lost {
    /// Takes a chunk's blocks, unless there are too many already.
    pub(super) fn add(&mut self, scan: &mut Scan<'_>, chunk: u64, nameless: Nameless) {
        match self.chunks.len() < CHUNKS_MAX && !nameless.ambiguous {
            true => self.chunks.push((chunk, nameless)),
            false => remove(scan, nameless),
        }
    }

    /// All of the file was counted, and `left` bytes of what it says it takes were not met. If that is
    /// what these chunks take they are its own, and it is told so; else they are nobody's.
    pub(super) fn settle(&mut self, scan: &mut Scan<'_>, blob: u64, left: u64) {
        let chunks = std::mem::take(&mut self.chunks);
        let record = scan.volume().record();
        let (bytes, per_chunk) = (u64::from(record.block_bytes), record.blocks_per_chunk());
        let blocks = chunks.iter().map(|(_, lost)| u64::from(lost.data.allocated.count())).sum();
        let fit =
            |(_, lost): &(u64, Nameless)| lost.data.allocated.iter().all(|block| block < per_chunk);
        let own = u64::checked_mul(blocks, bytes) == Some(left) && chunks.iter().all(fit);
        for (chunk, nameless) in chunks {
            if own {
                let data = nameless.data;
                scan.mend(BLOCK_UNNAMED, |_| Fix::Map { blob, chunk, data });
            } else {
                remove(scan, nameless);
            }
        }
    }
}

fn remove(scan: &mut Scan<'_>, nameless: Nameless) {
    for place in nameless.places {
        scan.mend(BLOCK_UNNAMED, |keys| Fix::Remove(keys.block(place)));
    }
}
