//! Removing blocks that a large write has replaced, unless they were written again since.

use crate::error::Result;
use crate::schema::{Bits, BlockPlace, Job, MapEntry};
use crate::tx::Tx;
use kv::Read;

/// Blocks that one step removes.
const BLOCKS: usize = 64;

pub(super) async fn step(
    tx: &mut Tx,
    id: u64,
    slot: u64,
    blob: u64,
    mut replaced: Vec<(u64, u64, Bits)>,
) -> Result<bool> {
    let mut left = BLOCKS;
    while left > 0
        && let Some((chunk, generation, bits)) = replaced.last_mut()
    {
        let entry = tx.map_entry(blob, *chunk, Read::Serializable).await?;
        for block in bits.iter().take(left).collect::<Vec<_>>() {
            bits.clear(block);
            left -= 1;
            if let Some(MapEntry::Data(data)) = &entry
                && data.generation_of(block) == Some(*generation)
            {
                continue;
            }
            let place = BlockPlace {
                slot,
                blob,
                chunk: *chunk,
                block: block as u16,
                generation: *generation,
            };
            let key = tx.keys.block(place);
            tx.delete(&key)?;
        }
        if bits.is_empty() {
            replaced.pop();
        }
    }
    if replaced.is_empty() {
        let key = tx.keys.job(id);
        tx.delete(&key)?;
        return Ok(false);
    }
    tx.put_job(id, &Job::Sweep { slot, blob, replaced })?;
    Ok(true)
}
