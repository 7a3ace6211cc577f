//! Removing staged blocks that did not become a file's.

use crate::blob::stage::place_of;
use crate::error::Result;
use crate::schema::Job;
use crate::tx::Tx;

/// Blocks that one step removes.
const BLOCKS: u64 = 64;

pub(super) fn step(tx: &mut Tx, id: u64, job: Job) -> Result<bool> {
    let Job::Stage { session, slot, blob, generation, next, end } = job else {
        return Ok(false);
    };
    let per_chunk = u64::from(tx.session.volume.record.blocks_per_chunk());
    let until = end.min(next.saturating_add(BLOCKS));
    for index in next..until {
        let key = tx.keys.block(place_of(slot, blob, index, per_chunk, generation));
        tx.delete(&key)?;
    }
    if until < end {
        tx.put_job(id, &Job::Stage { session, slot, blob, generation, next: until, end })?;
        return Ok(true);
    }
    let key = tx.keys.job(id);
    tx.delete(&key)?;
    Ok(false)
}
