//! The model's namespace: looking up, making, linking and removing names.

use super::tree::{Answered, Body, Model, SEARCH, WRITE, check_name, is_dots};
use crate::Kind;
use crate::types::{Attr, Caller, FileType, Ino, LINKS_MAX, SYMLINK_BYTES_MAX, Time, mode};
use bytes::Bytes;

impl Model {
    /// `lookup` of the core.
    pub fn lookup(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Answered<Attr> {
        self.step_into(caller, parent)?;
        match name {
            b"." => self.getattr(parent),
            b".." => self.getattr(self.parent(parent).ok_or(Kind::NotDirectory)?),
            _ => {
                check_name(name)?;
                self.getattr(self.child(parent, name).ok_or(Kind::NotFound)?)
            }
        }
    }

    /// `mknod` of the core.
    pub fn mknod(
        &mut self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
        rdev: u32,
        now: Time,
    ) -> Answered<Attr> {
        let file_type = match mode & mode::TYPE {
            0 => FileType::File,
            _ => FileType::of_mode(mode).ok_or(Kind::Invalid)?,
        };
        match file_type {
            FileType::Directory => return Err(Kind::NotPermitted),
            FileType::Symlink => return Err(Kind::Invalid),
            _ => {}
        }
        self.may_add(caller, parent, name)?;
        let is_whiteout = file_type == FileType::Character && rdev == 0;
        let is_device = matches!(file_type, FileType::Character | FileType::Block);
        if is_device && !is_whiteout && !caller.is_privileged() && caller.checked_here {
            return Err(Kind::NotPermitted);
        }
        let ino = self.make(caller, parent, file_type, mode, now)?;
        if is_device {
            self.inode_mut(ino)?.rdev = rdev;
        }
        self.add(parent, name, ino, now)?;
        self.getattr(ino)
    }

    /// `mkdir` of the core.
    pub fn mkdir(
        &mut self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
        now: Time,
    ) -> Answered<Attr> {
        self.may_add(caller, parent, name)?;
        let ino = self.make(caller, parent, FileType::Directory, mode & 0o1777, now)?;
        self.add(parent, name, ino, now)?;
        self.getattr(ino)
    }

    /// `symlink` of the core.
    pub fn symlink(
        &mut self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        target: &[u8],
        now: Time,
    ) -> Answered<Attr> {
        match target.len() {
            0 => return Err(Kind::NotFound),
            len if len > SYMLINK_BYTES_MAX => return Err(Kind::NameTooLong),
            _ => {}
        }
        self.may_add(caller, parent, name)?;
        let ino = self.make(caller, parent, FileType::Symlink, 0o777, now)?;
        self.inode_mut(ino)?.body = Body::Symlink(Bytes::copy_from_slice(target));
        self.add(parent, name, ino, now)?;
        self.getattr(ino)
    }

    /// `readlink` of the core.
    pub fn readlink(&self, ino: Ino) -> Answered<Bytes> {
        match &self.inode(ino)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Kind::Invalid),
        }
    }

    /// `link` of the core.
    pub fn link(
        &mut self,
        caller: &Caller,
        ino: Ino,
        parent: Ino,
        name: &[u8],
        now: Time,
    ) -> Answered<Attr> {
        self.inode(ino)?;
        self.may_add(caller, parent, name)?;
        if self.is_directory(ino) {
            return Err(Kind::NotPermitted);
        }
        let inode = self.inode_mut(ino)?;
        if inode.nlink == 0 && !inode.linkable {
            return Err(Kind::NotFound);
        }
        if inode.nlink >= LINKS_MAX {
            return Err(Kind::TooManyLinks);
        }
        inode.linkable = false;
        inode.nlink += 1;
        inode.ctime = now;
        self.add(parent, name, ino, now)?;
        self.getattr(ino)
    }

    /// `unlink` of the core.
    pub fn unlink(&mut self, caller: &Caller, parent: Ino, name: &[u8], now: Time) -> Answered<()> {
        self.step_into(caller, parent)?;
        if is_dots(name) {
            return Err(Kind::IsDirectory);
        }
        check_name(name)?;
        let ino = self.child(parent, name).ok_or(Kind::NotFound)?;
        self.may_remove(caller, parent, ino)?;
        if self.is_directory(ino) {
            return Err(Kind::IsDirectory);
        }
        self.remove(parent, name, now)?;
        self.drop_link(ino, now)
    }

    /// `rmdir` of the core.
    pub fn rmdir(&mut self, caller: &Caller, parent: Ino, name: &[u8], now: Time) -> Answered<()> {
        self.step_into(caller, parent)?;
        match name {
            b"." => return Err(Kind::Invalid),
            b".." => return Err(Kind::NotEmpty),
            _ => check_name(name)?,
        }
        let ino = self.child(parent, name).ok_or(Kind::NotFound)?;
        self.may_remove(caller, parent, ino)?;
        if !self.names(ino)?.is_empty() {
            return Err(Kind::NotEmpty);
        }
        self.remove(parent, name, now)?;
        self.drop_link(ino, now)
    }

    pub(super) fn child(&self, parent: Ino, name: &[u8]) -> Option<Ino> {
        self.names(parent).ok()?.get(name).copied()
    }

    /// Whether the caller may make this name, which must be new.
    pub(super) fn may_add(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Answered<()> {
        self.step_into(caller, parent)?;
        if is_dots(name) {
            return Err(Kind::Exists);
        }
        check_name(name)?;
        if self.child(parent, name).is_some() {
            return Err(Kind::Exists);
        }
        self.may_change(caller, parent)
    }

    /// Whether the caller may put names into a directory, which must not be removed itself.
    pub(super) fn may_change(&self, caller: &Caller, parent: Ino) -> Answered<()> {
        if self.inode(parent)?.nlink == 0 {
            return Err(Kind::NotFound);
        }
        self.may(caller, parent, WRITE | SEARCH)
    }

    /// Whether the caller may take the name of `ino` away.
    pub(super) fn may_remove(&self, caller: &Caller, parent: Ino, ino: Ino) -> Answered<()> {
        self.may(caller, parent, WRITE | SEARCH)?;
        let dir = self.inode(parent)?;
        if dir.mode & mode::STICKY != 0 && caller.uid != dir.uid {
            self.must_own(caller, ino)?;
        }
        Ok(())
    }

    /// Makes a name, with all that this means for the directory, but not for what is named.
    pub(super) fn add(&mut self, parent: Ino, name: &[u8], ino: Ino, now: Time) -> Answered<()> {
        self.names_mut(parent)?.insert(Bytes::copy_from_slice(name), ino);
        if let Body::Directory { parent: above, .. } = &mut self.inode_mut(ino)?.body {
            *above = parent;
            self.inode_mut(parent)?.nlink += 1;
        }
        self.inode_mut(parent)?.contents_changed(now);
        Ok(())
    }

    /// Takes a name away, with all that this means for the directory, but not for what was named.
    pub(super) fn remove(&mut self, parent: Ino, name: &[u8], now: Time) -> Answered<Ino> {
        let ino = self.names_mut(parent)?.remove(name).ok_or(Kind::NotFound)?;
        if self.is_directory(ino) {
            self.inode_mut(parent)?.nlink -= 1;
        }
        self.inode_mut(parent)?.contents_changed(now);
        Ok(ino)
    }

    /// What has lost a name: a directory its only one.
    pub(super) fn drop_link(&mut self, ino: Ino, now: Time) -> Answered<()> {
        let is_directory = self.is_directory(ino);
        let inode = self.inode_mut(ino)?;
        inode.nlink = if is_directory { 0 } else { inode.nlink - 1 };
        inode.ctime = now;
        self.forget_unless_used(ino);
        Ok(())
    }
}
