//! Open handles of a session: a number for each, bounded.

use crate::error::{Error, Kind, Result, bad_handle};
use crate::local::Backed;
use crate::op::readdir::Reading;
use crate::types::{DirHandle, Handle, Ino, OpenFlags};
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) ino: Ino,
    pub(crate) flags: OpenFlags,
    /// The file that the kernel reads and writes by itself.
    pub(crate) backed: Option<Arc<Backed>>,
    /// The kernel writes to it past its cache.
    pub(crate) direct: bool,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDir {
    pub(crate) ino: Ino,
    /// Where its reader is, when it has begun.
    pub(crate) reading: Mutex<Option<Reading>>,
}

/// The table of handles.
#[derive(Debug)]
pub(crate) struct Handles {
    table: Mutex<Table>,
    max: usize,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    files: BTreeMap<u64, Arc<OpenFile>>,
    dirs: BTreeMap<u64, Arc<OpenDir>>,
}

impl Table {
    fn number(&mut self, max: usize) -> Result<u64> {
        if self.files.len() + self.dirs.len() >= max {
            return Err(Error::new(
                Kind::TooManyOpen,
                format!("this session has {max} files open, the most that it may"),
            ));
        }
        self.next += 1;
        Ok(self.next)
    }
}

impl Handles {
    pub(crate) fn new(max: usize, from: u64) -> Self {
        Self { table: Mutex::new(Table { next: from, ..Table::default() }), max }
    }

    pub(crate) fn count(&self) -> usize {
        let table = self.table.lock();
        table.files.len() + table.dirs.len()
    }

    pub(crate) fn add_file(&self, file: OpenFile) -> Result<Handle> {
        let mut table = self.table.lock();
        let number = table.number(self.max)?;
        table.files.insert(number, Arc::new(file));
        Ok(Handle(number))
    }

    pub(crate) fn add_dir(&self, ino: Ino) -> Result<DirHandle> {
        let mut table = self.table.lock();
        let number = table.number(self.max)?;
        table.dirs.insert(number, Arc::new(OpenDir { ino, reading: Mutex::new(None) }));
        Ok(DirHandle(number))
    }

    pub(crate) fn file(&self, handle: Handle) -> Result<Arc<OpenFile>> {
        self.table.lock().files.get(&handle.0).cloned().ok_or_else(no_handle)
    }

    pub(crate) fn dir(&self, handle: DirHandle) -> Result<Arc<OpenDir>> {
        self.table.lock().dirs.get(&handle.0).cloned().ok_or_else(no_handle)
    }

    pub(crate) fn take_file(&self, handle: Handle) -> Result<Arc<OpenFile>> {
        self.table.lock().files.remove(&handle.0).ok_or_else(no_handle)
    }

    pub(crate) fn take_dir(&self, handle: DirHandle) -> Result<Arc<OpenDir>> {
        self.table.lock().dirs.remove(&handle.0).ok_or_else(no_handle)
    }
}

fn no_handle() -> Error {
    bad_handle("there is no such handle")
}
