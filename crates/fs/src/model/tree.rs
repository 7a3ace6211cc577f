//! The model's state: inodes, names and what is open, and who may do what to them.

use super::sparse::Sparse;
use crate::Kind;
use crate::types::{Attr, Caller, FileType, Ino, NAME_BYTES_MAX, OpenFlags, ROOT, Time, mode};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What a call of the model answers.
pub type Answered<T> = Result<T, Kind>;

/// A plain POSIX tree in memory, changed at once by whoever calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Model {
    pub(super) inodes: BTreeMap<Ino, Inode>,
    pub(super) files: BTreeMap<u64, OpenFile>,
    pub(super) dirs: BTreeMap<u64, Ino>,
    next_ino: Ino,
    next_handle: u64,
}

/// One inode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Inode {
    pub(super) mode: u32,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: u32,
    pub(super) atime: Time,
    pub(super) mtime: Time,
    pub(super) ctime: Time,
    pub(super) btime: Time,
    pub(super) body: Body,
    pub(super) xattrs: BTreeMap<Bytes, Bytes>,
    /// Has no name yet, and may get one.
    pub(super) linkable: bool,
    /// May have space behind its end.
    pub(super) reserved: bool,
}

/// What an inode holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Body {
    /// A file.
    File(Sparse),
    /// A directory.
    Directory {
        /// What `..` names.
        parent: Ino,
        /// All other names.
        names: BTreeMap<Bytes, Ino>,
    },
    /// A symbolic link.
    Symlink(Bytes),
    /// A device, a pipe or a socket.
    Special,
}

/// An open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenFile {
    pub(super) ino: Ino,
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) append: bool,
}

pub(super) const READ: u32 = 4;
pub(super) const WRITE: u32 = 2;
pub(super) const SEARCH: u32 = 1;
pub(super) const GROUP_EXECUTE: u32 = 0o010;
/// What a directory says of its size.
const DIRECTORY_BYTES: u64 = 4096;

impl Model {
    /// A tree of nothing but a root that looks like this.
    pub fn new(root: &Attr) -> Self {
        let inode = Inode {
            mode: root.mode,
            nlink: root.nlink,
            uid: root.uid,
            gid: root.gid,
            rdev: root.rdev,
            atime: root.atime,
            mtime: root.mtime,
            ctime: root.ctime,
            btime: root.btime,
            body: Body::Directory { parent: ROOT, names: BTreeMap::new() },
            xattrs: BTreeMap::new(),
            linkable: false,
            reserved: false,
        };
        Self {
            inodes: BTreeMap::from([(ROOT, inode)]),
            files: BTreeMap::new(),
            dirs: BTreeMap::new(),
            next_ino: ROOT + 1,
            next_handle: 1,
        }
    }

    /// A tree of nothing but a root, writable for everybody.
    pub fn empty() -> Self {
        Self::new(&Attr {
            ino: ROOT,
            mode: mode::DIRECTORY | 0o777,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: DIRECTORY_BYTES,
            blocks: 0,
            block_bytes: 4096,
            atime: Time::default(),
            mtime: Time::default(),
            ctime: Time::default(),
            btime: Time::default(),
            live: false,
        })
    }

    /// All inodes: those with a name, and those that are only open.
    pub fn inos(&self) -> BTreeSet<Ino> {
        self.inodes.keys().copied().collect()
    }

    pub(super) fn inode(&self, ino: Ino) -> Answered<&Inode> {
        self.inodes.get(&ino).ok_or(Kind::NotFound)
    }

