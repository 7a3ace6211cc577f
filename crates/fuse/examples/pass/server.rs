//! What the kernel asks of the passthrough server, and the answers: calls of the host.

use crate::listing::Listing;
use crate::tree::{Answer, ROOT, State, attr, kind};
use fuser::{
    BackingId, BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyXattr, Request, TimeOrNow,
};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nobody but the kernel changes anything, so it may believe what it knows for as long as it likes.
const TTL: Duration = Duration::from_secs(365 * 86_400);
const GENERATION: Generation = Generation(0);
const O_TRUNC: i32 = 0o1000;

/// The filesystem: one lock around what it knows, one around the open directories.
pub(crate) struct Pass {
    state: Mutex<State>,
    listings: Mutex<(u64, HashMap<u64, Listing>)>,
}

impl Pass {
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())?;
        // Modes come from the kernel with the caller's mask taken off.
        rustix::process::umask(Mode::empty());
        Ok(Self { state: Mutex::new(State::new(root)?), listings: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes something with a call of the host, and tells the kernel of it.
    fn make(
        &self,
        req: &Request,
        (parent, name): (INodeNo, &OsStr),
        reply: ReplyEntry,
        make: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
    ) {
        let mut state = self.state();
        let answer = state.directory(parent).and_then(|directory| {
            make(&directory)?;
            own(req, &directory, name)?;
            let found = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(state.made(parent, name, &found))
        });
        drop(state);
        entry(reply, answer);
    }
}

/// What root makes for others belongs to them.
fn own(req: &Request, directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    if (req.uid(), req.gid()) == (0, 0) {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(req.uid()), Gid::from_raw(req.gid()));
    rustix::fs::chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

fn empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

fn entry(reply: ReplyEntry, answer: Answer<FileAttr>) {
    match answer {
        Ok(attr) => reply.entry(&TTL, &attr, GENERATION),
        Err(error) => reply.error(error.into()),
    }
}

fn attributes(reply: ReplyAttr, answer: Answer<FileAttr>) {
    match answer {
        Ok(attr) => reply.attr(&TTL, &attr),
        Err(error) => reply.error(error.into()),
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, rustix::fs::UTIME_OMIT),
        Some(TimeOrNow::Now) => (0, rustix::fs::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(since) => (since.as_secs() as i64, i64::from(since.subsec_nanos())),
            Err(before) => (-(before.duration().as_secs() as i64), 0),
        },
    };
    Timespec { tv_sec, tv_nsec: tv_nsec as _ }
}

impl Filesystem for Pass {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config
            .add_capabilities(InitFlags::FUSE_PASSTHROUGH)
            .map_err(|_| io::Error::other("this kernel does not pass data through"))?;
        // A host filesystem that is itself no stack.
        let _ = config.set_max_stack_depth(1);
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
        let answer = match self.state().look(parent, name) {
            // Number 0 is an entry too: one that the kernel remembers as missing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(missing()),
            other => other,
        };
        entry(reply, answer);
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        self.state().forget(ino, count);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let answer = self.state().stat(ino);
        attributes(reply, answer);
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
        let mut change = || -> Answer<FileAttr> {
            if let Some(size) = size {
                rustix::fs::ftruncate(&state.open(ino, OFlags::WRONLY)?, size)?;
            }
            if mode.is_some()
                || uid.is_some()
                || gid.is_some()
                || atime.is_some()
                || mtime.is_some()
            {
                let (directory, name) = match ino.0 {
                    ROOT => (state.directory(ino)?, ".".into()),
                    _ => state.place(ino)?,
                };
                let nofollow = AtFlags::SYMLINK_NOFOLLOW;
                if uid.is_some() || gid.is_some() {
                    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                    rustix::fs::chownat(&directory, &name, uid, gid, nofollow)?;
                }
                if let Some(mode) = mode {
                    let mode = Mode::from_raw_mode(mode & 0o7777);
                    rustix::fs::chmodat(&directory, &name, mode, AtFlags::empty())?;
                }
                if atime.is_some() || mtime.is_some() {
                    let times = Timestamps {
                        last_access: timespec(atime),
                        last_modification: timespec(mtime),
                    };
                    rustix::fs::utimensat(&directory, &name, &times, nofollow)?;
                }
            }
            state.stat(ino)
        };
        let answer = change();
        drop(state);
        attributes(reply, answer);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self.state().place(ino).and_then(|(directory, name)| {
            Ok(rustix::fs::readlinkat(&directory, &name, Vec::with_capacity(256))?)
        });
        match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = FileType::from_raw_mode(mode);
        let perm = Mode::from_raw_mode(mode & 0o7777 & !umask);
        self.make(req, (parent, name), reply, |directory| {
            rustix::fs::mknodat(directory, name, kind, perm, rdev.into())
        });
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let perm = Mode::from_raw_mode(mode & 0o7777 & !umask);
        self.make(req, (parent, name), reply, |directory| {
            rustix::fs::mkdirat(directory, name, perm)
        });
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.make(req, (parent, name), reply, |directory| {
            rustix::fs::symlinkat(target, directory, name)
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let answer = self.state().remove(parent, name, AtFlags::empty());
        empty(reply, answer);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let answer = self.state().remove(parent, name, AtFlags::REMOVEDIR);
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
        // Two names that change places would need both ends followed: no workload does that.
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let answer = self.state().rename((parent, name), (new_parent, new_name), flags);
        empty(reply, answer);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let answer = self.state().link(ino, parent, name);
        entry(reply, answer);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut state = self.state();
        let open = |state: &mut State| -> Answer<Arc<BackingId>> {
            if flags.0 & O_TRUNC != 0 {
                rustix::fs::ftruncate(&state.open(ino, OFlags::WRONLY)?, 0)?;
            }
            if let Some(backing) = &state.node(ino)?.backing {
                return Ok(backing.clone());
            }
            let file = state.open(ino, OFlags::RDONLY)?;
            let backing = Arc::new(reply.open_backing(&file)?);
            state.node(ino)?.backing = Some(backing.clone());
            Ok(backing)
        };
        let answer = open(&mut state).and_then(|backing| {
            state.node(ino)?.opens += 1;
            Ok(backing)
        });
        drop(state);
        match answer {
            Ok(backing) => {
                reply.opened_passthrough(FileHandle(0), FopenFlags::FOPEN_NOFLUSH, &backing);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut state = self.state();
        let answer = state.directory(parent).and_then(|directory| {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            let perm = Mode::from_raw_mode(mode & 0o7777 & !umask);
            let file = rustix::fs::openat(&directory, name, flags, perm)?;
            own(req, &directory, name)?;
            let found = rustix::fs::fstat(&file)?;
            let attr = state.made(parent, name, &found);
            let backing = Arc::new(reply.open_backing(&file)?);
            let node = state.node(attr.ino)?;
            node.opens = 1;
            node.backing = Some(backing.clone());
            Ok((attr, backing))
        });
        drop(state);
        match answer {
            Ok((attr, backing)) => {
                let (handle, flags) = (FileHandle(0), FopenFlags::FOPEN_NOFLUSH);
                reply.created_passthrough(&TTL, &attr, GENERATION, handle, flags, &backing);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.state().closed(ino);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, datasync: bool, reply: ReplyEmpty) {
        // The lock is let go: several threads share a sync of the host.
        let file = self.state().open(ino, OFlags::RDONLY);
        let answer = file.and_then(|file| {
            let synced =
                if datasync { rustix::fs::fdatasync(&file) } else { rustix::fs::fsync(&file) };
            Ok(synced?)
        });
        empty(reply, answer);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let directory = self.state().directory(ino);
        let answer = directory.and_then(|directory| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::openat(&directory, ".", flags, Mode::empty())?;
            Ok(rustix::fs::fsync(&directory)?)
        });
        empty(reply, answer);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = rustix::fs::FallocateFlags::from_bits_retain(mode as u32);
        let file = self.state().open(ino, OFlags::RDWR);
        let answer = file.and_then(|file| Ok(rustix::fs::fallocate(&file, mode, offset, length)?));
        empty(reply, answer);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let directory = self.state().directory(ino);
        match directory.and_then(|directory| Ok(Listing::open(&directory)?)) {
            Ok(listing) => {
                let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
                listings.0 += 1;
                let handle = listings.0;
                listings.1.insert(handle, listing);
                let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR;
                reply.opened(FileHandle(handle), flags);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&handle.0);
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(listing) = listings.1.get_mut(&handle.0) else {
            return reply.error(Errno::EBADF);
        };
        let mut fill = || -> Answer<()> {
            listing.seek(offset)?;
            while let Some(found) = listing.peek()? {
                if reply.add(INodeNo(found.host), found.next, kind(found.kind), &found.name) {
                    break;
                }
                listing.pass();
            }
            Ok(())
        };
        match fill() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(listing) = listings.1.get_mut(&handle.0) else {
            return reply.error(Errno::EBADF);
        };
        let mut state = self.state();
        let mut fill = || -> Answer<()> {
            let directory = state.directory(ino)?;
            listing.seek(offset)?;
            while let Some(found) = listing.peek()? {
                let name = &found.name;
                // The kernel does not count `.` and `..`, so their attributes matter to nobody.
                let dots = name == "." || name == "..";
                let stat = if dots {
                    rustix::fs::fstat(&directory)?
                } else {
                    match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                        // Removed while it was listed.
                        Err(rustix::io::Errno::NOENT) => {
                            listing.pass();
                            continue;
                        }
                        other => other?,
                    }
                };
                let told = if dots { attr(ino.0, &stat) } else { state.told(ino, name, &stat) };
                if reply.add(told.ino, found.next, name, &TTL, &told, GENERATION) {
                    if !dots {
                        state.forget(told.ino, 1);
                    }
                    break;
                }
                listing.pass();
            }
            Ok(())
        };
        let answer = fill();
        drop(state);
        match answer {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match rustix::fs::fstatvfs(self.state().root()) {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                found.f_bsize as u32,
                found.f_namemax as u32,
                found.f_frsize as u32,
            ),
            Err(error) => reply.error(io::Error::from(error).into()),
        }
    }

    // The library warns at every call of what is left to it.
    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }
}

/// The answer for a name that is not there.
fn missing() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: fuser::FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
