//! flush, fsync, datasync, fsyncdir: when what was done survives the loss of power.

use crate::error::{Error, Result};
use crate::local;
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

    /// Whether [`sync_then`](Self::sync_then) does all that fsync of a file has to.
    pub fn is_all_stored(&self, handle: Handle) -> bool {
        let shared = &*self.0;
        let Ok(file) = shared.handles.file(handle) else {
            return false;
        };
        // Its bytes may move right behind this: whoever moves them begins with what the store has of them.
        self.syncs_for_others() && !local::is_away(shared, file.ino) && !shared.times.has(file.ino)
    }

    /// Whether the store has a thread for [`sync_then`](Self::sync_then).
    pub fn syncs_for_others(&self) -> bool {
        self.0.volume.world.store.engine().syncs_for_others()
    }

    /// The same as [`sync`](Self::sync) for who does not wait: `done` is called on a thread of the store, which it must
    /// not hold up.
    pub fn sync_then(&self, done: impl FnOnce(Result<()>) + Send + 'static) {
        match self.0.check_alive() {
            Ok(()) => self
                .0
                .volume
                .world
                .store
                .engine()
                .sync_then(Box::new(move |outcome| done(outcome.map_err(Error::from)))),
            Err(error) => done(Err(error)),
        }
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
