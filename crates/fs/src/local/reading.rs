//! Reading a volume as a whole, as a dump does: files of the home as they belong to a snapshot of the store.

use super::pool::Backed;
use super::{Local, LocalFile, is_away};
use crate::error::{Result, corrupt};
use crate::schema::{BackingRecord, Form, Inode};
use crate::session::Shared;
use crate::tx::Tx;
use crate::types::Ino;
use kv::Read;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// While this is there no file that was given back is emptied or used again: what a snapshot that was begun
/// after it names is there. A file that is written to meanwhile is read as it is then.
#[derive(Debug)]
pub(crate) struct Kept {
    shared: Arc<Shared>,
    /// Files that were lent shortly before or after the snapshot.
    lent: BTreeMap<u64, Arc<LocalFile>>,
    by_inode: BTreeMap<Ino, Vec<u64>>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(local) = &self.shared.local {
            local.pool.keepers.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Kept {
    /// Begins, before the snapshot does; `None` without a local home.
    pub(crate) fn begin(shared: &Arc<Shared>) -> Option<Self> {
        let local = shared.local.as_ref()?;
        local.pool.keepers.fetch_add(1, Ordering::AcqRel);
        let (lent, by_inode) = (BTreeMap::new(), BTreeMap::new());
        let mut kept = Self { shared: Arc::clone(shared), lent, by_inode };
        kept.look();
        Some(kept)
    }

    fn local(&self) -> Option<&Local> {
        self.shared.local.as_ref()
    }

    /// Notes what is lent; once more after the snapshot has begun.
    pub(crate) fn look(&mut self) {
        for file in self.local().map(Local::all_lent).unwrap_or_default() {
            let (ino, blob) = (file.ino, file.backed.blob);
            if self.lent.insert(blob, file).is_none() {
                self.by_inode.entry(ino).or_default().push(blob);
            }
        }
    }

    /// The file in which the bytes of an inode of the snapshot are, if they are in one. The inode is made to
    /// say what the file says.
    pub(crate) async fn file_of(
        &self,
        tx: &mut Tx,
        ino: Ino,
        inode: &mut Inode,
    ) -> Result<Option<Arc<Backed>>> {
        for blob in self.by_inode.get(&ino).into_iter().flatten() {
            let key = tx.keys.backing(*blob);
            let record = tx.get(&key, Read::Snapshot).await?;
            let record = record.and_then(|record| BackingRecord::decode(&key, &record));
            if record.is_some_and(|record| record.ino == ino)
                && let Some(file) = self.lent.get(blob)
            {
                let stat = file.backed.file_error(|| file.backed.file.stat())?;
                file.note(inode, &stat);
                return Ok(Some(Arc::clone(&file.backed)));
            }
        }
        match (inode.form, self.local()) {
            (Form::Local, Some(local)) => {
                let backed = local.open_own(inode)?;
                let len = backed.file_error(|| backed.file.stat())?.len;
                if len < inode.size && self.is_short(ino, inode, len).await? {
                    let (blob, size) = (inode.blob, inode.size);
                    return Err(corrupt(format!(
                        "file {blob} of the local home has {len} bytes and not {size}: run fsck"
                    )));
                }
                // It may be written to by now.
                inode.size = len;
                Ok(Some(backed))
            }
            _ => Ok(None),
        }
    }

    /// Whether nobody can have cut a file since the snapshot: its inode still says so, and nobody is lent it.
    async fn is_short(&self, ino: Ino, inode: &Inode, len: u64) -> Result<bool> {
        let mut tx = Tx::view(&self.shared, self.shared.volume.world.store.begin().await?);
        let now = tx.find_inode(ino, Read::Snapshot).await?;
        let same = |now: Inode| now.form == Form::Local && now.blob == inode.blob && now.size > len;
        Ok(now.is_some_and(same) && !is_away(&self.shared, ino))
    }
}
