//! File names made before the clock runs, and an open directory that they are used in.

use super::error::Error;
use rustix::fs::{CWD, Mode, OFlags, RawDir};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// `prefix0000000`, `prefix0000001`, ...
pub(crate) fn list(prefix: &str, count: u64) -> Vec<CString> {
    (0..count).map(|index| name(prefix, index)).collect()
}

pub(crate) fn name(prefix: &str, index: u64) -> CString {
    // No prefix of ours holds a zero byte.
    CString::new(format!("{prefix}{index:07}")).unwrap_or_default()
}

/// A directory made for one workload.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    pub(crate) fn make(path: PathBuf) -> Result<Self, Error> {
        std::fs::create_dir(&path)
            .map_err(|error| Error::io("making a directory", &path, error))?;
        Self::open(path)
    }

    pub(crate) fn open(path: PathBuf) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, &path, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path }),
            Err(error) => Err(Error::io("opening a directory", &path, error)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Lists the directory anew and says how many names it has.
    pub(crate) fn list(
        &self,
        mut each: impl FnMut(&CStr) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        const BUFFER_BYTES: usize = 64 << 10;
        let again = Self::open(self.path.clone())?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        let mut entries = RawDir::new(again.fd(), buffer.spare_capacity_mut());
        let mut count = 0;
        while let Some(entry) = entries.next() {
            let entry =
                entry.map_err(|error| Error::io("listing a directory", &self.path, error))?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                each(name)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Fails unless the directory has exactly this many names.
    pub(crate) fn expect(&self, count: u64) -> Result<(), Error> {
        match self.list(|_| Ok(()))? {
            found if found == count => Ok(()),
            found => Err(Error::wrong(
                &self.path,
                format!("{count} names were made, {found} are listed"),
            )),
        }
    }
}
