//! Handles that the kernel has from a process that died: whatever it asks by one is asked of a handle
//! that is opened for it now, as the request says which inode is meant.

use super::{Handler, caller, gone};
use crate::reply::Errno;
use crate::request::Header;
use base::sync::Mutex;
use fs::{DirHandle, Handle, OpenFlags};
use std::collections::BTreeMap;

/// Old handles, and those that stand for them.
#[derive(Debug, Default)]
pub(crate) struct Adopted {
    /// Handles up to this number are old ones.
    upto: u64,
    files: Mutex<BTreeMap<u64, Handle>>,
    dirs: Mutex<BTreeMap<u64, DirHandle>>,
}

impl Adopted {
    pub(crate) fn new(upto: u64) -> Self {
        Self { upto, ..Self::default() }
    }

    pub(super) fn is_old(&self, handle: u64) -> bool {
        handle <= self.upto
    }
}

impl Handler {
    /// The handle of an open file that is meant.
    pub(super) async fn file(&self, header: Header, handle: u64) -> Result<Handle, Errno> {
        if !self.adopted.is_old(handle) {
            return Ok(Handle(handle));
        }
        let known = self.adopted.files.lock().get(&handle).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        // The kernel lets through what the file was opened for, and says where to append.
        let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        let fresh = self.session.open(&caller(header, 0), header.ino, flags).await.map_err(gone)?;
        // Another request by the same handle may have been faster.
        let known = *self.adopted.files.lock().entry(handle).or_insert(fresh);
        if known != fresh {
            self.session.release(fresh).await?;
        }
        Ok(known)
    }

    /// The handle of an open directory that is meant.
    pub(super) async fn dir(&self, header: Header, handle: u64) -> Result<DirHandle, Errno> {
        if !self.adopted.is_old(handle) {
            return Ok(DirHandle(handle));
        }
        let known = self.adopted.dirs.lock().get(&handle).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let fresh = self.session.opendir(&caller(header, 0), header.ino).await.map_err(gone)?;
        let known = *self.adopted.dirs.lock().entry(handle).or_insert(fresh);
        if known != fresh {
            self.session.releasedir(fresh).await?;
        }
        Ok(known)
    }

    /// The handle to let go of; `None` when there never was one here.
    pub(super) fn file_to_close(&self, handle: u64) -> Option<Handle> {
        match self.adopted.is_old(handle) {
            true => self.adopted.files.lock().remove(&handle),
            false => Some(Handle(handle)),
        }
    }

    /// The same for a directory.
    pub(super) fn dir_to_close(&self, handle: u64) -> Option<DirHandle> {
        match self.adopted.is_old(handle) {
            true => self.adopted.dirs.lock().remove(&handle),
            false => Some(DirHandle(handle)),
        }
    }
}
