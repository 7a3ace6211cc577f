//! flush, fsync, datasync, fsyncdir: when what was done survives the loss of power.

use crate::error::{Error, Result};
use crate::session::{OpKind, Session};
use crate::types::{DirHandle, Handle, Ino};
use kv::Durability;

pub(super) const KIND: OpKind = OpKind::Idempotent;

impl Session {
    /// Nothing waits in this session: every write that returned is in the store already.
    pub async fn flush(&self, handle: Handle) -> Result<()> {
        self.0.handles.file(handle).map(|_| ())
    }

    /// Makes a file's data and metadata survive the loss of power.
    pub async fn fsync(&self, handle: Handle) -> Result<()> {
        let file = self.0.handles.file(handle)?;
        self.flush_time(file.ino).await?;
        self.sync_file(file.ino, true).await
    }

    /// Makes a file's data survive the loss of power.
    pub async fn datasync(&self, handle: Handle) -> Result<()> {
        let file = self.0.handles.file(handle)?;
        self.sync_file(file.ino, false).await
    }

    /// `times`: those of its bytes too.
    async fn sync_file(&self, ino: Ino, times: bool) -> Result<()> {
        while let Some(local) = self.lent_file(ino).await {
            match self.sync_local(&local, times).await {
                // It grew meanwhile.
                Err(error) if error.is_moved() => {}
                done => {
                    done?;
                    break;
                }
            }
        }
        self.sync().await
    }

    /// Makes the names of a directory survive the loss of power.
    pub async fn fsyncdir(&self, handle: DirHandle) -> Result<()> {
        self.0.handles.dir(handle)?;
        self.sync().await
    }

    /// Makes all files, and everything else that was done, survive the loss of power.
    pub async fn sync_all(&self) -> Result<()> {
        self.sync_lent().await?;
        self.sync().await
    }

    /// Makes everything that was done in the store survive the loss of power.
    pub async fn sync(&self) -> Result<()> {
        self.0.check_alive()?;
        self.sync_store().await
    }

    pub(crate) async fn sync_store(&self) -> Result<()> {
        let store = &self.0.volume.world.store;
        // A transaction without changes, for the sake of the one retry loop.
        store
            .transact_send(Durability::Synced, |txn, _| async move { Ok::<_, Error>((txn, ())) })
            .await?;
        Ok(())
    }
}
