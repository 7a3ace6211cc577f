//! Removing a blob that nothing names any more.

use super::STEP;
use crate::blob::remove_chunks;
use crate::error::Result;
use crate::schema::{Job, Parsed};
use crate::tx::Tx;
use kv::{Query, Read};

pub(super) async fn step(tx: &mut Tx, id: u64, slot: u64, blob: u64, next: u64) -> Result<bool> {
    let query = Query::new(tx.keys.map_from(blob, next)).limit(STEP);
    let page = tx.range(&query, Read::Serializable).await?;
    remove_chunks(tx, slot, &page).await?;
    let last = page.last_key().and_then(|key| tx.keys.parse(&key));
    if let Some(Parsed::Map { chunk, .. }) = last
        && page.more
    {
        tx.put_job(id, &Job::DropBlob { slot, blob, next: chunk + 1 })?;
        return Ok(true);
    }
    let key = tx.keys.job(id);
    tx.delete(&key)?;
    Ok(false)
}
