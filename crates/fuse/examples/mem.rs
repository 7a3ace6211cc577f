//! An in-memory filesystem behind /dev/fuse, as fast as such a thing can be: what a mount of Seamount is
//! compared with. It keeps nothing: all is gone when it ends.
//!
//! `cargo run --release -p fuse --example mem -- MOUNTPOINT [--threads N] [--mib N]`

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, Session, SessionACL, TimeOrNow,
    WriteFlags,
};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

/// Nobody but the kernel changes anything, so it may believe what it knows for as long as it likes.
const TTL: Duration = Duration::from_secs(365 * 86_400);
const GENERATION: Generation = Generation(0);
const NAME_BYTES_MAX: usize = 255;
const PAGE: u64 = 4096;
/// Cookies 1 and 2 are those of `.` and `..`.
const FIRST_COOKIE: u64 = 3;
const O_TRUNC: i32 = 0o1000;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse(std::env::args_os().skip(1))?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("mem".into()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    config.acl = SessionACL::Owner;
    config.n_threads = Some(args.threads);
    config.clone_fd = args.threads > 1;
    let session = Session::new(Mem::new(args.mib << 20), &args.mountpoint, &config)?;
    let mut watcher = watch(&args.mountpoint)?;
    println!("an in-memory filesystem is at {}; it keeps nothing", args.mountpoint.display());
    println!("stop it with: umount {}, or with Ctrl-C", args.mountpoint.display());
    let ended = session.run();
    watcher.kill()?;
    watcher.wait()?;
    Ok(ended?)
}

/// What the command line says.
struct Args {
    mountpoint: PathBuf,
    threads: usize,
    mib: u64,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Self, Box<dyn Error>> {
        const USAGE: &str = "usage: mem MOUNTPOINT [--threads N] [--mib N]";
        let mut args = Self { mountpoint: PathBuf::new(), threads: 1, mib: 4096 };
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64, Box<dyn Error>> {
                let word = words.next().ok_or(USAGE)?;
                let number =
                    word.to_str().and_then(|word| word.parse().ok()).filter(|number| *number > 0);
                Ok(number.ok_or_else(|| format!("{word:?} is not a number above zero"))?)
            };
            match word.to_str() {
                Some("--threads") => args.threads = number()?.min(64) as usize,
                Some("--mib") => args.mib = number()?.min(1 << 20),
                Some(option) if option.starts_with('-') => return Err(USAGE.into()),
                _ => args.mountpoint = word.into(),
            }
        }
        if args.mountpoint.as_os_str().is_empty() {
            return Err(USAGE.into());
        }
        args.mountpoint = std::fs::canonicalize(&args.mountpoint)
            .map_err(|error| format!("{}: {error}", args.mountpoint.display()))?;
        Ok(args)
    }
}

