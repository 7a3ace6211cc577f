//! The model's attributes: mode, owner, size, times, and the extended ones.

use super::tree::{Answered, Body, Model, READ, WRITE};
use crate::Kind;
use crate::types::{
    Attr, Caller, FILE_BYTES_MAX, Handle, Ino, NAME_BYTES_MAX, SetAttr, SetTime, Time,
    XATTR_BYTES_MAX, XattrMode, mode,
};
use bytes::Bytes;

/// Who an extended attribute is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    User,
    Trusted,
    Security,
    Unknown,
}

impl Model {
    /// `setattr` of the core. One that sets nothing changes nothing.
    pub fn setattr(
        &mut self,
        caller: &Caller,
        ino: Ino,
        set: &SetAttr,
        handle: Option<Handle>,
        now: Time,
    ) -> Answered<Attr> {
        self.inode(ino)?;
        if set.size.is_some() {
            self.may_resize(caller, ino, handle)?;
        }
        if set.size.is_some_and(|size| size > FILE_BYTES_MAX) {
            return Err(Kind::FileTooBig);
        }
        self.may_chown(caller, ino, set)?;
        if set.mode.is_some() {
            self.must_own(caller, ino)?;
        }
        match (set.atime, set.mtime) {
            (None, None) => {}
            (Some(SetTime::Now), Some(SetTime::Now)) => {
                let owns = self.must_own(caller, ino);
                owns.or_else(|_| self.may(caller, ino, WRITE))?;
            }
            _ => self.must_own(caller, ino)?,
        }

        if let Some(size) = set.size {
            self.sparse_mut(ino)?.resize(size);
            self.changed(caller, ino, now)?;
        }
        let is_directory = self.is_directory(ino);
        let inode = self.inode_mut(ino)?;
        if set.uid.is_some() || set.gid.is_some() {
            if !is_directory {
                inode.drop_set_id(caller);
            }
            inode.uid = set.uid.unwrap_or(inode.uid);
            inode.gid = set.gid.unwrap_or(inode.gid);
        }
        if let Some(wanted) = set.mode {
            let mut permissions = wanted & mode::PERMISSIONS;
            // Who has checked has taken the bit, too.
            let member = caller.is_privileged() || caller.is_in_group(inode.gid);
            if caller.checked_here && !member {
                permissions &= !mode::SETGID;
            }
            inode.mode = inode.mode & mode::TYPE | permissions;
        }
        let time = |wanted| match wanted {
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        inode.atime = set.atime.map_or(inode.atime, time);
        inode.mtime = set.mtime.map_or(inode.mtime, time);
        if *set != SetAttr::default() {
            inode.ctime = now;
        }
        self.getattr(ino)
    }

    /// Through a handle it is the handle that must be for writing, otherwise the mode decides.
    fn may_resize(&self, caller: &Caller, ino: Ino, handle: Option<Handle>) -> Answered<()> {
        match self.inode(ino)?.body {
            Body::File(_) => {}
            Body::Directory { .. } => return Err(Kind::IsDirectory),
            _ => return Err(Kind::Invalid),
        }
        match handle {
            Some(handle) if self.open_file(handle.0)?.write => Ok(()),
            Some(_) => Err(Kind::Invalid),
            None => self.may(caller, ino, WRITE),
        }
    }

    /// Only the superuser gives away; an owner may choose among the groups that it is in.
    fn may_chown(&self, caller: &Caller, ino: Ino, set: &SetAttr) -> Answered<()> {
        if caller.is_privileged() || !caller.checked_here {
            return Ok(());
        }
        let inode = self.inode(ino)?;
        let owns = caller.uid == inode.uid;
        let uid_stays = set.uid.is_none_or(|uid| owns && uid == inode.uid);
        let gid_fits =
            set.gid.is_none_or(|gid| owns && (gid == inode.gid || caller.is_in_group(gid)));
        if uid_stays && gid_fits { Ok(()) } else { Err(Kind::NotPermitted) }
    }

    /// `getxattr` of the core.
    pub fn getxattr(&self, caller: &Caller, ino: Ino, name: &[u8]) -> Answered<Bytes> {
        self.may_xattr(caller, ino, name, READ)?;
        self.inode(ino)?.xattrs.get(name).cloned().ok_or(Kind::NoAttribute)
    }

    /// `setxattr` of the core.
    pub fn setxattr(
        &mut self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: XattrMode,
        now: Time,
    ) -> Answered<()> {
        if name.len() <= NAME_BYTES_MAX && value.len() > XATTR_BYTES_MAX {
            return Err(Kind::TooBig);
        }
        self.may_xattr(caller, ino, name, WRITE)?;
        let inode = self.inode_mut(ino)?;
        match (how, inode.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Kind::Exists),
            (XattrMode::Replace, false) => return Err(Kind::NoAttribute),
            _ => {}
        }
        inode.xattrs.insert(Bytes::copy_from_slice(name), Bytes::copy_from_slice(value));
        inode.ctime = now;
        Ok(())
    }

