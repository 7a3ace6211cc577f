//! Files whose bytes are in blocks of the store, as they are after a load, or since a mount that had no home: when
//! somebody had one open it becomes a whole file of the home, as new files are.
//!
//! Bytes first, map second: they are written to a new file and made durable, and one transaction, which has read
//! every one of them, puts that in the blocks' place. Whoever changes a byte meanwhile conflicts with it. Handles that
//! are open go on: they find the file by the record.

use super::pool::Backed;
use super::{Local, failed};
use crate::blob;
use crate::error::{Result, corrupt};
use crate::schema::{Form, Inode, Part};
use crate::session::{OpKind, Session};
use crate::tx::{Tx, number, time_of};
use crate::types::Ino;
use kv::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Larger files stay in blocks until they are written anew: copying them would hold up what else is settled.
const WHOLE_BYTES_MAX: u64 = 1 << 30;
/// Inodes that wait. More wait to be opened again.
const WAITING_MAX: usize = 4096;
/// Bytes that are read of the store at once.
const READ_AT_ONCE: u64 = 4 << 20;
/// A hole of this length stays one.
const HOLE_BYTES: usize = 4096;

impl Local {
    /// An inode that has its bytes in blocks is opened.
    pub(super) fn note_in_blocks(&self, ino: Ino) {
        let mut waiting = self.in_blocks.lock();
        if waiting.len() < WAITING_MAX && waiting.insert(ino) {
            self.any_in_blocks.store(true, Ordering::Release);
        }
    }

    /// Whether an inode waits to become whole.
    pub(super) fn is_in_blocks(&self, ino: Ino) -> bool {
        self.any_in_blocks.load(Ordering::Acquire) && self.in_blocks.lock().contains(&ino)
    }

    /// Whether its record says that it can be made whole.
    fn takes_whole(inode: &Inode, inline_max: u64) -> bool {
        inode.form == Form::Mapped && inode.size > inline_max && inode.size <= WHOLE_BYTES_MAX
    }
}

impl Session {
    /// Makes those whole that were open and are not any more. Returns how many.
    pub(super) async fn make_whole(&self, local: &Local) -> usize {
        if !self.0.lends || !local.any_in_blocks.load(Ordering::Acquire) {
            return 0;
        }
        let waiting: Vec<Ino> = local.in_blocks.lock().iter().copied().collect();
        let mut made = 0;
        // Who has one open closes it later.
        for ino in waiting.into_iter().filter(|ino| self.0.open.bar(*ino).is_some()) {
            local.in_blocks.lock().remove(&ino);
            match self.make_one_whole(local, ino).await {
                Ok(true) => made += 1,
                Ok(false) => {}
                Err(error) => tracing::info!(%error, ino, "a file stays in blocks"),
            }
            if self.is_ended() {
                break;
            }
        }
        let waiting = local.in_blocks.lock();
        local.any_in_blocks.store(!waiting.is_empty(), Ordering::Release);
        made
    }

    async fn make_one_whole(&self, local: &Local, ino: Ino) -> Result<bool> {
        let max = u64::from(self.0.volume.record.inline_bytes_max);
        if !Local::takes_whole(&self.inode_now(ino).await?, max) {
            return Ok(false);
        }
        let whole = self.take_new(local).await?;
        let taken = self
            .change(OpKind::Idempotent, |mut tx| {
                let whole = Arc::clone(&whole);
                async move {
                    let taken = take(&mut tx, local, ino, &whole, max).await?;
                    Ok((tx, taken))
                }
            })
            .await;
        match taken {
            Ok(true) => {
                // Whoever has read the record before, and looks for its blocks now, reads it again.
                local.settled.fetch_add(1, Ordering::AcqRel);
                self.attributes_changed(ino);
                Ok(true)
            }
            // Noted as nobody's, as it was.
            Ok(false) => {
                local.retire(whole.blob, Some(whole));
                Ok(false)
            }
            // A commit of which nobody knows ends the store for this process, and then no file is used again.
            Err(error) => {
                local.retire(whole.blob, Some(whole));
                Err(error)
            }
        }
    }
}

/// Copies the bytes of an inode to a file, and has its record name that. False when they are not in blocks.
async fn take(
    tx: &mut Tx,
    local: &Local,
    ino: Ino,
    whole: &Backed,
    inline_max: u64,
) -> Result<bool> {
    let inode = tx.find_inode(ino, Read::Serializable).await?;
    let Some(mut inode) = inode.filter(|inode| Local::takes_whole(inode, inline_max)) else {
        return Ok(false);
    };
    // Whoever writes changes it, also where the record stays as it is.
    let key = tx.keys.changed(ino);
    let changed = tx.get(&key, Read::Serializable).await?.as_deref().map_or(0, number);
    let write = |error| failed("write", whole.blob, &error);
    // It may have been begun before.
    whole.file.empty().map_err(write)?;
    let mut at = 0;
    while at < inode.size {
        let found = blob::read(tx, &inode, at, READ_AT_ONCE, Read::Serializable).await?;
        let mut to = at;
        for piece in found.bytes.chunks(HOLE_BYTES) {
            if !blob::block::is_zero(piece) {
                whole.file.write_at(piece, to).map_err(write)?;
            }
            to += piece.len() as u64;
        }
        if to == at {
            return Err(corrupt("a file has fewer bytes than its record says"));
        }
        at = to;
    }
    whole.file.truncate(inode.size).map_err(write)?;
    local.sync_whole(whole)?;
    let stat = whole.file_error(|| whole.file.stat())?;
    blob::drop_data(tx, &mut inode.clone()).await?;
    tx.delete(&key)?;
    tx.forget_space(ino)?;
    if changed != 0 {
        inode.mtime = time_of(changed);
        inode.ctime = inode.ctime.max(inode.mtime);
    }
    (inode.trim, inode.trim_from) = (0, 0);
    (inode.form, inode.blob, inode.taken) = (Form::Local, whole.blob, stat.taken);
    tx.count_bytes(stat.taken as i64);
    tx.delete_backing(whole.blob)?;
    tx.put_inode(ino, &inode, &[Part::Data])?;
    Ok(true)
}
