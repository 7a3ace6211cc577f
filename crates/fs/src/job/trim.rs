//! Removing the chunks that a truncation cut off.

use super::STEP;
use crate::blob::remove_chunks;
use crate::error::Result;
use crate::schema::{Job, Parsed, Part};
use crate::tx::Tx;
use crate::types::Ino;
use kv::{Query, Read};

pub(super) async fn step(tx: &mut Tx, id: u64, ino: Ino, next: u64) -> Result<bool> {
    let job_key = tx.keys.job(id);
    let inode = tx.find_inode(ino, Read::Serializable).await?;
    let Some(mut inode) = inode.filter(|inode| inode.trim == id) else {
        // The inode has gone, or has a new blob: then another job has the chunks.
        tx.delete(&job_key)?;
        return Ok(false);
    };
    let query = Query::new(tx.keys.map_from(inode.blob, next)).limit(STEP);
    let page = tx.range(&query, Read::Serializable).await?;
    let freed = remove_chunks(tx, inode.slot, &page).await?;
    tx.count_space(ino, -freed);
    let last = page.last_key().and_then(|key| tx.keys.parse(&key));
    if let Some(Parsed::Map { chunk, .. }) = last
        && page.more
    {
        tx.put_job(id, &Job::Trim { ino, next: chunk + 1 })?;
        return Ok(true);
    }
    (inode.trim, inode.trim_from) = (0, 0);
    tx.put_inode(ino, &inode, &[Part::Data])?;
    tx.delete(&job_key)?;
    Ok(false)
}
