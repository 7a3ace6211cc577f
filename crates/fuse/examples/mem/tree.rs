//! The tree of the in-memory filesystem: nodes, names and bytes.

use fuser::{Errno, FileAttr, FileType, INodeNo, RenameFlags, Request};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

pub(crate) const NAME_BYTES_MAX: usize = 255;
pub(crate) const PAGE: u64 = 4096;
/// Cookies 1 and 2 are those of `.` and `..`.
const FIRST_COOKIE: u64 = 3;

pub(crate) struct State {
    /// Indexed by inode number, of which none is used twice.
    pub(crate) nodes: Vec<Option<Box<Node>>>,
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
}

pub(crate) struct Node {
    pub(crate) attr: FileAttr,
    /// How often the kernel was told of it; it must stay until the kernel forgets it.
    pub(crate) lookups: u64,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Bytes(Vec<u8>),
    Entries(Entries),
    Target(PathBuf),
    Nothing,
}

/// A directory: by name, and in an order that does not change while it is listed.
pub(crate) struct Entries {
    pub(crate) parent: u64,
    pub(crate) by_name: HashMap<Arc<OsStr>, (u64, u64)>,
    pub(crate) by_cookie: BTreeMap<u64, (Arc<OsStr>, u64)>,
    pub(crate) next_cookie: u64,
}

impl Entries {
    pub(crate) fn new(parent: u64) -> Self {
        Self {
            parent,
            by_name: HashMap::new(),
            by_cookie: BTreeMap::new(),
            next_cookie: FIRST_COOKIE,
        }
    }

    pub(crate) fn get(&self, name: &OsStr) -> Option<u64> {
        self.by_name.get(name).map(|(ino, _)| *ino)
    }

    pub(crate) fn put(&mut self, name: &OsStr, ino: u64) {
        self.take(name);
        let name: Arc<OsStr> = name.into();
        self.by_name.insert(name.clone(), (ino, self.next_cookie));
        self.by_cookie.insert(self.next_cookie, (name, ino));
        self.next_cookie += 1;
    }

    pub(crate) fn take(&mut self, name: &OsStr) -> Option<u64> {
        let (ino, cookie) = self.by_name.remove(name)?;
        self.by_cookie.remove(&cookie);
        Some(ino)
    }
}

pub(crate) type Answer<T> = Result<T, Errno>;

impl State {
    pub(crate) fn node(&self, ino: INodeNo) -> Answer<&Node> {
        self.nodes.get(ino.0 as usize).and_then(Option::as_deref).ok_or(Errno::ENOENT)
    }

    pub(crate) fn node_mut(&mut self, ino: INodeNo) -> Answer<&mut Node> {
        self.nodes.get_mut(ino.0 as usize).and_then(Option::as_deref_mut).ok_or(Errno::ENOENT)
    }

    pub(crate) fn entries(&self, ino: INodeNo) -> Answer<&Entries> {
        match &self.node(ino)?.content {
            Content::Entries(entries) => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The entries of a directory that is about to change, with its times moved on.
    pub(crate) fn changing(&mut self, ino: INodeNo) -> Answer<&mut Entries> {
        let node = self.node_mut(ino)?;
        let now = SystemTime::now();
        (node.attr.mtime, node.attr.ctime) = (now, now);
        match &mut node.content {
            Content::Entries(entries) => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Puts a new node under a name that is free, and tells the kernel of it once.
    pub(crate) fn make(
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

    pub(crate) fn remove(&mut self, parent: INodeNo, name: &OsStr, dir: bool) -> Answer<()> {
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

    pub(crate) fn unlinked(&mut self, ino: INodeNo, links: u32) -> Answer<()> {
        let node = self.node_mut(ino)?;
        node.attr.nlink = node.attr.nlink.saturating_sub(links);
        node.attr.ctime = SystemTime::now();
        self.collect(ino);
        Ok(())
    }

    /// Frees a node that has no name and that the kernel does not know.
    pub(crate) fn collect(&mut self, ino: INodeNo) {
        let Some(slot) = self.nodes.get_mut(ino.0 as usize) else { return };
        if let Some(node) = slot.take_if(|node| node.attr.nlink == 0 && node.lookups == 0)
            && let Content::Bytes(bytes) = node.content
        {
            self.bytes -= bytes.len() as u64;
        }
    }

    pub(crate) fn forget(&mut self, ino: INodeNo, count: u64) {
        if let Ok(node) = self.node_mut(ino) {
            node.lookups = node.lookups.saturating_sub(count);
            self.collect(ino);
        }
    }

    pub(crate) fn rename(
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

    pub(crate) fn resize(&mut self, ino: INodeNo, size: u64) -> Answer<()> {
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

    pub(crate) fn write(&mut self, ino: INodeNo, offset: u64, data: &[u8]) -> Answer<()> {
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
    pub(crate) fn sized(&mut self) {
        if let Content::Bytes(bytes) = &self.content {
            self.attr.size = bytes.len() as u64;
            self.attr.blocks = self.attr.size.div_ceil(512);
            let now = SystemTime::now();
            (self.attr.mtime, self.attr.ctime) = (now, now);
        }
    }
}

pub(crate) fn check_name(name: &OsStr) -> Answer<()> {
    if name.as_bytes().len() > NAME_BYTES_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
}

pub(crate) fn new_attr(ino: u64, kind: FileType, perm: u32, uid: u32, gid: u32) -> FileAttr {
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
