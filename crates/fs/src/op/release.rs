//! release: a handle less. The last one of an inode without names takes the inode with it.

use super::remove::collect_in;
use crate::error::{Kind, Result};
use crate::schema::Part;
use crate::session::{Last, OpKind, Session};
use crate::tx::Tx;
use crate::types::{Handle, Ino};
use kv::Read;
use std::sync::atomic::Ordering;

pub(super) const KIND: OpKind = OpKind::Idempotent;

impl Session {
    /// Closes a file.
    pub async fn release(&self, handle: Handle) -> Result<()> {
        let file = self.0.handles.take_file(handle)?;
        self.leave(file.ino).await
    }

    /// The client has closed a file that it had open [before this session](crate::SessionOptions::open_before).
    pub async fn release_before(&self, ino: Ino) -> Result<()> {
        self.leave(ino).await
    }

    /// One handle of an inode less.
    pub(crate) async fn leave(&self, ino: Ino) -> Result<()> {
        match self.0.open.leave(ino) {
            Some(last) => self.leave_last(ino, last).await,
            None => Ok(()),
        }
    }

    /// Does what calls that nobody waited for have left to do. What meets damage waits until that is
    /// mended, and does not keep the rest from being done.
    pub(crate) async fn leave_abandoned(&self) -> Result<()> {
        for _ in 0..self.0.open.abandoned() {
            let Some((ino, last)) = self.0.open.take_abandoned() else {
                break;
            };
            match self.leave_last(ino, last).await {
                Err(error) if error.kind() == Kind::Corrupt => {}
                left => left?,
            }
        }
        Ok(())
    }

    /// What the last handle of an inode has to do. The background goes on with it when it fails, or
    /// when nobody waits for it any more.
    pub(crate) async fn leave_last(&self, ino: Ino, last: Last) -> Result<()> {
        let mut leaving = Leaving { session: self, ino, last, done: false };
        // Before it goes, if it goes.
        self.note_habit(ino, last.made_in);
        leaving.last.made_in = None;
        if self.0.private {
            if last.locked {
                self.drop_locks(ino).await?;
            }
            if last.garbage {
                self.collect(ino).await?;
            }
        } else {
            self.drop_lease(ino, last).await?;
        }
        leaving.done = true;
        if let Some(local) = &self.0.local {
            local.closed(ino, self.0.volume.world.clock.now());
        }
        Ok(())
    }

    async fn drop_lease(&self, ino: Ino, last: Last) -> Result<()> {
        let collected = self
            .change(KIND, |mut tx| async move {
                tx.frees_space();
                let session = tx.session.id;
                let (lease, held) = (tx.keys.lease(ino, session), tx.keys.held(session, ino));
                tx.clear_number(&lease, last.generation)?;
                tx.clear_number(&held, last.generation)?;
                if last.locked {
                    free_locks(&mut tx, ino)?;
                }
                // Whoever takes the last name away looks at the leases; who gives up a lease looks at
                // the names. One of the two sees the other.
                tx.depend_on_part(ino, Part::Access)?;
                let inode = tx.find_inode(ino, Read::Snapshot).await?;
                let nameless = inode.is_some_and(|inode| inode.nlink == 0);
                let collected = nameless && collect_in(&mut tx, ino).await?;
                Ok((tx, collected))
            })
            .await?;
        if collected {
            self.0.counts.collected_inodes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn drop_locks(&self, ino: Ino) -> Result<()> {
        self.change(KIND, |mut tx| async move {
            tx.frees_space();
            if free_locks(&mut tx, ino)? {
                let held = tx.keys.held(tx.session.id, ino);
                tx.delete(&held)?;
            }
            Ok((tx, ()))
        })
        .await
    }
}

/// The last handle of an inode, on its way out.
struct Leaving<'a> {
    session: &'a Session,
    ino: Ino,
    last: Last,
    done: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.session.0.open.leave_later(self.ino, self.last);
        }
    }
}

/// Frees the locks that this session has on an inode, unless it was opened again: who did that may
/// have locked it by now, and frees them in its turn. True when they were freed.
fn free_locks(tx: &mut Tx, ino: Ino) -> Result<bool> {
    if tx.session.open.locked(ino) {
        return Ok(false);
    }
    let locks = tx.keys.locks_of(ino, tx.session.id);
    // A lock that comes before this commit was not looked for above.
    tx.depend_on(&locks)?;
    tx.delete_range(&locks)?;
    Ok(true)
}