    pub(super) fn inode_mut(&mut self, ino: Ino) -> Answered<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(Kind::NotFound)
    }

    /// The names of a directory.
    pub(super) fn names(&self, ino: Ino) -> Answered<&BTreeMap<Bytes, Ino>> {
        match &self.inode(ino)?.body {
            Body::Directory { names, .. } => Ok(names),
            _ => Err(Kind::NotDirectory),
        }
    }

    pub(super) fn names_mut(&mut self, ino: Ino) -> Answered<&mut BTreeMap<Bytes, Ino>> {
        match &mut self.inode_mut(ino)?.body {
            Body::Directory { names, .. } => Ok(names),
            _ => Err(Kind::NotDirectory),
        }
    }

    pub(super) fn parent(&self, ino: Ino) -> Option<Ino> {
        match self.inodes.get(&ino)?.body {
            Body::Directory { parent, .. } => Some(parent),
            _ => None,
        }
    }

    pub(super) fn is_directory(&self, ino: Ino) -> bool {
        self.parent(ino).is_some()
    }

    /// Whether `above` is `ino` or a directory above it.
    pub(super) fn is_at_or_above(&self, above: Ino, mut ino: Ino) -> bool {
        loop {
            if ino == above {
                return true;
            }
            match self.parent(ino) {
                Some(parent) if parent != ino => ino = parent,
                _ => return false,
            }
        }
    }

    pub(super) fn open_file(&self, handle: u64) -> Answered<OpenFile> {
        self.files.get(&handle).copied().ok_or(Kind::BadHandle)
    }

    pub(super) fn sparse(&self, ino: Ino) -> Answered<&Sparse> {
        match &self.inode(ino)?.body {
            Body::File(sparse) => Ok(sparse),
            _ => Err(Kind::Invalid),
        }
    }

    pub(super) fn sparse_mut(&mut self, ino: Ino) -> Answered<&mut Sparse> {
        match &mut self.inode_mut(ino)?.body {
            Body::File(sparse) => Ok(sparse),
            _ => Err(Kind::Invalid),
        }
    }

    pub(super) fn is_open(&self, ino: Ino) -> bool {
        self.files.values().any(|file| file.ino == ino) || self.dirs.values().any(|&it| it == ino)
    }

    /// Forgets an inode that nobody can reach any more.
    pub(super) fn forget_unless_used(&mut self, ino: Ino) {
        if self.inodes.get(&ino).is_some_and(|inode| inode.nlink == 0) && !self.is_open(ino) {
            self.inodes.remove(&ino);
        }
    }

    pub(super) fn keep_file(&mut self, ino: Ino, flags: OpenFlags) -> u64 {
        let handle = self.next_handle;
        self.next_handle += 1;
        let OpenFlags { read, write, append, .. } = flags;
        self.files.insert(handle, OpenFile { ino, read, write, append });
        handle
    }

    pub(super) fn keep_dir(&mut self, ino: Ino) -> u64 {
        let handle = self.next_handle;
        self.next_handle += 1;
        self.dirs.insert(handle, ino);
        handle
    }

    /// Makes an inode in a directory, which it does not name yet. A directory with the setgid bit
    /// gives its group and, to directories, the bit.
    pub(super) fn make(
        &mut self,
        caller: &Caller,
        parent: Ino,
        file_type: FileType,
        permissions: u32,
        now: Time,
    ) -> Answered<Ino> {
        let dir = self.inode(parent)?;
        let mut gid = caller.gid;
        let mut permissions = permissions & mode::PERMISSIONS;
        if dir.mode & mode::SETGID != 0 {
            gid = dir.gid;
            let with_execute = mode::SETGID | GROUP_EXECUTE;
            if file_type == FileType::Directory {
                permissions |= mode::SETGID;
            } else if permissions & with_execute == with_execute
                && !caller.is_privileged()
                && !caller.is_in_group(gid)
            {
                permissions &= !mode::SETGID;
            }
        }
        if file_type != FileType::Symlink {
            permissions &= !(caller.umask & 0o777);
        }
        let body = match file_type {
            FileType::File => Body::File(Sparse::default()),
            FileType::Directory => Body::Directory { parent, names: BTreeMap::new() },
            FileType::Symlink => Body::Symlink(Bytes::new()),
            _ => Body::Special,
        };
        let inode = Inode {
            mode: file_type.mode() | permissions,
            nlink: if file_type == FileType::Directory { 2 } else { 1 },
            uid: caller.uid,
            gid,
            rdev: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            body,
            xattrs: BTreeMap::new(),
            linkable: false,
            reserved: false,
        };
        let ino = self.next_ino;
        self.next_ino += 1;
        self.inodes.insert(ino, inode);
        Ok(ino)
    }

    /// What is known of an inode.
    pub fn getattr(&self, ino: Ino) -> Answered<Attr> {
        let inode = self.inode(ino)?;
        Ok(Attr {
            ino,
            mode: inode.mode,
            nlink: inode.nlink,
            uid: inode.uid,
            gid: inode.gid,
            rdev: inode.rdev,
            size: match &inode.body {
                Body::File(sparse) => sparse.size(),
                Body::Directory { .. } => DIRECTORY_BYTES,
                Body::Symlink(target) => target.len() as u64,
                Body::Special => 0,
            },
            blocks: 0,
            block_bytes: 4096,
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            btime: inode.btime,
            live: false,
        })
    }

    /// Whether the mode lets the caller do all of `want`: read 4, write 2, execute or search 1.
    pub(super) fn may(&self, caller: &Caller, ino: Ino, want: u32) -> Answered<()> {
        let inode = self.inode(ino)?;
        let bits = if caller.uid == inode.uid {
            inode.mode >> 6
        } else if caller.is_in_group(inode.gid) {
            inode.mode >> 3
        } else {
            inode.mode
        };
        let override_all = caller.is_privileged()
            && (want & SEARCH == 0 || inode.mode & 0o111 != 0 || self.is_directory(ino));
        match want & !bits & 7 == 0 || override_all || !caller.checked_here {
            true => Ok(()),
            false => Err(Kind::AccessDenied),
        }
    }

    /// Only the owner and the superuser get past this.
    pub(super) fn must_own(&self, caller: &Caller, ino: Ino) -> Answered<()> {
        let owner = self.inode(ino)?.uid;
        match caller.is_privileged() || caller.uid == owner || !caller.checked_here {
            true => Ok(()),
            false => Err(Kind::NotPermitted),
        }
    }

    /// A path's step into a directory: it is one, and may be searched.
    pub(super) fn step_into(&self, caller: &Caller, parent: Ino) -> Answered<()> {
        self.names(parent)?;
        self.may(caller, parent, SEARCH)
    }
}

impl Inode {
    /// What the unprivileged lose who change a file's contents, and everybody who changes its owner.
    /// The set-group bit stays where the group may not run it, if the caller is in it.
    pub(super) fn drop_set_id(&mut self, caller: &Caller) {
        self.mode &= !mode::SETUID;
        let member = caller.is_privileged() || caller.is_in_group(self.gid);
        if self.mode & GROUP_EXECUTE != 0 || !member {
            self.mode &= !mode::SETGID;
        }
    }

    pub(super) fn contents_changed(&mut self, now: Time) {
        self.mtime = now;
        self.ctime = now;
    }
}

/// What is wrong with a name, whatever is done with it.
pub(super) fn check_name(name: &[u8]) -> Answered<()> {
    match name {
        [] => Err(Kind::NotFound),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Kind::Invalid),
        _ if name.len() > NAME_BYTES_MAX => Err(Kind::NameTooLong),
        _ => Ok(()),
    }
}

pub(super) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
