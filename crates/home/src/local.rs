//! A directory of the host as a home.

use crate::opened::{Open, Opened};
use crate::{Backing, Home, Place, Stat, Wanted, in_use, path_of};
use base::checksum::hash64;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that are read at once, at most: memory for more is not taken before they are there.
const READ_AT_ONCE: usize = 4 << 20;
/// Bytes that are copied at once where the host cannot copy by itself.
const COPY_BYTES: usize = 1 << 20;
/// `UTIME_OMIT`: a time that stays as it is.
const OMIT: i64 = 0x3fff_fffe;
/// The name of what is made and removed only to change a directory. It is no number.
const TOUCHED: &str = ".touched";
/// So many directories are made durable one by one; more all at once.
const DIRS_ONE_BY_ONE: usize = 8;

/// A directory of the host's filesystem. Directories are made with mode 0700, files with 0600.
#[derive(Debug)]
pub struct LocalHome {
    /// What people call it.
    name: PathBuf,
    /// The way to it.
    root: PathBuf,
    /// It, held open: the way leads through this.
    dir: OwnedFd,
    life: u64,
    read_only: bool,
    names: Arc<Names>,
    opened: Opened,
}

/// How names are made durable.
#[derive(Debug, Default)]
struct Names {
    /// A sync of a directory failed: the host may take for written what it has forgotten.
    distrusted: AtomicBool,
}

impl Names {
    /// Makes the names in a directory durable.
    fn sync(&self, dir: &Path) -> io::Result<()> {
        let how = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, dir, how, Mode::empty())?;
        let touched = match self.distrusted.load(Ordering::Acquire) {
            // A directory here is so small that it is written as a whole.
            true => touch(&opened),
            false => Ok(()),
        };
        let synced = touched.and_then(|()| rustix::fs::fsync(&opened));
        if synced.is_err() {
            self.distrusted.store(true, Ordering::Release);
        }
        Ok(synced?)
    }
}

