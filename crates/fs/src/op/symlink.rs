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
        if let Some(attr) = self.symlink_quickly(caller, parent, name, target)? {
            return Ok(attr);
        }
        let new = &New { reserved: self.0.reserve().await?, ..link_to(target) };
        self.change(KIND, |mut tx| async move {
            let (ino, inode) = make(&mut tx, caller, parent, name, new).await?;
            let attr = tx.attr_with(ino, &inode, Default::default())?;
            Ok((tx, attr))
        })
        .await
    }

    /// The same the short way; `None` when nothing was done, and it has to be done the other way.
    pub fn symlink_quickly(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<Option<Attr>> {
        check_target(target)?;
        let new = New { reserved: self.0.reserve_now(), ..link_to(target) };
        self.make_quickly(caller, parent, name, &new)
    }
}

fn link_to(target: &[u8]) -> New {
    let target = Bytes::copy_from_slice(target);
    New { mode: mode::SYMLINK | 0o777, target, ..New::default() }
}

fn check_target(target: &[u8]) -> Result<()> {
    if target.is_empty() {
        return Err(not_found("a symbolic link needs a target"));
    }
    if target.len() > SYMLINK_BYTES_MAX {
        return Err(too_long("the target of a symbolic link has at most 4095 bytes"));
    }
    if target.contains(&0) {
        return Err(invalid("the target of a symbolic link has no zero byte"));
    }
    Ok(())
}
