//! An open directory of the host: its entries in the host's order, from any place that was reached before.

use rustix::fs::{FileType, OFlags, RawDir, SeekFrom};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// What is read of the host's directory at a time.
const BUFFER_BYTES: usize = 32 << 10;

pub(crate) struct Listing {
    fd: OwnedFd,
    /// The place before the first of `ready`.
    at: u64,
    ready: VecDeque<Entry>,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: FileType,
    pub(crate) host: u64,
    /// The place behind it.
    pub(crate) next: u64,
}

impl Listing {
    pub(crate) fn open(directory: &OwnedFd) -> rustix::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(directory, ".", flags, rustix::fs::Mode::empty())?;
        Ok(Self { fd, at: 0, ready: VecDeque::new() })
    }

    /// Goes to a place: 0, or one behind an entry.
    pub(crate) fn seek(&mut self, place: u64) -> rustix::io::Result<()> {
        if self.at != place {
            self.ready.clear();
            rustix::fs::seek(&self.fd, SeekFrom::Start(place))?;
            self.at = place;
        }
        Ok(())
    }

    /// The entry at this place, if there is one more.
    pub(crate) fn peek(&mut self) -> rustix::io::Result<Option<Entry>> {
        if self.ready.is_empty() {
            let mut buffer = Vec::with_capacity(BUFFER_BYTES);
            let mut entries = RawDir::new(&self.fd, buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                let entry = entry?;
                self.ready.push_back(Entry {
                    name: OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(),
                    kind: entry.file_type(),
                    host: entry.ino(),
                    next: entry.next_entry_cookie(),
                });
                if entries.is_buffer_empty() {
                    break;
                }
            }
        }
        Ok(self.ready.front().cloned())
    }

    /// Goes behind the entry that was peeked at.
    pub(crate) fn pass(&mut self) {
        if let Some(entry) = self.ready.pop_front() {
            self.at = entry.next;
        }
    }
}