/// Changes a directory, and changes it back.
fn touch(dir: &OwnedFd) -> rustix::io::Result<()> {
    let how = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    drop(rustix::fs::openat(dir, TOUCHED, how, Mode::RUSR | Mode::WUSR)?);
    match rustix::fs::unlinkat(dir, TOUCHED, AtFlags::empty()) {
        // Somebody else does the same.
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

impl LocalHome {
    /// The directory `name` within one that is open; it is made when it is missing.
    pub fn within(parent: BorrowedFd<'_>, name: &str, shown: &Path) -> io::Result<Self> {
        match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        Self::open_within(parent, name, shown, false)
    }

    /// The same, but it must be there, and nothing of it is changed.
    pub fn within_read_only(parent: BorrowedFd<'_>, name: &str, shown: &Path) -> io::Result<Self> {
        Self::open_within(parent, name, shown, true)
    }

    fn open_within(
        parent: BorrowedFd<'_>,
        name: &str,
        shown: &Path,
        read_only: bool,
    ) -> io::Result<Self> {
        let how = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(parent, name, how, Mode::empty())?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        // Without it every start counts as one of the machine: what was not synced is not relied on.
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| {
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or_else(|_| Vec::new(), |time| time.as_nanos().to_le_bytes().to_vec())
        });
        let (life, names) = (hash64(0, &boot), Arc::default());
        let (name, opened) = (shown.join(name), Opened::default());
        Ok(Self { name, root, dir, life, read_only, names, opened })
    }

    fn path(&self, place: Place) -> PathBuf {
        let mut path = self.root.join(place.volume.to_string());
        path.push(path_of(place.blob));
        path
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.read_only { Err(Errno::ROFS.into()) } else { Ok(()) }
    }

    fn options(&self) -> OFlags {
        let access = if self.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        access | OFlags::NOFOLLOW | OFlags::CLOEXEC
    }

    /// `named`: whether the name is known to be durable.
    fn backing(&self, fd: OwnedFd, path: &Path, named: bool) -> Arc<dyn Backing> {
        let dir = path.parent().unwrap_or(&self.root).to_path_buf();
        let names = Arc::clone(&self.names);
        let (unnamed, _open) = (AtomicBool::new(!named), self.opened.one_more());
        Arc::new(LocalFile { file: fd.into(), dir, unnamed, names, _open })
    }
}

impl Home for LocalHome {
    fn make(&self, place: Place) -> io::Result<Arc<dyn Backing>> {
        self.check_writable()?;
        let path = self.path(place);
        let how = self.options() | OFlags::CREATE;
        let open = || rustix::fs::openat(CWD, &path, how, Mode::RUSR | Mode::WUSR);
        let fd = match open() {
            Err(Errno::NOENT) => {
                if let Some(dir) = path.parent() {
                    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
                }
                open()?
            }
            opened => opened?,
        };
        if rustix::fs::fstat(&fd)?.st_size != 0 {
            rustix::fs::ftruncate(&fd, 0)?;
            forget_cut(&fd);
        }
        Ok(self.backing(fd, &path, false))
    }

    fn open(&self, place: Place) -> io::Result<Arc<dyn Backing>> {
        let path = self.path(place);
        let fd = rustix::fs::openat(CWD, &path, self.options(), Mode::empty())?;
        Ok(self.backing(fd, &path, false))
    }

    fn remove(&self, place: Place) -> io::Result<()> {
        self.check_writable()?;
        match std::fs::remove_file(self.path(place)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn remove_all(&self, volume: u16) -> io::Result<()> {
        self.check_writable()?;
        match std::fs::remove_dir_all(self.root.join(volume.to_string())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn numbers(&self, volume: u16) -> io::Result<Vec<u64>> {
        let root = self.root.join(volume.to_string());
        let (mut numbers, mut dirs) = (Vec::new(), vec![PathBuf::new()]);
        while let Some(dir) = dirs.pop() {
            let listed = match std::fs::read_dir(root.join(&dir)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                listed => listed?,
            };
            for entry in listed {
                let entry = entry?;
                let path = dir.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    dirs.push(path);
                } else if let Some(number) =
                    entry.file_name().to_str().and_then(|it| it.parse().ok())
                    && path_of(number) == path
                {
                    numbers.push(number);
                }
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.dir)?)
    }

    fn sync_names(&self, places: &[Place]) -> io::Result<()> {
        let paths = places.iter().map(|place| self.path(*place));
        let dirs: BTreeSet<PathBuf> =
            paths.filter_map(|path| Some(path.parent()?.to_path_buf())).collect();
        if dirs.len() > DIRS_ONE_BY_ONE && !self.names.distrusted.load(Ordering::Acquire) {
            return self.sync_all().inspect_err(|_| self.distrust_names());
        }
        dirs.iter().try_for_each(|dir| self.names.sync(dir))
    }

    fn distrust_names(&self) {
        self.names.distrusted.store(true, Ordering::Release);
    }

    fn life(&self) -> u64 {
        self.life
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn open_max(&self) -> usize {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }

    fn open_count(&self) -> usize {
        self.opened.count()
    }

    fn describe(&self) -> String {
        self.name.display().to_string()
    }
}

#[derive(Debug)]
struct LocalFile {
    file: std::fs::File,
    dir: PathBuf,
    /// The name may not be durable yet.
    unnamed: AtomicBool,
    names: Arc<Names>,
    _open: Open,
}

impl LocalFile {
    fn fallocate(&self, flags: FallocateFlags, offset: u64, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.file, flags, offset, len)?)
    }

    /// Zeros by writing them, for hosts that cannot do it by themselves. Within `end`.
    fn write_zeros(&self, offset: u64, end: u64) -> io::Result<()> {
        let zeros = vec![0; COPY_BYTES];
        let mut at = offset;
        while at < end {
            let len = (end - at).min(COPY_BYTES as u64) as usize;
            self.file.write_all_at(zeros.get(..len).unwrap_or(&zeros), at)?;
            at += len as u64;
        }
        Ok(())
    }
}

/// ext4 writes a file to disk when one that was cut to nothing is closed for the first time, for the sake of
/// programs that replace files so. Whoever uses an emptied file next would wait for that: so it is opened and closed
/// once, while there is nothing to write.
fn forget_cut(file: &impl AsFd) {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    // Where this cannot be done, it is only slower.
    drop(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()));
}

fn cannot(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::OPNOTSUPP | Errno::NOSYS))
}

