//! seek: where data or a hole begins.

use crate::blob;
use crate::error::{Error, Result};
use crate::local::is_elsewhere;
use crate::session::{OpKind, Session};
use crate::types::{Handle, Ino, Seek};

pub(super) const KIND: OpKind = OpKind::ReadOnly;

impl Session {
    /// The first data or hole at or behind `offset`. The end of the file counts as a hole.
    pub async fn seek(&self, handle: Handle, offset: u64, what: Seek) -> Result<u64> {
        let ino = self.0.handles.file(handle)?.ino;
        loop {
            if let Some(local) = self.local_file(ino).await {
                return local.backed.seek(offset, what);
            }
            match self.seek_stored(ino, offset, what).await {
                Err(error) if error.is_moved() => {
                    self.open_local(ino).await?;
                }
                done => return done,
            }
        }
    }

    async fn seek_stored(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        self.view(|mut tx| async move {
            let inode = tx.inode_seen(ino).await?;
            if is_elsewhere(&tx.session, ino, &inode) {
                return Err(Error::moved());
            }
            let found = blob::seek(&mut tx, &inode, offset, what).await?;
            Ok((tx, found))
        })
        .await
    }
}
