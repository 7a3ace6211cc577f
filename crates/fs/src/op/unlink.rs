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
        if self.unlink_quickly(caller, parent, name)?.is_some() {
            return Ok(());
        }
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

    /// The same the short way, of what is inline and nobody has open; `None` when nothing was done, and it has to be
    /// done the other way.
    pub fn unlink_quickly(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Option<()>> {
        let removing = || {
            let mut quick = self.quick(caller)?;
            name::check(name).ok().filter(|()| !name::is_dots(name))?;
            quick.dir(parent)?;
            let entry = quick.entry(parent, name)??;
            let mut inode = quick.inode(entry.ino).filter(remove::is_plain)?;
            quick.frees_space();
            quick.delete_entry(parent, name);
            quick.touch_dir(parent, 0);
            if inode.nlink > 1 {
                inode.nlink -= 1;
                inode.ctime = quick.now;
                quick.put_inode(entry.ino, &inode);
                return Some(quick);
            }
            quick.remove(entry.ino, &inode).then_some(quick)
        };
        removing().map_or(Ok(None), |quick| quick.commit(&()))
    }
}