impl Backing for LocalFile {
    fn stat(&self) -> io::Result<Stat> {
        let found = self.file.metadata()?;
        let time = |secs, nanos| (secs, u32::try_from(nanos).unwrap_or(0));
        Ok(Stat {
            len: found.len(),
            taken: found.blocks() * 512,
            changed: time(found.mtime(), found.mtime_nsec()),
            status_changed: time(found.ctime(), found.ctime_nsec()),
        })
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        // One call, mostly: it is not asked how long the file is, and no memory is cleared.
        let mut bytes = Vec::new();
        while bytes.len() < len {
            bytes.reserve_exact((len - bytes.len()).min(READ_AT_ONCE));
            let at = offset.saturating_add(bytes.len() as u64);
            match rustix::io::pread(&self.file, rustix::buffer::spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // There may have been more room.
        bytes.truncate(len);
        Ok(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(len) => done += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&self.file, len)?)
    }

    fn empty(&self) -> io::Result<()> {
        self.truncate(0)?;
        forget_cut(&self.file);
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> io::Result<()> {
        let flags = if keep_len { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        match self.fallocate(flags, offset, len) {
            // Room cannot be taken ahead here: the file grows, and the writes will see.
            Err(error) if cannot(&error) => {
                let end = offset.saturating_add(len);
                if keep_len || self.stat()?.len >= end { Ok(()) } else { self.truncate(end) }
            }
            done => done,
        }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match self.fallocate(flags, offset, len) {
            Err(error) if cannot(&error) => {
                let end = offset.saturating_add(len).min(self.stat()?.len);
                self.write_zeros(offset, end)
            }
            done => done,
        }
    }

    fn zero(&self, offset: u64, len: u64, keep_len: bool) -> io::Result<()> {
        let mut flags = FallocateFlags::ZERO_RANGE;
        if keep_len {
            flags |= FallocateFlags::KEEP_SIZE;
        }
        match self.fallocate(flags, offset, len) {
            Err(error) if cannot(&error) => {
                let (end, size) = (offset.saturating_add(len), self.stat()?.len);
                self.write_zeros(offset, end.min(size))?;
                if keep_len || end <= size { Ok(()) } else { self.truncate(end) }
            }
            done => done,
        }
    }

    fn seek(&self, offset: u64, wanted: Wanted) -> io::Result<Option<u64>> {
        let from = match wanted {
            Wanted::Data => rustix::fs::SeekFrom::Data(offset),
            Wanted::Hole => rustix::fs::SeekFrom::Hole(offset),
        };
        match rustix::fs::seek(&self.file, from) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn copy_from(&self, from: &dyn Backing, at: u64, to: u64, len: u64) -> io::Result<u64> {
        let mut done = 0;
        if let Some(source) = from.descriptor() {
            while done < len {
                let (mut from_at, mut to_at) = (at + done, to + done);
                let part = usize::try_from(len - done).unwrap_or(usize::MAX).min(1 << 30);
                match rustix::fs::copy_file_range(
                    source,
                    Some(&mut from_at),
                    &self.file,
                    Some(&mut to_at),
                    part,
                ) {
                    Ok(0) => return Ok(done),
                    Ok(copied) => done += copied as u64,
                    Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::XDEV | Errno::INVAL) => break,
                    Err(_) if done > 0 => return Ok(done),
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        let mut buffer = vec![0; COPY_BYTES];
        while done < len {
            let part = (len - done).min(COPY_BYTES as u64) as usize;
            let space = buffer.get_mut(..part).unwrap_or_default();
            let read = from.read_at(space, at + done)?;
            if read == 0 {
                break;
            }
            self.write_at(space.get(..read).unwrap_or_default(), to + done)?;
            done += read as u64;
        }
        Ok(done)
    }

    fn set_changed(&self, (secs, nanos): (i64, u32)) -> io::Result<()> {
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: OMIT },
            last_modification: Timespec { tv_sec: secs, tv_nsec: nanos.into() },
        };
        Ok(rustix::fs::futimens(&self.file, &times)?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.file)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    fn sync_name(&self) -> io::Result<()> {
        if self.unnamed.load(Ordering::Acquire) {
            // The directories above it, as far as they may be new: up to that of the volume.
            let mut dir = self.dir.as_path();
            for _ in 0..20 {
                self.names.sync(dir)?;
                match dir.parent() {
                    Some(above) if !above.ends_with("fd") => dir = above,
                    _ => break,
                }
            }
            self.unnamed.store(false, Ordering::Release);
        }
        Ok(())
    }

    fn is_in_use(&self) -> io::Result<bool> {
        in_use::is_in_use(self.file.as_fd())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
