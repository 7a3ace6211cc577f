//! unlink: a name less.

use super::make::{check_writable, parent_dir};
use super::{name, remove};
use crate::access;
use crate::error::{Result, is_directory, not_found};
use crate::session::{OpKind, Session};
use crate::types::{Caller, FileType, Ino};
use kv::Read;

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Removes a name of something other than a directory.
    pub async fn unlink(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<()> {
        name::check(name)?;
        self.change(KIND, |mut tx| async move {
            let dir = parent_dir(&mut tx, caller, parent).await?;
            if name::is_dots(name) {
                return Err(is_directory("this is a directory"));
            }
            let Some(entry) = tx.entry(parent, name, Read::Serializable).await? else {
                return Err(not_found("there is no such name"));
            };
            check_writable(&mut tx, caller, parent, &dir).await?;
            let inode = tx.inode(entry.ino).await?;
            access::check_sticky(caller, &dir, &inode)?;
            if entry.file_type == FileType::Directory {
                return Err(is_directory("directories are removed by rmdir"));
            }
            tx.frees_space();
            tx.delete_entry(parent, name)?;
            tx.touch_dir(parent, 0)?;
            remove::drop_link(&mut tx, entry.ino, inode).await?;
            Ok((tx, ()))
        })
        .await
    }
}
