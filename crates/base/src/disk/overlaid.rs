//! A disk over another that is only read: what is changed stays in memory, and goes with it.

use super::fault::no_space;
use super::{Disk, File, Lock, LockGuard};
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The most bytes of changes that are kept.
const BYTES_MAX: u64 = 256 << 20;

/// A disk that is read through and never written.
#[derive(Debug)]
pub struct Overlaid {
    below: Arc<dyn Disk>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Names that are other than below; `None` for one that is gone.
    names: BTreeMap<String, Option<Arc<dyn File>>>,
    /// Bytes that files in memory have.
    bytes: u64,
}

impl Overlaid {
    /// A disk that shows `below`.
    pub fn new(below: Arc<dyn Disk>) -> Self {
        Self { below, state: Arc::default() }
    }
}

impl Disk for Overlaid {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.below.list()?;
        let state = self.state.lock();
        names.retain(|name| !state.names.contains_key(name));
        let ours = state.names.iter().filter(|(_, file)| file.is_some());
        names.extend(ours.map(|(name, _)| name.clone()));
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        if self.open(name).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file: Arc<dyn File> =
            Arc::new(Fresh { state: Arc::clone(&self.state), content: Mutex::default() });
        self.state.lock().names.insert(name.to_owned(), Some(Arc::clone(&file)));
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        match state.names.get(name) {
            Some(Some(file)) => return Ok(Arc::clone(file)),
            Some(None) => return Err(io::ErrorKind::NotFound.into()),
            None => {}
        }
        let file = self.below.open(name)?;
        let len = Mutex::new(file.len()?);
        let file: Arc<dyn File> = Arc::new(Shown { file, len });
        // Kept, so that whoever opens it again sees where it was cut.
        state.names.insert(name.to_owned(), Some(Arc::clone(&file)));
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let file = self.open(from)?;
        let mut state = self.state.lock();
        state.names.insert(from.to_owned(), None);
        state.names.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.open(name)?;
        self.state.lock().names.insert(name.to_owned(), None);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Lock> {
        // Several may read; nobody may write meanwhile.
        Ok(self.below.lock_shared(name)?.unwrap_or_else(|| Lock::new(NoLock)))
    }

    fn lock_shared(&self, name: &str) -> io::Result<Option<Lock>> {
        self.below.lock_shared(name)
    }

    fn describe(&self) -> String {
        self.below.describe()
    }
}

/// There is no lock to take, so nobody has it.
#[derive(Debug)]
struct NoLock;

impl LockGuard for NoLock {}

/// A file of the disk below, perhaps cut short.
#[derive(Debug)]
struct Shown {
    file: Arc<dyn File>,
    len: Mutex<u64>,
}

impl File for Shown {
    fn len(&self) -> io::Result<u64> {
        Ok(*self.len.lock())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if offset.saturating_add(buffer.len() as u64) > *self.len.lock() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        Err(super::fault::read_only())
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        Err(super::fault::read_only())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut now = self.len.lock();
        if len > *now {
            return Err(super::fault::read_only());
        }
        *now = len;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file in memory.
#[derive(Debug)]
struct Fresh {
    state: Arc<Mutex<State>>,
    content: Mutex<Vec<u8>>,
}

impl Fresh {
    fn resize(&self, content: &mut Vec<u8>, len: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let bytes = (state.bytes - content.len() as u64).saturating_add(len);
        if bytes > BYTES_MAX {
            return Err(no_space());
        }
        state.bytes = bytes;
        content.resize(len as usize, 0);
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let len = self.content.lock().len() as u64;
        // The map of names may be what drops it, and holds the lock then.
        if let Some(mut state) = self.state.try_lock() {
            state.bytes -= len;
        }
    }
}

impl File for Fresh {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let content = self.content.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = start
            .checked_add(buffer.len())
            .and_then(|end| content.get(start..end))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut content = self.content.lock();
        let end = offset.saturating_add(bytes.len() as u64);
        if end > content.len() as u64 {
            self.resize(&mut content, end)?;
        }
        let start = offset as usize;
        content[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        // There is nothing to take ahead.
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.resize(&mut self.content.lock(), len)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