    /// `listxattr` of the core: only the privileged see the trusted ones, and nobody checks that before.
    pub fn listxattr(&self, caller: &Caller, ino: Ino) -> Answered<Vec<Bytes>> {
        let seen = |name: &&Bytes| caller.is_privileged() || space_of(name).0 != Space::Trusted;
        Ok(self.inode(ino)?.xattrs.keys().filter(seen).cloned().collect())
    }

    /// `removexattr` of the core.
    pub fn removexattr(
        &mut self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
        now: Time,
    ) -> Answered<()> {
        self.may_xattr(caller, ino, name, WRITE)?;
        let inode = self.inode_mut(ino)?;
        inode.xattrs.remove(name).ok_or(Kind::NoAttribute)?;
        inode.ctime = now;
        Ok(())
    }

    fn may_xattr(&self, caller: &Caller, ino: Ino, name: &[u8], want: u32) -> Answered<()> {
        let inode = self.inode(ino)?;
        if check_xattr_name(name) == Err(Kind::Range) {
            return Err(Kind::Range);
        }
        let (space, _) = space_of(name);
        let writes = want == WRITE;
        let privileged = caller.is_privileged() || !caller.checked_here;
        let forbidden = if writes { Kind::NotPermitted } else { Kind::NoAttribute };
        match space {
            Space::User => {
                let is_directory = self.is_directory(ino);
                if !is_directory && !matches!(inode.body, Body::File(_)) {
                    return Err(forbidden);
                }
                if is_directory && inode.mode & mode::STICKY != 0 && writes {
                    self.must_own(caller, ino)?;
                }
                self.may(caller, ino, want)?;
            }
            Space::Trusted if !privileged => return Err(forbidden),
            Space::Security if writes && !privileged => return Err(Kind::NotPermitted),
            Space::Trusted | Space::Security => {}
            Space::Unknown => {
                self.may(caller, ino, want)?;
            }
        }
        check_xattr_name(name)
    }
}

/// What is wrong with the name of an extended attribute, whoever asks for it.
pub(super) fn check_xattr_name(name: &[u8]) -> Answered<()> {
    match (name.len(), space_of(name)) {
        (0, _) => Err(Kind::Range),
        (len, _) if len > NAME_BYTES_MAX => Err(Kind::Range),
        (_, (Space::Unknown, _)) => Err(Kind::Unsupported),
        (_, (_, [])) => Err(Kind::Invalid),
        _ => Ok(()),
    }
}

fn space_of(name: &[u8]) -> (Space, &[u8]) {
    for (prefix, space) in [
        (&b"user."[..], Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
    ] {
        if let Some(rest) = name.strip_prefix(prefix) {
            return (space, rest);
        }
    }
    (Space::Unknown, name)
}
