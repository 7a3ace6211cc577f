//! link: one more name for an inode.

use super::make::{check_writable, parent_dir};
use super::{name, remove};
use crate::error::{Error, Kind, Result, exists, not_found, not_permitted};
use crate::local;
use crate::schema::{Entry, Part};
use crate::session::{OpKind, Session};
use crate::types::{Attr, Caller, Ino, LINKS_MAX};
use kv::Read;

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Gives an inode another name.
    pub async fn link(&self, caller: &Caller, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        if let Some(attr) = self.link_quickly(caller, ino, parent, name)? {
            return Ok(attr);
        }
        name::check(name)?;
        self.change(KIND, |mut tx| async move {
            let dir = parent_dir(&mut tx, caller, parent).await?;
            let taken =
                name::is_dots(name) || tx.entry(parent, name, Read::Serializable).await?.is_some();
            if taken {
                return Err(exists("the name is taken"));
            }
            check_writable(&mut tx, caller, parent, &dir).await?;
            let mut inode = tx.inode(ino).await?;
            if inode.is_dir() {
                return Err(not_permitted("a directory has one name"));
            }
            if inode.nlink >= LINKS_MAX {
                return Err(Error::new(Kind::TooManyLinks, "the inode has too many names"));
            }
            let mut parts = Vec::new();
            if inode.nlink == 0 {
                // A file that was made without a name may get one; one that lost its last may not.
                let garbage = tx.keys.garbage(ino);
                if tx.get(&garbage, Read::Serializable).await?.as_deref() != Some(NAMELESS) {
                    return Err(not_found("the inode has lost its last name"));
                }
                tx.delete(&garbage)?;
                parts.push(Part::Access);
            }
            inode.nlink += 1;
            inode.ctime = tx.now;
            tx.put_inode(ino, &inode, &parts)?;
            tx.put_entry(parent, name, Entry { ino, file_type: inode.file_type() })?;
            tx.touch_dir(parent, 0)?;
            let attr = tx.attr(ino, &inode).await?;
            Ok((tx, attr))
        })
        .await
    }

    /// The same the short way, of what is inline; `None` when nothing was done, and it has to be done the other way.
    pub fn link_quickly(
        &self,
        caller: &Caller,
        ino: Ino,
        parent: Ino,
        name: &[u8],
    ) -> Result<Option<Attr>> {
        let linking = || {
            let mut quick = self.quick(caller)?;
            name::check(name).ok().filter(|()| !name::is_dots(name))?;
            quick.dir(parent)?;
            if quick.entry(parent, name)?.is_some() {
                return None;
            }
            let mut inode = quick.inode(ino).filter(remove::is_plain)?;
            // One that is away has its size and times elsewhere.
            if inode.nlink >= LINKS_MAX || local::is_away(&self.0, ino) {
                return None;
            }
            inode.nlink += 1;
            inode.ctime = quick.now;
            quick.put_inode(ino, &inode);
            quick.put_entry(parent, name, Entry { ino, file_type: inode.file_type() });
            quick.touch_dir(parent, 0);
            let attr = self.0.attr_of(ino, &inode, Default::default()).ok()?;
            Some((quick, attr))
        };
        let Some((quick, attr)) = linking() else {
            return Ok(None);
        };
        Ok(quick.commit(&attr)?.map(|()| attr))
    }
}

/// What the garbage record of a file says that was made without a name.
pub(super) const NAMELESS: &[u8] = b"n";
