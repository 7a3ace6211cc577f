//! One operation with its arguments, and what is answered: both can be printed, compared and run
//! again, on the model or on the core.
#![allow(missing_docs, reason = "the fields are the arguments of the core's operations")]

use super::attrs::check_xattr_name;
use super::data::Data;
use super::files::Side;
use super::rename::Place;
use super::tree::{Answered, Model, check_name, is_dots};
use crate::Kind;
use crate::types::{
    Attr, Caller, DirEntry, DirHandle, Fallocate, FileType, Handle, Ino, OpenFlags, RenameFlags,
    Seek, SetAttr, Time, XattrMode,
};
use bytes::Bytes;

/// An operation. Inodes and handles are those of the model, until [`Action::translate`] has put
/// those of the core in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Lookup {
        caller: Caller,
        parent: Ino,
        name: Bytes,
    },
    GetAttr {
        ino: Ino,
    },
    SetAttr {
        caller: Caller,
        ino: Ino,
        set: SetAttr,
        handle: Option<Handle>,
    },
    Access {
        caller: Caller,
        ino: Ino,
        want: u32,
    },
    Mknod {
        caller: Caller,
        parent: Ino,
        name: Bytes,
        mode: u32,
        rdev: u32,
    },
    Mkdir {
        caller: Caller,
        parent: Ino,
        name: Bytes,
        mode: u32,
    },
    Symlink {
        caller: Caller,
        parent: Ino,
        name: Bytes,
        target: Bytes,
    },
    Readlink {
        ino: Ino,
    },
    Link {
        caller: Caller,
        ino: Ino,
        parent: Ino,
        name: Bytes,
    },
    Unlink {
        caller: Caller,
        parent: Ino,
        name: Bytes,
    },
    Rmdir {
        caller: Caller,
        parent: Ino,
        name: Bytes,
    },
    Rename {
        caller: Caller,
        parent: Ino,
        name: Bytes,
        new_parent: Ino,
        new_name: Bytes,
        flags: RenameFlags,
    },
    Create {
        caller: Caller,
        parent: Ino,
        name: Bytes,
        mode: u32,
        flags: OpenFlags,
    },
    Tmpfile {
        caller: Caller,
        parent: Ino,
        mode: u32,
        flags: OpenFlags,
    },
    Open {
        caller: Caller,
        ino: Ino,
        flags: OpenFlags,
    },
    Read {
        handle: Handle,
        offset: u64,
        len: usize,
    },
    Write {
        caller: Caller,
        handle: Handle,
        offset: u64,
        data: Data,
    },
    Fallocate {
        caller: Caller,
        handle: Handle,
        what: Fallocate,
        offset: u64,
        len: u64,
    },
    Seek {
        handle: Handle,
        offset: u64,
        whence: Seek,
    },
    CopyRange {
        caller: Caller,
        from: Side,
        to: Side,
        len: u64,
    },
    Flush {
        handle: Handle,
    },
    Fsync {
        handle: Handle,
    },
    Datasync {
        handle: Handle,
    },
    Release {
        handle: Handle,
    },
    Opendir {
        caller: Caller,
        ino: Ino,
    },
    /// All entries, from the start, in pages of `limit`.
    Readdir {
        handle: DirHandle,
        limit: usize,
        plus: bool,
    },
    /// The next page of a walk that began some steps ago. The cookie is the core's.
    ReaddirPage {
        handle: DirHandle,
        cookie: u64,
        limit: usize,
    },
    Fsyncdir {
        handle: DirHandle,
    },
    Releasedir {
        handle: DirHandle,
    },
    GetXattr {
        caller: Caller,
        ino: Ino,
        name: Bytes,
    },
    SetXattr {
        caller: Caller,
        ino: Ino,
        name: Bytes,
        value: Data,
        how: XattrMode,
    },
    ListXattr {
        caller: Caller,
        ino: Ino,
    },
    RemoveXattr {
        caller: Caller,
        ino: Ino,
        name: Bytes,
    },
    StatFs,
    Maintain,
}

