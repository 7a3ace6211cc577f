//! What create, mknod, mkdir, symlink and tmpfile share: a new inode in a directory.

use super::name;
use crate::access::{self, EXEC, WRITE};
use crate::error::{Error, Kind, Result, exists, not_directory, not_found};
use crate::schema::{Counter, Entry, Inode, Part};
use crate::session::{Quick, Session};
use crate::tx::Tx;
use crate::types::{Attr, Caller, FileType, Ino, mode};
use bytes::Bytes;
use kv::Read;

/// What is to be made.
#[derive(Debug, Clone, Default)]
pub(crate) struct New {
    /// Type and permission bits, before the umask.
    pub(crate) mode: u32,
    pub(crate) rdev: u32,
    pub(crate) target: Bytes,
    /// The number, where numbers are given out in sequence.
    pub(crate) reserved: Option<u64>,
}

/// A directory in which names are about to change: searchable, and not removed.
pub(crate) async fn parent_dir(tx: &mut Tx, caller: &Caller, ino: Ino) -> Result<Inode> {
    let parent = tx.inode_for(ino, Part::Access).await?;
    if !parent.is_dir() {
        return Err(not_directory("the parent is no directory"));
    }
    access::check(tx, caller, ino, &parent, EXEC).await?;
    Ok(parent)
}

/// The same, and it may get new names.
pub(crate) async fn check_writable(
    tx: &mut Tx,
    caller: &Caller,
    ino: Ino,
    parent: &Inode,
) -> Result<()> {
    if parent.nlink == 0 {
        return Err(not_found("the directory was removed"));
    }
    access::check(tx, caller, ino, parent, WRITE | EXEC).await
}

/// Makes an inode with a name. The name must be free.
pub(crate) async fn make(
    tx: &mut Tx,
    caller: &Caller,
    parent_ino: Ino,
    name: &[u8],
    new: &New,
) -> Result<(Ino, Inode)> {
    name::check(name)?;
    let parent = parent_dir(tx, caller, parent_ino).await?;
    let taken =
        name::is_dots(name) || tx.entry(parent_ino, name, Read::Serializable).await?.is_some();
    if taken {
        return Err(exists("the name is taken"));
    }
    make_at(tx, caller, parent_ino, &parent, name, new).await
}

/// Makes an inode with a name that was found free.
pub(crate) async fn make_at(
    tx: &mut Tx,
    caller: &Caller,
    parent_ino: Ino,
    parent: &Inode,
    name: &[u8],
    new: &New,
) -> Result<(Ino, Inode)> {
    check_writable(tx, caller, parent_ino, parent).await?;
    let (ino, inode) = new_inode(tx, caller, parent_ino, parent, new, 1).await?;
    tx.put_new_inode(ino, &inode)?;
    tx.put_entry(parent_ino, name, Entry { ino, file_type: inode.file_type() })?;
    tx.touch_dir(parent_ino, i64::from(inode.is_dir()))?;
    Ok((ino, inode))
}

/// A new inode, whose record the caller writes.
pub(crate) async fn new_inode(
    tx: &mut Tx,
    caller: &Caller,
    parent_ino: Ino,
    parent: &Inode,
    new: &New,
    nlink: u32,
) -> Result<(Ino, Inode)> {
    let file_type = FileType::of_mode(new.mode)
        .ok_or_else(|| Error::new(Kind::Invalid, "the mode has no type that can be made"))?;
    check_room(tx).await?;
    let ino = tx.fresh(new.reserved).await?;
    let mut bits = bits_of(caller, parent, new, file_type);
    let lists = if parent.default_acl && file_type != FileType::Symlink {
        access::load(tx, parent_ino, access::DEFAULT_ACL).await?
    } else {
        None
    };
    let gid = group_of(caller, parent);
    let mut inode = Inode::new(ino, file_type.mode(), caller.uid, gid, tx.now);
    match lists {
        // The list takes the place of the umask.
        Some(list) => {
            let from = list.inherit(bits, file_type == FileType::Directory);
            bits = from.mode & mode::PERMISSIONS;
            for (name, acl) in
                [(access::ACCESS_ACL, &from.access), (access::DEFAULT_ACL, &from.default)]
            {
                if let Some(acl) = acl {
                    super::xattr::store(tx, ino, name, &acl.encode())?;
                    inode.xattrs = true;
                }
            }
            inode.access_acl = from.access.is_some();
            inode.default_acl = from.default.is_some();
        }
        None if file_type != FileType::Symlink => bits &= !(caller.umask & 0o777),
        None => {}
    }
    complete(&mut inode, parent_ino, new, bits, nlink);
    Ok((ino, inode))
}

