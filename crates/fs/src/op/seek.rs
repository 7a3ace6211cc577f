//! seek: where data or a hole begins.

use crate::blob;
use crate::error::Result;
use crate::session::{OpKind, Session};
use crate::types::{Handle, Seek};

pub(super) const KIND: OpKind = OpKind::ReadOnly;

impl Session {
    /// The first data or hole at or behind `offset`. The end of the file counts as a hole.
    pub async fn seek(&self, handle: Handle, offset: u64, what: Seek) -> Result<u64> {
        let ino = self.0.handles.file(handle)?.ino;
        self.view(|mut tx| async move {
            let inode = tx.inode_seen(ino).await?;
            let found = blob::seek(&mut tx, &inode, offset, what).await?;
            Ok((tx, found))
        })
        .await
    }
}