/// What an operation gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    Attr(Attr),
    Created(Attr, Handle),
    Opened(Handle),
    OpenedDir(DirHandle),
    Bytes(Bytes),
    Count(u64),
    Names(Vec<Bytes>),
    /// Entries with their attributes, where those were asked for.
    Entries(Vec<(DirEntry, Option<Attr>)>),
}

impl Action {
    /// Does it to the model. `told` is what the core has answered, for what the core may choose: how
    /// much is copied, where holes are.
    pub fn apply(&self, model: &mut Model, told: &Answered<Answer>, now: Time) -> Answered<Answer> {
        use Action as A;
        match self {
            A::Lookup { caller, parent, name } => {
                model.lookup(caller, *parent, name).map(Answer::Attr)
            }
            A::GetAttr { ino } => model.getattr(*ino).map(Answer::Attr),
            A::SetAttr { caller, ino, set, handle } => {
                model.setattr(caller, *ino, set, *handle, now).map(Answer::Attr)
            }
            A::Access { caller, ino, want } => done(model.access(caller, *ino, *want)),
            A::Mknod { caller, parent, name, mode, rdev } => {
                model.mknod(caller, *parent, name, *mode, *rdev, now).map(Answer::Attr)
            }
            A::Mkdir { caller, parent, name, mode } => {
                model.mkdir(caller, *parent, name, *mode, now).map(Answer::Attr)
            }
            A::Symlink { caller, parent, name, target } => {
                model.symlink(caller, *parent, name, target, now).map(Answer::Attr)
            }
            A::Readlink { ino } => model.readlink(*ino).map(Answer::Bytes),
            A::Link { caller, ino, parent, name } => {
                model.link(caller, *ino, *parent, name, now).map(Answer::Attr)
            }
            A::Unlink { caller, parent, name } => done(model.unlink(caller, *parent, name, now)),
            A::Rmdir { caller, parent, name } => done(model.rmdir(caller, *parent, name, now)),
            A::Rename { caller, parent, name, new_parent, new_name, flags } => {
                let old = Place { parent: *parent, name };
                let new = Place { parent: *new_parent, name: new_name };
                done(model.rename(caller, old, new, *flags, now))
            }
            A::Create { caller, parent, name, mode, flags } => model
                .create(caller, *parent, name, *mode, *flags, now)
                .map(|(attr, handle)| Answer::Created(attr, handle)),
            A::Tmpfile { caller, parent, mode, flags } => model
                .tmpfile(caller, *parent, *mode, *flags, now)
                .map(|(attr, handle)| Answer::Created(attr, handle)),
            A::Open { caller, ino, flags } => {
                model.open(caller, *ino, *flags, now).map(Answer::Opened)
            }
            A::Read { handle, offset, len } => {
                model.read(*handle, *offset, *len).map(Answer::Bytes)
            }
            A::Write { caller, handle, offset, data } => model
                .write(caller, *handle, *offset, &data.bytes(), count(told), now)
                .map(|len| Answer::Count(len as u64)),
            A::Fallocate { caller, handle, what, offset, len } => {
                done(model.fallocate(caller, *handle, *what, *offset, *len, now))
            }
            A::Seek { handle, offset, whence } => model.seek(*handle, *offset, *whence, told),
            A::CopyRange { caller, from, to, len } => {
                model.copy_range(caller, *from, *to, *len, count(told), now).map(Answer::Count)
            }
            A::Flush { handle } | A::Fsync { handle } | A::Datasync { handle } => {
                done(model.sync(*handle))
            }
            A::Release { handle } => done(model.release(*handle)),
            A::Opendir { caller, ino } => model.opendir(caller, *ino).map(Answer::OpenedDir),
            A::Readdir { handle, plus, .. } => model.entries(*handle, *plus).map(Answer::Entries),
            A::ReaddirPage { handle, .. } => model.entries(*handle, false).map(Answer::Entries),
            A::Fsyncdir { handle } => done(model.syncdir(*handle)),
            A::Releasedir { handle } => done(model.releasedir(*handle)),
            A::GetXattr { caller, ino, name } => {
                model.getxattr(caller, *ino, name).map(Answer::Bytes)
            }
            A::SetXattr { caller, ino, name, value, how } => {
                done(model.setxattr(caller, *ino, name, &value.bytes(), *how, now))
            }
            A::ListXattr { caller, ino } => model.listxattr(caller, *ino).map(Answer::Names),
            A::RemoveXattr { caller, ino, name } => {
                done(model.removexattr(caller, *ino, name, now))
            }
            A::StatFs | A::Maintain => Ok(Answer::Done),
        }
    }

