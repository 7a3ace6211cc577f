//! A file that is there and cannot be opened: whatever is asked of it is that error.

use crate::{Backing, Stat, Wanted};
use std::io;
use std::os::fd::BorrowedFd;

/// Stands in for a file that could not be opened.
#[derive(Debug)]
pub struct Unreadable {
    errno: Option<i32>,
    kind: io::ErrorKind,
    words: String,
}

impl Unreadable {
    /// For what opening it ended with.
    pub fn new(error: &io::Error) -> Self {
        Self { errno: error.raw_os_error(), kind: error.kind(), words: error.to_string() }
    }

    fn error<T>(&self) -> io::Result<T> {
        Err(match self.errno {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(self.kind, self.words.clone()),
        })
    }
}

impl Backing for Unreadable {
    fn stat(&self) -> io::Result<Stat> {
        self.error()
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        self.error()
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        self.error()
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        self.error()
    }

    fn allocate(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        self.error()
    }

    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        self.error()
    }

    fn zero(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        self.error()
    }

    fn seek(&self, _: u64, _: Wanted) -> io::Result<Option<u64>> {
        self.error()
    }

    fn copy_from(&self, _: &dyn Backing, _: u64, _: u64, _: u64) -> io::Result<u64> {
        self.error()
    }

    fn set_changed(&self, _: (i64, u32)) -> io::Result<()> {
        self.error()
    }

    fn sync(&self) -> io::Result<()> {
        self.error()
    }

    fn sync_name(&self) -> io::Result<()> {
        self.error()
    }

    fn is_in_use(&self) -> io::Result<bool> {
        self.error()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
