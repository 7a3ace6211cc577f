//! read: bytes of a file.

use crate::blob;
use crate::error::{Error, Result, bad_handle};
use crate::local::is_elsewhere;
use crate::schema::Form;
use crate::session::{OpKind, Session};
use crate::types::{Handle, Ino};
use bytes::Bytes;
use kv::Read;

pub(super) const KIND: OpKind = OpKind::ReadOnly;

/// The most bytes that one call reads; a longer one is answered with fewer.
const READ_BYTES_MAX: u64 = 32 << 20;

impl Session {
    /// The bytes from `offset` on, at most `len`; fewer at the end of the file.
    pub async fn read(&self, handle: Handle, offset: u64, len: usize) -> Result<Bytes> {
        let file = self.0.handles.file(handle)?;
        if !file.flags.read {
            return Err(bad_handle("the handle is not open for reading"));
        }
        let ino = file.ino;
        let len = (len as u64).min(READ_BYTES_MAX);
        loop {
            if let Some(local) = self.local_file(ino).await {
                return self.read_local(&local, offset, len).await;
            }
            match self.read_stored(ino, offset, len).await {
                Err(error) if error.is_moved() => {
                    self.open_local(ino).await?;
                }
                done => return done,
            }
        }
    }

    pub(crate) async fn read_stored(&self, ino: Ino, offset: u64, len: u64) -> Result<Bytes> {
        let found = self
            .view(|mut tx| async move {
                let inode = tx.inode_seen(ino).await?;
                if is_elsewhere(&tx.session, ino, &inode) {
                    return Err(Error::moved());
                }
                let found = blob::read(&mut tx, &inode, offset, len, Read::Snapshot).await?;
                if len > 0 {
                    let changed = match inode.form {
                        Form::Inline => 0,
                        Form::Mapped => tx.changed(ino).await?,
                        Form::Local => 0,
                    };
                    tx.session.note_read(ino, &inode, changed);
                }
                Ok((tx, found))
            })
            .await?;
        if !found.repairs.is_empty() {
            // The bytes are right, whether or not they could be written again.
            if let Err(error) = self.write_repairs(found.repairs).await {
                tracing::warn!(%error, ino, "a rebuilt block could not be written again");
            }
        }
        Ok(found.bytes)
    }
}
