//! rmdir: an empty directory less.

use super::make::{check_writable, parent_dir};
use super::{name, remove};
use crate::access;
use crate::error::{Result, invalid, not_directory, not_empty, not_found};
use crate::session::{OpKind, Session};
use crate::types::{Caller, FileType, Ino};
use kv::Read;

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Removes an empty directory.
    pub async fn rmdir(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<()> {
        if self.rmdir_quickly(caller, parent, name)?.is_some() {
            return Ok(());
        }
        name::check(name)?;
        self.change(KIND, |mut tx| async move {
            let dir = parent_dir(&mut tx, caller, parent).await?;
            match name {
                b"." => return Err(invalid("a directory cannot be removed as .")),
                b".." => return Err(not_empty("a directory cannot be removed as ..")),
                _ => {}
            }
            let Some(entry) = tx.entry(parent, name, Read::Serializable).await? else {
                return Err(not_found("there is no such name"));
            };
            check_writable(&mut tx, caller, parent, &dir).await?;
            let inode = tx.inode(entry.ino).await?;
            access::check_sticky(caller, &dir, &inode)?;
            if entry.file_type != FileType::Directory {
                return Err(not_directory("this is no directory"));
            }
            // The whole range is read: a name that appears in it meanwhile is a conflict.
            let entries = tx.keys.entries(entry.ino);
            if tx.any(entries, Read::Serializable).await? {
                return Err(not_empty("the directory has entries"));
            }
            tx.frees_space();
            tx.delete_entry(parent, name)?;
            tx.touch_dir(parent, -1)?;
            remove::drop_link(&mut tx, entry.ino, inode).await?;
            Ok((tx, ()))
        })
        .await
    }

    /// The same the short way, of what has nothing beside and nobody has open; `None` when nothing was done, and it has
    /// to be done the other way.
    pub fn rmdir_quickly(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Option<()>> {
        let removing = || {
            let mut quick = self.quick(caller)?;
            name::check(name).ok().filter(|()| !name::is_dots(name))?;
            quick.dir(parent)?;
            let entry = quick.entry(parent, name)??;
            let inode = quick.inode(entry.ino)?;
            if !inode.is_dir() || inode.xattrs || inode.nlink == 0 || !quick.is_empty(entry.ino) {
                return None;
            }
            quick.frees_space();
            quick.delete_entry(parent, name);
            quick.touch_dir(parent, -1);
            quick.remove_dir(entry.ino).then_some(quick)
        };
        removing().map_or(Ok(None), |quick| quick.commit(&()))
    }
}
