//! Numbers for inodes and blobs, in sequence, taken from the store in blocks. For a private store:
//! neighbours in time are neighbours in the store.

use super::{OpKind, Session, Shared};
use crate::error::{Error, Kind, Result};
use crate::tx::number;
use base::sync::Mutex;
use kv::Read;
use std::ops::Range;
use std::sync::Arc;

/// Numbers taken from the store at once. A crash loses what is left of them.
const BLOCK: u64 = 4096;

#[derive(Debug, Default)]
pub(super) struct Numbers(Mutex<Range<u64>>);

impl Numbers {
    /// The next number, if one was taken from the store already.
    pub(super) fn take_now(&self) -> Option<u64> {
        self.0.lock().next()
    }

    /// The next number.
    pub(super) async fn take(&self, shared: &Arc<Shared>) -> Result<u64> {
        loop {
            if let Some(number) = self.0.lock().next() {
                return Ok(number);
            }
            let block = reserve(shared).await?;
            let mut left = self.0.lock();
            // Two may have come here at once: the block that is not needed is given up.
            if left.is_empty() {
                *left = block;
            }
        }
    }
}

async fn reserve(shared: &Arc<Shared>) -> Result<Range<u64>> {
    let session = Session(Arc::clone(shared), None);
    let first = session
        .change(OpKind::Idempotent, |mut tx| async move {
            // One number in place of another; cutting a file to nothing needs one.
            tx.frees_space();
            let key = tx.keys.next_inode();
            let Some(next) = tx.get(&key, Read::Serializable).await? else {
                return Err(tx.damaged(&key, "is missing"));
            };
            let first = number(&next).max(crate::volume::FIRST_INODE);
            let end = first.checked_add(BLOCK).filter(|end| *end < 1 << 63).ok_or_else(|| {
                Error::new(Kind::NoSpace, "the volume has given out all of its inode numbers")
            })?;
            tx.put(&key, end.to_le_bytes().to_vec())?;
            Ok((tx, first))
        })
        .await?;
    Ok(first..first + BLOCK)
}
