//! opendir and releasedir.

use crate::access::{self, READ};
use crate::error::{Result, not_directory};
use crate::schema::Part;
use crate::session::{OpKind, Session};
use crate::types::{Caller, DirHandle, Ino};

pub(super) const KIND: OpKind = OpKind::Idempotent;

impl Session {
    /// Opens a directory.
    pub async fn opendir(&self, caller: &Caller, ino: Ino) -> Result<DirHandle> {
        let entered = self.enter(ino).await;
        let held = self
            .hold(ino, entered.lease, |mut tx| async move {
                let inode = tx.inode_for(ino, Part::Access).await?;
                if !inode.is_dir() {
                    return Err(not_directory("this is no directory"));
                }
                access::check(&mut tx, caller, ino, &inode, READ).await?;
                Ok((tx, ()))
            })
            .await;
        entered.keep_if(held.and_then(|()| self.0.handles.add_dir(ino))).await
    }

    /// Closes a directory.
    pub async fn releasedir(&self, handle: DirHandle) -> Result<()> {
        let dir = self.0.handles.take_dir(handle)?;
        self.leave(dir.ino).await
    }
}
