//! getattr: what is known of an inode.

use crate::error::Result;
use crate::session::{OpKind, Session};
use crate::types::{Attr, Ino};

pub(super) const KIND: OpKind = OpKind::ReadOnly;

impl Session {
    /// What is known of an inode.
    pub async fn getattr(&self, ino: Ino) -> Result<Attr> {
        if let Some(attr) = self.known_attr(ino)? {
            return Ok(attr);
        }
        self.view(|mut tx| async move {
            let inode = tx.inode_seen(ino).await?;
            let attr = tx.attr(ino, &inode).await?;
            Ok((tx, attr))
        })
        .await
    }

    /// The same, without a transaction, of a directory that was just used: the kernel asks for it after
    /// every change in it.
    fn known_attr(&self, ino: Ino) -> Result<Option<Attr>> {
        let shared = &self.0;
        if !shared.private {
            return Ok(None);
        }
        shared.check_alive()?;
        let newest = shared.volume.world.store.engine().newest();
        let known = newest.and_then(|at| {
            shared.known.whole(at, ino, |inode, sides| shared.attr_of(ino, inode, sides))
        });
        known.transpose()
    }
}
