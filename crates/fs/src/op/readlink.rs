//! readlink: where a symbolic link points.

use crate::error::{Result, invalid};
use crate::session::{OpKind, Session};
use crate::types::{FileType, Ino};
use bytes::Bytes;

pub(super) const KIND: OpKind = OpKind::ReadOnly;

impl Session {
    /// The target of a symbolic link.
    pub async fn readlink(&self, ino: Ino) -> Result<Bytes> {
        self.view(|mut tx| async move {
            let inode = tx.inode_seen(ino).await?;
            if inode.file_type() != FileType::Symlink {
                return Err(invalid("this is no symbolic link"));
            }
            tx.session.note_read(ino, &inode, 0);
            Ok((tx, inode.target))
        })
        .await
    }
}
