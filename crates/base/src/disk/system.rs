//! The real disk.

use super::window::Mapped;
use super::{Disk, File, Lock, LockGuard, Window};
use rustix::fs::{FallocateFlags, FlockOperation};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of the host's filesystem. Files are made with mode 0600.
#[derive(Debug, Clone)]
pub struct SystemDisk {
    /// What people call it.
    name: PathBuf,
    /// The way to it.
    root: PathBuf,
    /// Its files are opened for reading alone.
    read_only: bool,
    /// It, held open: to be synced also when no more files can be opened.
    dir: Arc<OwnedFd>,
}

impl SystemDisk {
    /// A directory that exists.
    pub fn open(root: impl AsRef<Path>) -> io::Result<Self> {
        let root = root.as_ref().to_owned();
        if !std::fs::metadata(&root)?.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("{} is not a directory", root.display()),
            ));
        }
        let dir = Arc::new(std::fs::File::open(&root)?.into());
        Ok(Self { name: root.clone(), root, dir, read_only: false })
    }

    /// A directory that is open: it stays this one, whatever its path leads to later. `name` is what people
    /// call it.
    pub fn within(dir: OwnedFd, name: impl AsRef<Path>) -> Self {
        let root = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        Self { name: name.as_ref().to_owned(), root, dir: Arc::new(dir), read_only: false }
    }

    /// A directory that exists and is not to be changed: its files are opened for reading.
    pub fn open_read_only(root: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { read_only: true, ..Self::open(root)? })
    }

    /// A directory that is made, with mode 0700 and its parents, when it does not exist.
    pub fn create(root: impl AsRef<Path>) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(root.as_ref())?;
        Self::open(root)
    }

    fn options() -> std::fs::OpenOptions {
        let mut options = std::fs::OpenOptions::new();
        // A store's files are never reached through a link that somebody else left there.
        options.read(true).write(true).mode(0o600).custom_flags(NOFOLLOW);
        options
    }
}

const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

impl SystemDisk {
    /// Locks a file, or says who has it.
    fn take(&self, file: &mut std::fs::File, how: FlockOperation) -> io::Result<()> {
        match rustix::fs::flock(&*file, how) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut owner = String::new();
                // The owner writes its pid after it has the lock; a reader in between sees nothing.
                let _ = file.read_to_string(&mut owner);
                let owner = match owner.trim() {
                    "" => "a process that is just starting".to_owned(),
                    pid => format!("process {pid}"),
                };
                Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!("{} is in use by {owner}", self.name.display()),
                ))
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Disk for SystemDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = Self::options().create_new(true).open(self.root.join(name))?;
        Ok(Arc::new(SystemFile::new(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut options = Self::options();
        options.write(!self.read_only);
        Ok(Arc::new(SystemFile::new(options.open(self.root.join(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.root.join(from), self.root.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.root.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.dir)?)
    }

    fn lock(&self, name: &str) -> io::Result<Lock> {
        let path = self.root.join(name);
        let mut file = Self::options().create(true).truncate(false).open(&path)?;
        self.take(&mut file, FlockOperation::NonBlockingLockExclusive)?;
        file.set_len(0)?;
        match write!(file, "{}", std::process::id()) {
            // The number is for people: a full disk must not keep anybody from making room.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            written => written?,
        }
        Ok(Lock::new(SystemLock { _file: file }))
    }

    fn lock_shared(&self, name: &str) -> io::Result<Option<Lock>> {
        let mut file = match Self::options().write(false).open(self.root.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        self.take(&mut file, FlockOperation::NonBlockingLockShared)?;
        Ok(Some(Lock::new(SystemLock { _file: file })))
    }

    fn describe(&self) -> String {
        self.name.display().to_string()
    }
}

#[derive(Debug)]
struct SystemLock {
    /// The kernel drops the lock with the last descriptor, also when the process is killed.
    _file: std::fs::File,
}

impl LockGuard for SystemLock {}

#[derive(Debug)]
struct SystemFile {
    file: std::fs::File,
    /// How far the host has taken room for it.
    taken: AtomicU64,
}

impl SystemFile {
    fn new(file: std::fs::File) -> Self {
        Self { file, taken: AtomicU64::new(0) }
    }
}

impl File for SystemFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let old = self.len()?;
        if old >= len {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), old, len - old) {
            Ok(()) => {
                self.taken.fetch_max(len, Ordering::AcqRel);
                Ok(())
            }
            // A host that cannot reserve still works: running out of room is then met by the write.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.file.set_len(len),
            Err(errno) => Err(errno.into()),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.taken.fetch_min(len, Ordering::AcqRel);
        self.file.set_len(len)
    }

    fn will_write(&self, offset: u64, len: u64) {
        // It is a hint.
        let len = std::num::NonZeroU64::new(len);
        let _ = rustix::fs::fadvise(&self.file, offset, len, rustix::fs::Advice::WillNeed);
    }

    fn window(&self, offset: u64, len: usize) -> Option<Box<dyn Window>> {
        if offset.saturating_add(len as u64) > self.taken.load(Ordering::Acquire) {
            return None;
        }
        Some(Box::new(Mapped::new(&self.file, offset, len)?))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