/// The group of a new inode.
fn group_of(caller: &Caller, parent: &Inode) -> u32 {
    if parent.mode & mode::SETGID != 0 { parent.gid } else { caller.gid }
}

/// The permission bits that it is to have, before the umask or a list takes some.
fn bits_of(caller: &Caller, parent: &Inode, new: &New, file_type: FileType) -> u32 {
    let inherits = parent.mode & mode::SETGID != 0;
    let mut bits = new.mode & mode::PERMISSIONS;
    let strips = bits & (mode::SETGID | 0o010) == mode::SETGID | 0o010
        && inherits
        && file_type != FileType::Directory
        && !caller.is_privileged()
        && !caller.is_in_group(group_of(caller, parent));
    if strips {
        bits &= !mode::SETGID;
    }
    if inherits && file_type == FileType::Directory {
        bits |= mode::SETGID;
    }
    bits
}

/// What its record says beside.
fn complete(inode: &mut Inode, parent_ino: Ino, new: &New, bits: u32, nlink: u32) {
    inode.mode |= bits;
    inode.nlink = nlink;
    inode.rdev = new.rdev;
    inode.size = new.target.len() as u64;
    inode.target = new.target.clone();
    if inode.is_dir() {
        inode.parent = parent_ino;
    }
}

/// Makes an inode with a name the short way; `None` when the name is not free, or anything is out of the ordinary.
pub(crate) fn make_quickly(
    quick: &mut Quick<'_>,
    caller: &Caller,
    parent_ino: Ino,
    name: &[u8],
    new: &New,
) -> Option<(Ino, Inode)> {
    let ino = new.reserved.filter(|_| !name::is_dots(name) && !quick.has_bounds())?;
    let parent = quick.dir(parent_ino).filter(|parent| !parent.default_acl)?;
    if quick.entry(parent_ino, name)?.is_some() {
        return None;
    }
    let file_type = FileType::of_mode(new.mode)?;
    let mut bits = bits_of(caller, &parent, new, file_type);
    if file_type != FileType::Symlink {
        bits &= !(caller.umask & 0o777);
    }
    let gid = group_of(caller, &parent);
    let mut inode = Inode::new(ino, file_type.mode(), caller.uid, gid, quick.now);
    complete(&mut inode, parent_ino, new, bits, 1);
    quick.put_new_inode(ino, &inode);
    quick.put_entry(parent_ino, name, Entry { ino, file_type });
    quick.touch_dir(parent_ino, i64::from(inode.is_dir()));
    Some((ino, inode))
}

async fn check_room(tx: &mut Tx) -> Result<()> {
    let bound = tx.session.volume.record.inodes_max;
    if bound > 0 && tx.total(Counter::Inodes).await? >= bound {
        return Err(Error::new(Kind::NoSpace, "the volume has as many inodes as it may have"));
    }
    Ok(())
}

impl Session {
    /// Makes an inode with a name, and nothing else. `None` when that has to be done in a transaction.
    pub(super) fn make_quickly(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        new: &New,
    ) -> Result<Option<Attr>> {
        name::check(name)?;
        let Some(mut quick) = self.quick(caller) else {
            return Ok(None);
        };
        let Some((ino, inode)) = make_quickly(&mut quick, caller, parent, name, new) else {
            return Ok(None);
        };
        let attr = self.0.attr_of(ino, &inode, Default::default())?;
        Ok(quick.commit(&attr)?.map(|()| attr))
    }
}
