//! The model's open files and directories: opening, bytes, holes, listing.

use super::tree::{Answered, Body, Model, OpenFile, READ, SEARCH, WRITE, check_name, is_dots};
use crate::Kind;
use crate::types::{
    Attr, Caller, DirHandle, FILE_BYTES_MAX, Fallocate, FileType, Handle, Ino, OpenFlags, Time,
};
use bytes::Bytes;

/// One side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// The open file.
    pub handle: Handle,
    /// Where in it.
    pub offset: u64,
}

impl Model {
    /// `create` of the core.
    pub fn create(
        &mut self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
        flags: OpenFlags,
        now: Time,
    ) -> Answered<(Attr, Handle)> {
        self.step_into(caller, parent)?;
        if is_dots(name) {
            return Err(if flags.exclusive { Kind::Exists } else { Kind::IsDirectory });
        }
        check_name(name)?;
        let ino = match self.child(parent, name) {
            Some(_) if flags.exclusive => return Err(Kind::Exists),
            Some(ino) => {
                let handle = self.open(caller, ino, flags, now)?;
                return Ok((self.getattr(ino)?, handle));
            }
            None => {
                self.may_change(caller, parent)?;
                self.make(caller, parent, FileType::File, mode, now)?
            }
        };
        self.add(parent, name, ino, now)?;
        Ok((self.getattr(ino)?, Handle(self.keep_file(ino, flags))))
    }

    /// `tmpfile` of the core: an exclusive one can never get a name.
    pub fn tmpfile(
        &mut self,
        caller: &Caller,
        parent: Ino,
        mode: u32,
        flags: OpenFlags,
        now: Time,
    ) -> Answered<(Attr, Handle)> {
        self.names(parent)?;
        self.may(caller, parent, WRITE | SEARCH)?;
        self.may_change(caller, parent)?;
        let ino = self.make(caller, parent, FileType::File, mode, now)?;
        let inode = self.inode_mut(ino)?;
        inode.nlink = 0;
        inode.linkable = !flags.exclusive;
        Ok((self.getattr(ino)?, Handle(self.keep_file(ino, flags))))
    }

    /// `open` of the core.
    pub fn open(
        &mut self,
        caller: &Caller,
        ino: Ino,
        flags: OpenFlags,
        now: Time,
    ) -> Answered<Handle> {
        match self.inode(ino)?.body {
            Body::File(_) => {}
            Body::Directory { .. } => return Err(Kind::IsDirectory),
            Body::Symlink(_) => return Err(Kind::Loop),
            Body::Special => return Err(Kind::NoDevice),
        }
        let read = if flags.read { READ } else { 0 };
        let write = if flags.write || flags.truncate { WRITE } else { 0 };
        self.may(caller, ino, read | write)?;
        if flags.truncate {
            self.sparse_mut(ino)?.resize(0);
            self.changed(caller, ino, now)?;
        }
        Ok(Handle(self.keep_file(ino, flags)))
    }

    /// `release` of the core.
    pub fn release(&mut self, handle: Handle) -> Answered<()> {
        let file = self.files.remove(&handle.0).ok_or(Kind::BadHandle)?;
        self.forget_unless_used(file.ino);
        Ok(())
    }

    /// `flush`, `fsync` and `datasync` of the core: nothing is ever unsaved here.
    pub fn sync(&self, handle: Handle) -> Answered<()> {
        self.open_file(handle.0).map(|_| ())
    }

    /// `read` of the core.
    pub fn read(&self, handle: Handle, offset: u64, len: usize) -> Answered<Bytes> {
        let file = self.open_file(handle.0)?;
        if !file.read {
            return Err(Kind::BadHandle);
        }
        Ok(Bytes::from(self.sparse(file.ino)?.read(offset, len)))
    }

    /// `write` of the core, which writes what fits below the largest size. It may write less than it
    /// could: `written` says how much it did.
    pub fn write(
        &mut self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        bytes: &[u8],
        written: Option<u64>,
        now: Time,
    ) -> Answered<usize> {
        let file = self.writable(handle)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let sparse = self.sparse_mut(file.ino)?;
        let offset = if file.append { sparse.size() } else { offset };
        if offset >= FILE_BYTES_MAX {
            return Err(Kind::FileTooBig);
        }
        let count = (bytes.len() as u64).min(FILE_BYTES_MAX - offset);
        let count = written.map_or(count, |written| written.clamp(1, count)) as usize;
        sparse.write(offset, &bytes[..count]);
        self.changed(caller, file.ino, now)?;
        Ok(count)
    }

    /// `fallocate` of the core.
    pub fn fallocate(
        &mut self,
        caller: &Caller,
        handle: Handle,
        what: Fallocate,
        offset: u64,
        len: u64,
        now: Time,
    ) -> Answered<()> {
        if len == 0 {
            return Err(Kind::Invalid);
        }
        let ino = self.writable(handle)?.ino;
        let end = check_end(offset, len)?;
        let sparse = self.sparse_mut(ino)?;
        let keeps_size = match what {
            Fallocate::Allocate { keep_size } => keep_size,
            Fallocate::PunchHole => {
                sparse.zero(offset, end);
                true
            }
            Fallocate::ZeroRange { keep_size } => {
                sparse.zero(offset, end);
                keep_size
            }
        };
        if !keeps_size && end > sparse.size() {
            sparse.resize(end);
        }
        if what != Fallocate::PunchHole {
            self.inode_mut(ino)?.reserved = true;
        }
        self.changed(caller, ino, now)
    }

