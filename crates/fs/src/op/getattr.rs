//! getattr: what is known of an inode.

use crate::error::Result;
use crate::session::{OpKind, Session};
use crate::types::{Attr, Ino};

pub(super) const KIND: OpKind = OpKind::ReadOnly;

impl Session {
    /// What is known of an inode.
    pub async fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.view(|mut tx| async move {
            let inode = tx.inode_seen(ino).await?;
            let attr = tx.attr(ino, &inode).await?;
            Ok((tx, attr))
        })
        .await
    }
}
