//! What the kernel asks of the in-memory filesystem, and the answers.

use crate::tree::{
    Answer, Content, Entries, NAME_BYTES_MAX, Node, PAGE, State, check_name, new_attr,
};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

/// Nobody but the kernel changes anything, so it may believe what it knows for as long as it likes.
const TTL: Duration = Duration::from_secs(365 * 86_400);
const GENERATION: Generation = Generation(0);
const O_TRUNC: i32 = 0o1000;

/// The filesystem: one lock around all of it.
pub(crate) struct Mem {
    state: Mutex<State>,
}

impl Mem {
    pub(crate) fn new(bytes_max: u64) -> Self {
        // Number 0 is never an inode; 1 is the root, and stays.
        let attr = new_attr(1, FileType::Directory, 0o755, 0, 0);
        let root = Node { attr, lookups: 1, content: Content::Entries(Entries::new(1)) };
        Self {
            state: Mutex::new(State {
                nodes: vec![None, Some(Box::new(root))],
                bytes: 0,
                bytes_max,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn entry(reply: ReplyEntry, answer: Answer<FileAttr>) {
    match answer {
        Ok(attr) => reply.entry(&TTL, &attr, GENERATION),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Mem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_ASYNC_DIO;
        if let Err(missing) = config.add_capabilities(wanted) {
            let _ = config.add_capabilities(wanted - missing);
        }
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.state();
        let found = state.entries(parent).map(|entries| entries.get(name));
        let answer = found.and_then(|found| match found {
            Some(ino) => {
                let node = state.node_mut(INodeNo(ino))?;
                node.lookups += 1;
                Ok(node.attr)
            }
            // Number 0 is an entry too: one that the kernel remembers as missing.
            None => Ok(new_attr(0, FileType::RegularFile, 0, 0, 0)),
        });
        drop(state);
        entry(reply, answer);
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        self.state().forget(ino, count);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let answer = self.state().node(ino).map(|node| node.attr);
        match answer {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.state();
        let sized = size.map_or(Ok(()), |size| state.resize(ino, size));
        let answer = sized.and_then(|()| {
            let attr = &mut state.node_mut(ino)?.attr;
            let now = SystemTime::now();
            let time = |given| match given {
                TimeOrNow::SpecificTime(time) => time,
                TimeOrNow::Now => now,
            };
            attr.perm = mode.map_or(attr.perm, |mode| (mode & 0o7777) as u16);
            attr.uid = uid.unwrap_or(attr.uid);
            attr.gid = gid.unwrap_or(attr.gid);
            attr.atime = atime.map_or(attr.atime, time);
            attr.mtime = mtime.map_or(attr.mtime, time);
            attr.ctime = now;
            Ok(*attr)
        });
        drop(state);
        match answer {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.state().node(ino).map(|node| &node.content) {
            Ok(Content::Target(target)) => reply.data(target.as_os_str().as_bytes()),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let (kind, content) = match mode & 0o170_000 {
            0o100_000 => (FileType::RegularFile, Content::Bytes(Vec::new())),
            0o010_000 => (FileType::NamedPipe, Content::Nothing),
            0o140_000 => (FileType::Socket, Content::Nothing),
            _ => return reply.error(Errno::EPERM),
        };
        let answer = self.state().make(req, parent, name, kind, mode, content);
        entry(reply, answer);
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let content = Content::Entries(Entries::new(parent.0));
        let answer = self.state().make(req, parent, name, FileType::Directory, mode, content);
        entry(reply, answer);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let content = Content::Target(target.to_owned());
        let answer = self.state().make(req, parent, name, FileType::Symlink, 0o777, content);
        entry(reply, answer);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let answer = self.state().remove(parent, name, false);
        empty(reply, answer);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let answer = self.state().remove(parent, name, true);
        empty(reply, answer);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let answer = self.state().rename((parent, name), (new_parent, new_name), flags);
        empty(reply, answer);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.state();
        let free = check_name(name).and_then(|()| match state.entries(parent)?.get(name) {
            Some(_) => Err(Errno::EEXIST),
            None => Ok(()),
        });
        let answer = free.and_then(|()| {
            state.changing(parent)?.put(name, ino.0);
            let node = state.node_mut(ino)?;
            node.attr.nlink += 1;
            node.attr.ctime = SystemTime::now();
            node.lookups += 1;
            Ok(node.attr)
        });
        drop(state);
        entry(reply, answer);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let cut = if flags.0 & O_TRUNC == 0 { Ok(()) } else { self.state().resize(ino, 0) };
        match cut {
            Ok(()) => reply
                .opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let content = Content::Bytes(Vec::new());
        let answer = self.state().make(req, parent, name, FileType::RegularFile, mode, content);
        let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
        match answer {
            Ok(attr) => reply.created(&TTL, &attr, GENERATION, FileHandle(0), flags),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.state().node(ino).map(|node| &node.content) {
            Ok(Content::Bytes(bytes)) => {
                let start = bytes.len().min(offset as usize);
                let end = bytes.len().min(start + size as usize);
                reply.data(&bytes[start..end]);
            }
            Ok(_) => reply.error(Errno::EISDIR),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.state().write(ino, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.state();
        let entries = match state.entries(ino) {
            Ok(entries) => entries,
            Err(errno) => return reply.error(errno),
        };
        let dots = [(1, ino.0, "."), (2, entries.parent, "..")];
        for (cookie, ino, name) in dots.into_iter().filter(|(cookie, _, _)| *cookie > offset) {
            if reply.add(INodeNo(ino), cookie, FileType::Directory, name) {
                return reply.ok();
            }
        }
        for (cookie, (name, ino)) in entries.by_cookie.range(offset + 1..) {
            let Ok(node) = state.node(INodeNo(*ino)) else { continue };
            if reply.add(INodeNo(*ino), *cookie, node.attr.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let mut state = self.state();
        let State { nodes, .. } = &mut *state;
        let dir = nodes.get_mut(ino.0 as usize).and_then(Option::take);
        let Some(Node { content: Content::Entries(entries), attr, .. }) = dir.as_deref() else {
            let errno = if dir.is_some() { Errno::ENOTDIR } else { Errno::ENOENT };
            if let Some(slot) = nodes.get_mut(ino.0 as usize) {
                *slot = dir;
            }
            return reply.error(errno);
        };
        // The kernel does not count `.` and `..`, so their attributes matter to nobody.
        let dots = [(1, ino.0, "."), (2, entries.parent, "..")];
        let mut full = false;
        for (cookie, ino, name) in dots.into_iter().filter(|(cookie, _, _)| *cookie > offset) {
            full = full || reply.add(INodeNo(ino), cookie, name, &TTL, attr, GENERATION);
        }
        for (cookie, (name, ino)) in entries.by_cookie.range(offset + 1..) {
            let Some(node) = nodes.get_mut(*ino as usize).and_then(Option::as_deref_mut) else {
                continue;
            };
            full = full || reply.add(INodeNo(*ino), *cookie, name, &TTL, &node.attr, GENERATION);
            if full {
                break;
            }
            node.lookups += 1;
        }
        if let Some(slot) = nodes.get_mut(ino.0 as usize) {
            *slot = dir;
        }
        drop(state);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let state = self.state();
        let free = (state.bytes_max - state.bytes) / PAGE;
        let files = u64::from(u32::MAX);
        let free_files = files.saturating_sub(state.nodes.len() as u64);
        let blocks = state.bytes_max / PAGE;
        reply.statfs(
            blocks,
            free,
            free,
            files,
            free_files,
            PAGE as u32,
            NAME_BYTES_MAX as u32,
            PAGE as u32,
        );
    }

    // The library warns at every call of what is left to it.
    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }
}