    /// `copy_range` of the core. It may copy less than it could: `copied` says how much it did.
    pub fn copy_range(
        &mut self,
        caller: &Caller,
        from: Side,
        to: Side,
        len: u64,
        copied: Option<u64>,
        now: Time,
    ) -> Answered<u64> {
        let source = self.open_file(from.handle.0)?;
        let target = self.writable(to.handle)?;
        if !source.read || target.append {
            return Err(Kind::BadHandle);
        }
        let count = len.min(self.sparse(source.ino)?.size().saturating_sub(from.offset));
        if count > 0 && to.offset >= FILE_BYTES_MAX {
            return Err(Kind::FileTooBig);
        }
        let count = count.min(FILE_BYTES_MAX.saturating_sub(to.offset));
        let overlaps = to.offset < from.offset + count && from.offset < to.offset + count;
        if source.ino == target.ino && overlaps {
            return Err(Kind::Invalid);
        }
        if count == 0 {
            return Ok(0);
        }
        let count = copied.map_or(count, |copied| copied.clamp(1, count));
        let bytes = self.sparse(source.ino)?.read(from.offset, count as usize);
        self.sparse_mut(target.ino)?.write(to.offset, &bytes);
        self.changed(caller, target.ino, now)?;
        Ok(count)
    }

    /// Whether `answer` is a right one to `seek` for data or, when `hole`, for a hole. Where holes
    /// are is up to the core, as long as each reads as zeros.
    pub fn is_right_seek(
        &self,
        handle: Handle,
        offset: u64,
        hole: bool,
        answer: Answered<u64>,
    ) -> bool {
        let Ok(file) = self.open_file(handle.0) else {
            return answer == Err(Kind::BadHandle);
        };
        let Ok(sparse) = self.sparse(file.ino) else {
            return answer.is_err();
        };
        let size = sparse.size();
        match answer {
            _ if offset >= size => answer == Err(Kind::NoDevice),
            Ok(found) if hole => {
                found == size
                    || (offset <= found && found < size && sparse.is_zero(found, found + 1))
            }
            Ok(found) => offset <= found && found < size && sparse.is_zero(offset, found),
            Err(kind) => kind == Kind::NoDevice && !hole && sparse.is_zero(offset, size),
        }
    }

    /// `opendir` of the core.
    pub fn opendir(&mut self, caller: &Caller, ino: Ino) -> Answered<DirHandle> {
        self.names(ino)?;
        self.may(caller, ino, READ)?;
        Ok(DirHandle(self.keep_dir(ino)))
    }

    /// All that `readdir` of the core shows from its start to its end: names, inodes and types.
    pub fn list(&self, handle: DirHandle) -> Answered<Vec<(Bytes, Ino, FileType)>> {
        let ino = *self.dirs.get(&handle.0).ok_or(Kind::BadHandle)?;
        let parent = self.parent(ino).ok_or(Kind::NotDirectory)?;
        let mut entries = vec![
            (Bytes::from_static(b"."), ino, FileType::Directory),
            (Bytes::from_static(b".."), parent, FileType::Directory),
        ];
        for (name, &ino) in self.names(ino)? {
            entries.push((name.clone(), ino, self.getattr(ino)?.file_type()));
        }
        Ok(entries)
    }

    /// `releasedir` of the core.
    pub fn releasedir(&mut self, handle: DirHandle) -> Answered<()> {
        let ino = self.dirs.remove(&handle.0).ok_or(Kind::BadHandle)?;
        self.forget_unless_used(ino);
        Ok(())
    }

    /// `fsyncdir` of the core.
    pub fn syncdir(&self, handle: DirHandle) -> Answered<()> {
        self.dirs.get(&handle.0).map(|_| ()).ok_or(Kind::BadHandle)
    }

    /// `access` of the core.
    pub fn access(&self, caller: &Caller, ino: Ino, want: u32) -> Answered<()> {
        self.inode(ino)?;
        match want & !(READ | WRITE | SEARCH) {
            0 => self.may(caller, ino, want),
            _ => Err(Kind::Invalid),
        }
    }

    fn writable(&self, handle: Handle) -> Answered<OpenFile> {
        let file = self.open_file(handle.0)?;
        if file.write { Ok(file) } else { Err(Kind::BadHandle) }
    }

    /// The contents of a file were changed by this caller.
    pub(super) fn changed(&mut self, caller: &Caller, ino: Ino, now: Time) -> Answered<()> {
        let inode = self.inode_mut(ino)?;
        inode.contents_changed(now);
        if !caller.is_privileged() {
            inode.drop_set_id(caller);
        }
        Ok(())
    }
}

fn check_end(offset: u64, len: u64) -> Answered<u64> {
    match offset.checked_add(len) {
        Some(end) if end <= FILE_BYTES_MAX => Ok(end),
        _ => Err(Kind::FileTooBig),
    }
}
