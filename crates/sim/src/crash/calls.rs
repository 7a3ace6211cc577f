//! Makes the calls on a mount. Everything is reached through a descriptor of its root: when the daemon is
//! gone a path would lead to what is below the mount, and succeed there.

use super::model::Call;
use crate::real::fill;
use rustix::fs::{CWD, FallocateFlags, RenameFlags, XattrFlags};
use rustix::fs::{fallocate, removexattr, renameat_with, setxattr};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Files that a writer keeps open.
const OPEN_MAX: usize = 4;
/// Files that it keeps open without a name.
const ORPHANS_MAX: usize = 3;

/// The name of an extended attribute.
pub(super) fn key_name(key: u8) -> String {
    format!("user.key-{key}")
}

/// What a call needs to know of its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    /// Its number in the model.
    pub(super) number: u64,
    /// Where it ends.
    pub(super) end: usize,
    /// It has no further name.
    pub(super) only_name: bool,
    /// The text of a record.
    pub(super) record: &'a str,
}

/// A mount, seen by a writer in one round.
#[derive(Debug)]
pub(super) struct Seat {
    /// Keeps the mount reachable.
    _root: File,
    within: PathBuf,
    /// By the file's number in the model.
    open: BTreeMap<u64, File>,
    orphans: Vec<File>,
    log: Option<File>,
}

impl Seat {
    /// Takes hold of a mount.
    pub(super) fn take(mountpoint: &Path) -> io::Result<Self> {
        let root = File::open(mountpoint)?;
        let within = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
        Ok(Self { _root: root, within, open: BTreeMap::new(), orphans: Vec::new(), log: None })
    }

    /// A path in it.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.within.join(path)
    }

    /// The file of this number, open for reading and writing.
    fn file(&mut self, number: u64, path: &str) -> io::Result<&File> {
        if !self.open.contains_key(&number) {
            if self.open.len() >= OPEN_MAX {
                self.open.pop_first();
            }
            let file = File::options().read(true).write(true).open(self.at(path))?;
            self.open.insert(number, file);
        }
        self.open.get(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes a call.
    pub(super) fn call(&mut self, call: &Call, about: About<'_>) -> io::Result<()> {
        let About { number, end, only_name, record } = about;
        match call {
            Call::Create { path, mode } => {
                let mut options = File::options();
                options.read(true).write(true).create_new(true).mode(*mode);
                let file = options.open(self.at(path))?;
                if self.open.len() < OPEN_MAX {
                    self.open.insert(number, file);
                }
                Ok(())
            }
            Call::Write { path, at, len, seed } => {
                let bytes = fill(*seed, *len);
                if let Some(orphan) = self.orphans.first() {
                    orphan.write_all_at(&bytes, *at as u64)?;
                }
                whole(self.file(number, path)?.write_at(&bytes, *at as u64)?, *len)
            }
            Call::Append { path, len, seed } => {
                let bytes = fill(*seed, *len);
                whole(self.file(number, path)?.write_at(&bytes, end as u64)?, *len)
            }
            Call::Sync { path } if path.contains('/') && self.at(path).is_file() => {
                self.file(number, path)?.sync_all()
            }
            Call::Sync { path } => File::open(self.at(path))?.sync_all(),
            Call::Truncate { path, len } => self.file(number, path)?.set_len(*len as u64),
            Call::Punch { path, at, len } => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                Ok(fallocate(self.file(number, path)?, how, *at as u64, *len as u64)?)
            }
            Call::Rename { from, to } => fs::rename(self.at(from), self.at(to)),
            Call::Exchange { one, other } => {
                let flags = RenameFlags::EXCHANGE;
                Ok(renameat_with(CWD, self.at(one), CWD, self.at(other), flags)?)
            }
            Call::Link { from, to } => fs::hard_link(self.at(from), self.at(to)),
            Call::Symlink { path, target } => symlink(target, self.at(path)),
            Call::Unlink { path } => {
                fs::remove_file(self.at(path))?;
                // Written to from now on, it must be nobody's.
                if only_name && let Some(file) = self.open.remove(&number) {
                    self.orphans.truncate(ORPHANS_MAX - 1);
                    self.orphans.insert(0, file);
                }
                Ok(())
            }
            Call::Mkdir { path } => fs::create_dir(self.at(path)),
            Call::Rmdir { path } => fs::remove_dir(self.at(path)),
            Call::SetXattr { path, key, len, seed } => {
                let value = fill(*seed, *len);
                Ok(setxattr(self.at(path), key_name(*key), &value, XattrFlags::empty())?)
            }
            Call::RemoveXattr { path, key } => Ok(removexattr(self.at(path), key_name(*key))?),
            Call::Chmod { path, mode } => {
                fs::set_permissions(self.at(path), Permissions::from_mode(*mode))
            }
            Call::Times { path, secs } => {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(secs.unsigned_abs());
                self.file(number, path)?.set_modified(time)
            }
            Call::Record { .. } => {
                if self.log.is_none() {
                    self.log = Some(File::options().append(true).open(self.at(super::LOG))?);
                }
                let Some(log) = &mut self.log else { return Ok(()) };
                whole(log.write(record.as_bytes())?, record.len())
            }
        }
    }
}

/// A write that was answered with fewer bytes has not failed, but these are sizes that go as a whole.
fn whole(written: usize, len: usize) -> io::Result<()> {
    if written == len {
        return Ok(());
    }
    Err(io::Error::other(format!("{written} bytes of {len} were written")))
}
