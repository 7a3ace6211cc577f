//! Which files of the host the kernel knows, and under which names they are reached.

use fuser::{BackingId, FileAttr, FileType, INodeNo};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Descriptors of directories that are kept: more than this and all are closed.
const DIRECTORIES_MAX: usize = 1024;
pub(crate) const ROOT: u64 = 1;

pub(crate) type Answer<T> = io::Result<T>;

pub(crate) struct State {
    root: Arc<OwnedFd>,
    /// Indexed by our inode number, of which none is used twice, as the host would.
    nodes: Vec<Option<Box<Node>>>,
    by_host: HashMap<u64, u64>,
    directories: HashMap<u64, Arc<OwnedFd>>,
}

pub(crate) struct Node {
    host: u64,
    /// Directory and name, of each name that was seen; empty when the last one is gone.
    names: Vec<(u64, OsString)>,
    /// How often the kernel was told of it; it must stay until the kernel forgets it.
    lookups: u64,
    pub(crate) opens: u64,
    /// Registered when it was first opened, kept until the kernel forgets it.
    pub(crate) backing: Option<Arc<BackingId>>,
    /// The way to a file that lost its last name while it was open.
    kept: Option<Arc<OwnedFd>>,
}

impl State {
    pub(crate) fn new(root: OwnedFd) -> Answer<Self> {
        let host = rustix::fs::fstat(&root)?.st_ino;
        let node =
            Node { host, names: Vec::new(), lookups: 1, opens: 0, backing: None, kept: None };
        Ok(Self {
            root: Arc::new(root),
            nodes: vec![None, Some(Box::new(node))],
            by_host: HashMap::from([(host, ROOT)]),
            directories: HashMap::new(),
        })
    }

    pub(crate) fn root(&self) -> &OwnedFd {
        &self.root
    }

    pub(crate) fn node(&mut self, ino: INodeNo) -> Answer<&mut Node> {
        let slot = self.nodes.get_mut(ino.0 as usize);
        slot.and_then(Option::as_deref_mut).ok_or_else(|| Errno::STALE.into())
    }

    /// An open directory, to reach what is in it.
    pub(crate) fn directory(&mut self, ino: INodeNo) -> Answer<Arc<OwnedFd>> {
        if ino.0 == ROOT {
            return Ok(self.root.clone());
        }
        if let Some(found) = self.directories.get(&ino.0) {
            return Ok(found.clone());
        }
        let (parent, name) = self.place(ino)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = Arc::new(rustix::fs::openat(&parent, &name, flags, Mode::empty())?);
        if self.directories.len() >= DIRECTORIES_MAX {
            self.directories.clear();
        }
        self.directories.insert(ino.0, found.clone());
        Ok(found)
    }

    /// Where a file is: its directory, and its name in it.
    pub(crate) fn place(&mut self, ino: INodeNo) -> Answer<(Arc<OwnedFd>, OsString)> {
        let (parent, name) = self.node(ino)?.names.first().cloned().ok_or(Errno::NOENT)?;
        Ok((self.directory(INodeNo(parent))?, name))
    }