    /// What the names alone are wrong with. Whether that is told before or after what else is wrong,
    /// as a directory that is none, is up to the core.
    pub fn name_faults(&self) -> Vec<Kind> {
        use Action as A;
        let mut faults = Vec::new();
        let mut fault = |name: &Bytes, dots: Kind| {
            faults.extend(check_name(name).err());
            faults.extend(is_dots(name).then_some(dots));
        };
        match self {
            A::Lookup { name, .. } => faults.extend(check_name(name).err()),
            A::Mknod { name, .. }
            | A::Mkdir { name, .. }
            | A::Symlink { name, .. }
            | A::Link { name, .. } => fault(name, Kind::Exists),
            A::Unlink { name, .. } => fault(name, Kind::IsDirectory),
            A::Rmdir { name, .. } if &name[..] == b"." => fault(name, Kind::Invalid),
            A::Rmdir { name, .. } => fault(name, Kind::NotEmpty),
            A::Create { name, flags, .. } => {
                fault(name, if flags.exclusive { Kind::Exists } else { Kind::IsDirectory });
            }
            A::Rename { name, new_name, flags, .. } => {
                fault(name, Kind::Busy);
                fault(new_name, Kind::Busy);
                fault(new_name, if flags.no_replace { Kind::Exists } else { Kind::Busy });
            }
            A::GetXattr { name, .. } | A::SetXattr { name, .. } | A::RemoveXattr { name, .. } => {
                faults.extend(check_xattr_name(name).err());
            }
            _ => {}
        }
        faults
    }
}

impl Model {
    /// Takes what the core has found when that can be right; else says what would be.
    fn seek(
        &self,
        handle: Handle,
        offset: u64,
        whence: Seek,
        told: &Answered<Answer>,
    ) -> Answered<Answer> {
        let hole = whence == Seek::Hole;
        let found = match told {
            Ok(Answer::Count(found)) => Ok(*found),
            Ok(_) => Err(Kind::Io),
            Err(kind) => Err(*kind),
        };
        if self.is_right_seek(handle, offset, hole, found) {
            return told.clone();
        }
        let ino = self.open_file(handle.0)?.ino;
        let sparse = self.sparse(ino)?;
        let size = sparse.size();
        if offset >= size {
            return Err(Kind::NoDevice);
        }
        let data = sparse.extents().into_iter().find(|&(_, end)| end > offset);
        match data {
            _ if hole => Ok(Answer::Count(size)),
            Some((start, _)) => Ok(Answer::Count(start.max(offset))),
            None => Err(Kind::NoDevice),
        }
    }

    fn entries(&self, handle: DirHandle, plus: bool) -> Answered<Vec<(DirEntry, Option<Attr>)>> {
        let entry = |(index, (name, ino, file_type)): (usize, (Bytes, Ino, FileType))| {
            let attr = if plus { self.getattr(ino).ok() } else { None };
            (DirEntry { name, ino, file_type, cookie: index as u64 + 1 }, attr)
        };
        Ok(self.list(handle)?.into_iter().enumerate().map(entry).collect())
    }
}

fn count(told: &Answered<Answer>) -> Option<u64> {
    match told {
        Ok(Answer::Count(count)) => Some(*count),
        _ => None,
    }
}

fn done(answer: Answered<()>) -> Answered<Answer> {
    answer.map(|()| Answer::Done)
}
