//! What unlink, rmdir and rename share: taking a name away, and removing an inode without names.

use crate::blob;
use crate::error::{Kind, Result};
use crate::local;
use crate::schema::{Form, Inode, Parsed, Part};
use crate::session::{OpKind, Session};
use crate::tx::Tx;
use crate::types::Ino;
use kv::{Query, Read};
use std::sync::atomic::Ordering;

/// What the garbage record of an inode says that lost its last name.
pub(super) const LOST: &[u8] = b"l";

/// Takes one name from an inode. When it was the last, the inode goes, now or when nobody has it
/// open any more. The caller removes the entry.
pub(crate) async fn drop_link(tx: &mut Tx, ino: Ino, mut inode: Inode) -> Result<()> {
    inode.nlink = inode.nlink.saturating_sub(1);
    inode.ctime = tx.now;
    if inode.nlink > 0 {
        return tx.put_inode(ino, &inode, &[]);
    }
    if may_go(tx, ino).await? {
        return remove(tx, ino, inode).await;
    }
    let key = tx.keys.garbage(ino);
    tx.put(&key, LOST)?;
    tx.put_inode(ino, &inode, &[Part::Access, Part::Parent])
}

/// Whether nobody has an inode open. On a private store it cannot be opened from here to the end of
/// the transaction; on a shared one opening it conflicts.
async fn may_go(tx: &mut Tx, ino: Ino) -> Result<bool> {
    match tx.session.open.doom_unless_held(ino) {
        None => return Ok(false),
        Some(doomed) => tx.doomed.push(doomed),
    }
    if tx.session.private {
        return Ok(true);
    }
    let leases = tx.keys.leases(ino);
    Ok(!tx.any(leases, Read::Serializable).await?)
}

/// Whether an inode is no directory and has nothing but its record and what is inline.
pub(super) fn is_plain(inode: &Inode) -> bool {
    !inode.is_dir() && inode.form == Form::Inline && !inode.xattrs && inode.nlink > 0
}

/// Removes an inode with all that it has.
async fn remove(tx: &mut Tx, ino: Ino, mut inode: Inode) -> Result<()> {
    local::give_up(tx, ino, &inode).await?;
    blob::drop_data(tx, &mut inode).await?;
    let key = tx.keys.inode(ino);
    tx.delete(&key)?;
    let mut parts = Vec::new();
    if inode.is_dir() {
        let (changed, subdirs) = (tx.keys.changed(ino), tx.keys.subdirs(ino));
        tx.delete(&changed)?;
        tx.delete(&subdirs)?;
        parts.extend([Part::Access, Part::Parent]);
    } else {
        if inode.form == Form::Mapped {
            let changed = tx.keys.changed(ino);
            tx.delete(&changed)?;
            tx.forget_space(ino)?;
            parts.push(Part::Data);
        }
        if !tx.session.private {
            parts.push(Part::Access);
        }
    }
    tx.change_parts(ino, &parts)?;
    if inode.xattrs {
        let xattrs = tx.keys.xattrs(ino);
        tx.delete_range(&xattrs)?;
    }
    tx.count_inodes(-1);
    Ok(())
}

impl Session {
    /// Removes an inode without names that nobody has open any more. True when it is gone.
    pub(crate) async fn collect(&self, ino: Ino) -> Result<bool> {
        let collected = self
            .change(OpKind::Idempotent, |mut tx| async move {
                tx.frees_space();
                let done = collect_in(&mut tx, ino).await?;
                Ok((tx, done))
            })
            .await?;
        if collected {
            self.0.counts.collected_inodes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(collected)
    }

    /// Some inodes without names, from a number on.
    pub(crate) async fn nameless_from(&self, first: Ino) -> Result<Vec<Ino>> {
        self.view(|mut tx| async move {
            let range =
                kv::KeyRange { start: tx.keys.garbage(first), end: tx.keys.all_garbage().end };
            let page = tx.range(&Query::new(range).limit(256), Read::Snapshot).await?;
            let inodes: Vec<Ino> = page
                .iter()
                .filter_map(|(key, _)| match tx.keys.parse(key) {
                    Some(Parsed::Garbage { ino }) => Some(ino),
                    _ => None,
                })
                .collect();
            Ok((tx, inodes))
        })
        .await
    }

    /// Looks at all inodes without names. Returns how many went.
    pub(crate) async fn collect_garbage(&self) -> Result<usize> {
        let mut collected = 0;
        let mut after = 0;
        loop {
            let found = self.nameless_from(after).await?;
            let Some(last) = found.last() else {
                return Ok(collected);
            };
            after = last + 1;
            for ino in found {
                match self.collect(ino).await {
                    // A damaged one must not keep all others from going.
                    Err(error) if error.kind() == Kind::Corrupt => {}
                    done => collected += usize::from(done?),
                }
                self.beat_if_due().await?;
            }
        }
    }
}

/// Removes an inode, if it has no name and no lease of a session that lives.
pub(crate) async fn collect_in(tx: &mut Tx, ino: Ino) -> Result<bool> {
    let garbage = tx.keys.garbage(ino);
    if tx.get(&garbage, Read::Serializable).await?.is_none() {
        return Ok(false);
    }
    let inode = tx.find_inode(ino, Read::Serializable).await?;
    let Some(inode) = inode.filter(|inode| inode.nlink == 0) else {
        // It has got a name again, as a nameless file can, or is gone.
        tx.delete(&garbage)?;
        return Ok(false);
    };
    match tx.session.open.doom(ino) {
        None => return Ok(false),
        Some(doomed) => tx.doomed.push(doomed),
    }
    if !tx.session.private {
        let leases = Query::new(tx.keys.leases(ino));
        let page = tx.range(&leases, Read::Serializable).await?;
        for (key, _) in page.iter() {
            let Some(Parsed::Lease { session, .. }) = tx.keys.parse(key) else {
                continue;
            };
            let session_key = tx.keys.session(session);
            if tx.get(&session_key, Read::Serializable).await?.is_some() {
                return Ok(false);
            }
            tx.delete(&kv::Key::new(key))?;
        }
        if page.more {
            return Ok(false);
        }
    }
    tx.delete(&garbage)?;
    remove(tx, ino, inode).await?;
    Ok(true)
}