    pub(crate) fn stat(&mut self, ino: INodeNo) -> Answer<FileAttr> {
        let found = match self.node(ino)?.kept.clone() {
            Some(kept) => rustix::fs::fstat(&kept)?,
            None if ino.0 == ROOT => rustix::fs::fstat(&self.root)?,
            None => {
                let (directory, name) = self.place(ino)?;
                rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW)?
            }
        };
        Ok(attr(ino.0, &found))
    }

    /// Opens a file that the kernel knows.
    pub(crate) fn open(&mut self, ino: INodeNo, flags: OFlags) -> Answer<Arc<OwnedFd>> {
        if let Some(kept) = self.node(ino)?.kept.clone() {
            return Ok(kept);
        }
        let (directory, name) = self.place(ino)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Arc::new(rustix::fs::openat(&directory, &name, flags, Mode::empty())?))
    }

    /// What is under a name, and that the kernel was told of it once more.
    pub(crate) fn look(&mut self, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        let directory = self.directory(parent)?;
        let found = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(self.told(parent, name, &found))
    }

    /// The same, when it is known what is there.
    pub(crate) fn told(&mut self, parent: INodeNo, name: &OsStr, found: &Stat) -> FileAttr {
        if let Some(ino) = self.by_host.get(&found.st_ino).copied()
            && let Ok(node) = self.node(INodeNo(ino))
        {
            node.lookups += 1;
            if !node.names.iter().any(|known| known.0 == parent.0 && known.1 == name) {
                node.names.push((parent.0, name.to_owned()));
            }
            return attr(ino, found);
        }
        self.made(parent, name, found)
    }

    /// A file that was made just now: if the host used its number before, that file is gone.
    pub(crate) fn made(&mut self, parent: INodeNo, name: &OsStr, found: &Stat) -> FileAttr {
        let ino = self.nodes.len() as u64;
        self.nodes.push(Some(Box::new(Node {
            host: found.st_ino,
            names: vec![(parent.0, name.to_owned())],
            lookups: 1,
            opens: 0,
            backing: None,
            kept: None,
        })));
        self.by_host.insert(found.st_ino, ino);
        attr(ino, found)
    }

    pub(crate) fn forget(&mut self, ino: INodeNo, count: u64) {
        let Ok(node) = self.node(ino) else { return };
        node.lookups = node.lookups.saturating_sub(count);
        if node.lookups > 0 || ino.0 == ROOT {
            return;
        }
        let host = node.host;
        if self.by_host.get(&host) == Some(&ino.0) {
            self.by_host.remove(&host);
        }
        self.directories.remove(&ino.0);
        self.nodes[ino.0 as usize] = None;
    }

    /// Before a name goes: keeps the file if it is open and this is its last name, and forgets the
    /// name. Gives the inode number, if the kernel knows the file.
    fn losing(&mut self, parent: INodeNo, name: &OsStr) -> Answer<Option<INodeNo>> {
        let directory = self.directory(parent)?;
        let found = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let Some(ino) = self.by_host.get(&found.st_ino).copied().map(INodeNo) else {
            return Ok(None);
        };
        let Ok(node) = self.node(ino) else { return Ok(None) };
        if found.st_nlink == 1 && node.opens > 0 && node.kept.is_none() {
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let kept = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
            node.kept = Some(Arc::new(kept));
        }
        Ok(Some(ino))
    }

    fn lost(&mut self, parent: INodeNo, name: &OsStr, ino: Option<INodeNo>) {
        if let Some(ino) = ino
            && let Ok(node) = self.node(ino)
        {
            node.names.retain(|known| known.0 != parent.0 || known.1 != name);
        }
    }

    pub(crate) fn remove(&mut self, parent: INodeNo, name: &OsStr, how: AtFlags) -> Answer<()> {
        let ino = self.losing(parent, name)?;
        let directory = self.directory(parent)?;
        rustix::fs::unlinkat(&directory, name, how)?;
        self.lost(parent, name, ino);
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        (parent, name): (INodeNo, &OsStr),
        (to, new_name): (INodeNo, &OsStr),
        flags: rustix::fs::RenameFlags,
    ) -> Answer<()> {
        let (from_directory, to_directory) = (self.directory(parent)?, self.directory(to)?);
        let moved = rustix::fs::statat(&from_directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
        let replaced = match self.losing(to, new_name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => other?,
        };
        rustix::fs::renameat_with(&from_directory, name, &to_directory, new_name, flags)?;
        let moved = self.by_host.get(&moved).copied().map(INodeNo);
        if replaced.is_some() && replaced == moved {
            return Ok(());
        }
        self.lost(to, new_name, replaced);
        if let Some(ino) = moved {
            self.lost(parent, name, moved);
            self.node(ino)?.names.push((to.0, new_name.to_owned()));
        }
        Ok(())
    }

    /// A file was closed; what was kept for it goes with the last one.
    pub(crate) fn closed(&mut self, ino: INodeNo) {
        if let Ok(node) = self.node(ino) {
            node.opens = node.opens.saturating_sub(1);
        }
    }

    /// Another name of a file.
    pub(crate) fn link(&mut self, ino: INodeNo, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        let (directory, old) = self.place(ino)?;
        let to = self.directory(parent)?;
        rustix::fs::linkat(directory.as_fd(), &old, to.as_fd(), name, AtFlags::empty())?;
        self.look(parent, name)
    }
}

pub(crate) fn attr(ino: u64, found: &Stat) -> FileAttr {
    let time = |seconds: i64, nanos: u64| -> SystemTime {
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let base = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
        base + Duration::from_nanos(nanos)
    };
    FileAttr {
        ino: INodeNo(ino),
        size: found.st_size as u64,
        blocks: found.st_blocks as u64,
        atime: time(found.st_atime, found.st_atime_nsec),
        mtime: time(found.st_mtime, found.st_mtime_nsec),
        ctime: time(found.st_ctime, found.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(rustix::fs::FileType::from_raw_mode(found.st_mode)),
        perm: (found.st_mode & 0o7777) as u16,
        nlink: found.st_nlink as u32,
        uid: found.st_uid,
        gid: found.st_gid,
        rdev: found.st_rdev as u32,
        blksize: found.st_blksize as u32,
        flags: 0,
    }
}

pub(crate) fn kind(kind: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Host;
    match kind {
        Host::Directory => FileType::Directory,
        Host::Symlink => FileType::Symlink,
        Host::Fifo => FileType::NamedPipe,
        Host::Socket => FileType::Socket,
        Host::CharacterDevice => FileType::CharDevice,
        Host::BlockDevice => FileType::BlockDevice,
        Host::RegularFile | Host::Unknown => FileType::RegularFile,
    }
}
