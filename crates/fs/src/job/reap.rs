//! Removing what a dead session has left: leases and locks by the list of what it held, then its op
//! log.

use super::STEP;
use crate::error::Result;
use crate::schema::{Job, Parsed};
use crate::tx::Tx;
use kv::{KeyRange, Query, Read};

pub(super) async fn step(tx: &mut Tx, id: u64, session: u64, next: u64) -> Result<bool> {
    let range = KeyRange { start: tx.keys.held(session, next), end: tx.keys.held_by(session).end };
    let page = tx.range(&Query::new(range).limit(STEP), Read::Serializable).await?;
    let mut last = None;
    for (key, _) in page.iter() {
        if let Some(Parsed::Held { ino, .. }) = tx.keys.parse(key) {
            let lease = tx.keys.lease(ino, session);
            tx.delete(&lease)?;
            let locks = tx.keys.locks_of(ino, session);
            tx.delete_range(&locks)?;
            last = Some(ino);
        }
        tx.delete(&kv::Key::new(key))?;
    }
    if let Some(ino) = last
        && page.more
    {
        tx.put_job(id, &Job::Reap { session, next: ino + 1 })?;
        return Ok(true);
    }
    let ops = tx.keys.ops(session);
    // Its own replies go with it, except the one that may be asked for still.
    if session != tx.session.id {
        tx.delete_range(&ops)?;
    }
    let key = tx.keys.job(id);
    tx.delete(&key)?;
    Ok(false)
}
