//! symlink: a name for a path.

use super::make::{New, make};
use crate::error::{Result, invalid, not_found, too_long};
use crate::session::{OpKind, Session};
use crate::types::{Attr, Caller, Ino, SYMLINK_BYTES_MAX, mode};
use bytes::Bytes;

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Makes a symbolic link to `target`.
    pub async fn symlink(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr> {
        if target.is_empty() {
            return Err(not_found("a symbolic link needs a target"));
        }
        if target.len() > SYMLINK_BYTES_MAX {
            return Err(too_long("the target of a symbolic link has at most 4095 bytes"));
        }
        if target.contains(&0) {
            return Err(invalid("the target of a symbolic link has no zero byte"));
        }
        let new = &New {
            mode: mode::SYMLINK | 0o777,
            target: Bytes::copy_from_slice(target),
            reserved: self.0.reserve().await?,
            ..New::default()
        };
        if let Some(attr) = self.make_quickly(caller, parent, name, new)? {
            return Ok(attr);
        }
        self.change(KIND, |mut tx| async move {
            let (ino, inode) = make(&mut tx, caller, parent, name, new).await?;
            let attr = tx.attr_with(ino, &inode, Default::default())?;
            Ok((tx, attr))
        })
        .await
    }
}