/// A process that unmounts when this one is gone, whatever killed it: it waits for the end of its input.
/// In a process group of its own, Ctrl-C does not reach it.
fn watch(mountpoint: &Path) -> io::Result<Child> {
    let script =
        "cat >/dev/null; umount \"$1\" 2>/dev/null || exec fusermount3 -u -z \"$1\" 2>/dev/null";
    Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(mountpoint)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// The filesystem: one lock around all of it.
struct Mem {
    state: Mutex<State>,
}

struct State {
    /// Indexed by inode number, of which none is used twice.
    nodes: Vec<Option<Box<Node>>>,
    bytes: u64,
    bytes_max: u64,
}

struct Node {
    attr: FileAttr,
    /// How often the kernel was told of it; it must stay until the kernel forgets it.
    lookups: u64,
    content: Content,
}

enum Content {
    Bytes(Vec<u8>),
    Entries(Entries),
    Target(PathBuf),
    Nothing,
}

/// A directory: by name, and in an order that does not change while it is listed.
struct Entries {
    parent: u64,
    by_name: HashMap<Arc<OsStr>, (u64, u64)>,
    by_cookie: BTreeMap<u64, (Arc<OsStr>, u64)>,
    next_cookie: u64,
}

impl Entries {
    fn new(parent: u64) -> Self {
        Self {
            parent,
            by_name: HashMap::new(),
            by_cookie: BTreeMap::new(),
            next_cookie: FIRST_COOKIE,
        }
    }

    fn get(&self, name: &OsStr) -> Option<u64> {
        self.by_name.get(name).map(|(ino, _)| *ino)
    }

    fn put(&mut self, name: &OsStr, ino: u64) {
        self.take(name);
        let name: Arc<OsStr> = name.into();
        self.by_name.insert(name.clone(), (ino, self.next_cookie));
        self.by_cookie.insert(self.next_cookie, (name, ino));
        self.next_cookie += 1;
    }

    fn take(&mut self, name: &OsStr) -> Option<u64> {
        let (ino, cookie) = self.by_name.remove(name)?;
        self.by_cookie.remove(&cookie);
        Some(ino)
    }
}

type Answer<T> = Result<T, Errno>;

impl State {
    fn node(&self, ino: INodeNo) -> Answer<&Node> {
        self.nodes.get(ino.0 as usize).and_then(Option::as_deref).ok_or(Errno::ENOENT)
    }

    fn node_mut(&mut self, ino: INodeNo) -> Answer<&mut Node> {
        self.nodes.get_mut(ino.0 as usize).and_then(Option::as_deref_mut).ok_or(Errno::ENOENT)
    }

    fn entries(&self, ino: INodeNo) -> Answer<&Entries> {
        match &self.node(ino)?.content {
            Content::Entries(entries) => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The entries of a directory that is about to change, with its times moved on.
    fn changing(&mut self, ino: INodeNo) -> Answer<&mut Entries> {
        let node = self.node_mut(ino)?;
        let now = SystemTime::now();
        (node.attr.mtime, node.attr.ctime) = (now, now);
        match &mut node.content {
            Content::Entries(entries) => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Puts a new node under a name that is free, and tells the kernel of it once.
    fn make(
        &mut self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        kind: FileType,
        perm: u32,
        content: Content,
    ) -> Answer<FileAttr> {
        check_name(name)?;
        if self.entries(parent)?.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let ino = self.nodes.len() as u64;
        let mut attr = new_attr(ino, kind, perm, req.uid(), req.gid());
        if let Content::Target(target) = &content {
            attr.size = target.as_os_str().len() as u64;
        }
        self.nodes.push(Some(Box::new(Node { attr, lookups: 1, content })));
        self.changing(parent)?.put(name, ino);
        if kind == FileType::Directory {
            self.node_mut(parent)?.attr.nlink += 1;
        }
        Ok(attr)
    }

    fn remove(&mut self, parent: INodeNo, name: &OsStr, dir: bool) -> Answer<()> {
        let ino = INodeNo(self.entries(parent)?.get(name).ok_or(Errno::ENOENT)?);
        match &self.node(ino)?.content {
            Content::Entries(_) if !dir => return Err(Errno::EISDIR),
            Content::Entries(entries) if !entries.by_name.is_empty() => {
                return Err(Errno::ENOTEMPTY);
            }
            Content::Entries(_) => {}
            _ if dir => return Err(Errno::ENOTDIR),
            _ => {}
        }
        self.changing(parent)?.take(name);
        if dir {
            self.node_mut(parent)?.attr.nlink -= 1;
        }
        self.unlinked(ino, if dir { 2 } else { 1 })
    }

    fn unlinked(&mut self, ino: INodeNo, links: u32) -> Answer<()> {
        let node = self.node_mut(ino)?;
        node.attr.nlink = node.attr.nlink.saturating_sub(links);
        node.attr.ctime = SystemTime::now();
        self.collect(ino);
        Ok(())
    }

    /// Frees a node that has no name and that the kernel does not know.
    fn collect(&mut self, ino: INodeNo) {
        let Some(slot) = self.nodes.get_mut(ino.0 as usize) else { return };
        if let Some(node) = slot.take_if(|node| node.attr.nlink == 0 && node.lookups == 0)
            && let Content::Bytes(bytes) = node.content
        {
            self.bytes -= bytes.len() as u64;
        }
    }

    fn forget(&mut self, ino: INodeNo, count: u64) {
        if let Ok(node) = self.node_mut(ino) {
            node.lookups = node.lookups.saturating_sub(count);
            self.collect(ino);
        }
    }

    fn rename(
        &mut self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Answer<()> {
        let noreplace = flags.contains(RenameFlags::RENAME_NOREPLACE);
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return Err(Errno::EINVAL);
        }
        check_name(to.1)?;
        let ino = self.entries(from.0)?.get(from.1).ok_or(Errno::ENOENT)?;
        let dir = matches!(self.node(INodeNo(ino))?.content, Content::Entries(_));
        match self.entries(to.0)?.get(to.1) {
            Some(_) if noreplace => return Err(Errno::EEXIST),
            Some(old) if old == ino => return Ok(()),
            Some(_) => self.remove(to.0, to.1, dir)?,
            None => {}
        }
        self.changing(from.0)?.take(from.1);
        self.changing(to.0)?.put(to.1, ino);
        let node = self.node_mut(INodeNo(ino))?;
        node.attr.ctime = SystemTime::now();
        if let Content::Entries(entries) = &mut node.content {
            entries.parent = to.0.0;
            self.node_mut(from.0)?.attr.nlink -= 1;
            self.node_mut(to.0)?.attr.nlink += 1;
        }
        Ok(())
    }

    fn resize(&mut self, ino: INodeNo, size: u64) -> Answer<()> {
        let (used, most) = (self.bytes, self.bytes_max);
        let node = self.node_mut(ino)?;
        let Content::Bytes(bytes) = &mut node.content else { return Err(Errno::EISDIR) };
        let used = used - bytes.len() as u64;
        if size > most - used {
            return Err(Errno::ENOSPC);
        }
        bytes.resize(size as usize, 0);
        bytes.shrink_to(size as usize * 2);
        node.sized();
        self.bytes = used + size;
        Ok(())
    }

    fn write(&mut self, ino: INodeNo, offset: u64, data: &[u8]) -> Answer<()> {
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::EFBIG)?;
        let node = self.node(ino)?;
        if end > node.attr.size {
            if offset > node.attr.size {
                self.resize(ino, offset)?;
            }
            let grown = end - self.node(ino)?.attr.size;
            if grown > self.bytes_max - self.bytes {
                return Err(Errno::ENOSPC);
            }
            self.bytes += grown;
        }
        let node = self.node_mut(ino)?;
        let Content::Bytes(bytes) = &mut node.content else { return Err(Errno::EISDIR) };
        let start = offset as usize;
        let over = data.len().min(bytes.len() - start);
        bytes[start..start + over].copy_from_slice(&data[..over]);
        bytes.extend_from_slice(&data[over..]);
        node.sized();
        Ok(())
    }
}

impl Node {
    /// The size and times follow the bytes.
    fn sized(&mut self) {
        if let Content::Bytes(bytes) = &self.content {
            self.attr.size = bytes.len() as u64;
            self.attr.blocks = self.attr.size.div_ceil(512);
            let now = SystemTime::now();
            (self.attr.mtime, self.attr.ctime) = (now, now);
        }
    }
}

fn check_name(name: &OsStr) -> Answer<()> {
    if name.as_bytes().len() > NAME_BYTES_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
}

fn new_attr(ino: u64, kind: FileType, perm: u32, uid: u32, gid: u32) -> FileAttr {
    let now = SystemTime::now();
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        crtime: now,
        kind,
        perm: (perm & 0o7777) as u16,
        nlink: if kind == FileType::Directory { 2 } else { 1 },
        uid,
        gid,
        rdev: 0,
        blksize: PAGE as u32,
        flags: 0,
    }
}

impl Mem {
    fn new(bytes_max: u64) -> Self {
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
