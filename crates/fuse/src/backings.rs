//! The files that the kernel uses by itself: which it knows, and by which numbers.
//!
//! The numbers belong to the connection and not to this process, so they are kept in memory that outlives it:
//! a file that is open must be given to the kernel by the same number again.

use crate::device::Device;
use base::sync::Mutex;
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes of an entry of the table: the blob and the number by which the kernel knows it, or an inode and none.
const ENTRY: usize = 16;
/// The number of what is no file: an inode that is open past the kernel's cache.
const DIRECT: u32 = u32::MAX;
/// The most files that the kernel knows of one mount.
const ENTRIES_MAX: usize = 1 << 16;

/// The files that the kernel knows.
#[derive(Debug)]
pub(crate) struct Backings {
    device: Arc<Device>,
    table: File,
    /// Another process may have the connection after this one, and with it the table.
    survives: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where in the table a blob is, and its number.
    known: BTreeMap<u64, (usize, u32)>,
    /// Where in the table an inode is that is open past the cache.
    direct: BTreeMap<u64, usize>,
    /// Those that were so when this process began.
    was_direct: BTreeSet<u64>,
    free: Vec<usize>,
    /// Entries that were ever used.
    used: usize,
    refused: bool,
}

impl State {
    /// A free entry of the table.
    fn take(&mut self) -> Option<usize> {
        if let Some(at) = self.free.pop() {
            return Some(at);
        }
        if self.used == ENTRIES_MAX {
            return None;
        }
        self.used += 1;
        Some(self.used - 1)
    }
}

impl Backings {
    /// For a new connection. `None` when the kernel does not take files of the directory.
    pub(crate) fn begin(
        device: &Arc<Device>,
        directory: Option<&Path>,
        survives: bool,
    ) -> Option<Arc<Self>> {
        let begun = || -> io::Result<Arc<Self>> {
            let directory = directory.ok_or(io::ErrorKind::NotFound)?;
            let how = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            let probe = rustix::fs::open(directory, how, Mode::RUSR | Mode::WUSR)?;
            let id = device.open_backing(probe.as_fd())?;
            device.close_backing(id)?;
            let table = rustix::fs::memfd_create("seamount-backings", MemfdFlags::CLOEXEC)?;
            let (device, table, state) = (Arc::clone(device), table.into(), Mutex::default());
            Ok(Arc::new(Self { device, table, survives, state }))
        };
        match begun() {
            Ok(begun) => Some(begun),
            Err(error) => {
                tracing::info!(%error, "files are read and written through the daemon");
                None
            }
        }
    }

    /// For a connection that another process had, with its table.
    pub(crate) fn resume(device: &Arc<Device>, table: OwnedFd) -> io::Result<Arc<Self>> {
        let table = File::from(table);
        let mut bytes = vec![0; usize::try_from(table.metadata()?.len()).unwrap_or(0)];
        table.read_exact_at(&mut bytes, 0)?;
        let mut state = State::default();
        for (at, entry) in bytes.as_chunks::<ENTRY>().0.iter().take(ENTRIES_MAX).enumerate() {
            let mut blob = [0; 8];
            blob.copy_from_slice(entry.get(..8).unwrap_or(&[0; 8]));
            let mut id = [0; 4];
            id.copy_from_slice(entry.get(8..12).unwrap_or(&[0; 4]));
            state.used = at + 1;
            match (u64::from_ne_bytes(blob), u32::from_ne_bytes(id)) {
                (0, _) => state.free.push(at),
                // It stays in the table, for the next process too.
                (ino, DIRECT) => drop(state.was_direct.insert(ino)),
                (blob, id) => drop(state.known.insert(blob, (at, id))),
            }
        }
        let state = Mutex::new(state);
        Ok(Arc::new(Self { device: Arc::clone(device), table, survives: true, state }))
    }

    /// Whether a descriptor is that of a table, and not of a connection.
    pub(crate) fn is_table(descriptor: &OwnedFd) -> bool {
        let stat = rustix::fs::fstat(descriptor);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    fn note(&self, at: usize, blob: u64, id: u32) -> io::Result<()> {
        let mut entry = [0; ENTRY];
        for (to, from) in
            entry.iter_mut().zip(blob.to_ne_bytes().into_iter().chain(id.to_ne_bytes()))
        {
            *to = from;
        }
        self.table.write_all_at(&entry, (at * ENTRY) as u64)
    }
}

impl AsFd for Backings {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }
}

impl fs::Registrar for Backings {
    fn register(&self, blob: u64, file: BorrowedFd<'_>) -> Option<u32> {
        let mut state = self.state.lock();
        if let Some((_, id)) = state.known.get(&blob) {
            return Some(*id);
        }
        let at = state.take()?;
        let made = self.device.open_backing(file).and_then(|id| {
            let noted = self.note(at, blob, id);
            if noted.is_err() {
                self.device.close_backing(id)?;
            }
            noted.map(|()| id)
        });
        match made {
            Ok(id) => {
                state.known.insert(blob, (at, id));
                Some(id)
            }
            Err(error) => {
                state.free.push(at);
                if !std::mem::replace(&mut state.refused, true) {
                    tracing::warn!(%error, blob, "the kernel does not take a file: it is served by this process");
                }
                None
            }
        }
    }

    fn unregister(&self, blob: u64, id: u32) {
        let mut state = self.state.lock();
        let Some((at, _)) = state.known.get(&blob).copied().filter(|(_, known)| *known == id)
        else {
            return;
        };
        let closed = self.device.close_backing(id).and_then(|()| self.note(at, 0, 0));
        if let Err(error) = closed {
            tracing::debug!(%error, blob, "the kernel keeps a file");
            return;
        }
        state.known.remove(&blob);
        state.free.push(at);
    }

    fn disown(&self, blob: u64) {
        let known = self.state.lock().known.get(&blob).copied();
        if let Some((_, id)) = known {
            self.unregister(blob, id);
        }
    }

    fn begin_direct(&self, ino: u64) -> bool {
        if !self.survives {
            return true;
        }
        let mut state = self.state.lock();
        let Some(at) = state.take() else {
            return false;
        };
        if self.note(at, ino, DIRECT).is_err() {
            state.free.push(at);
            return false;
        }
        state.direct.insert(ino, at);
        true
    }

    fn end_direct(&self, ino: u64) {
        if !self.survives {
            return;
        }
        let mut state = self.state.lock();
        let Some(at) = state.direct.remove(&ino) else {
            return;
        };
        // One that stays in the table is served without the cache, and else as any other.
        if self.note(at, 0, 0).is_ok() {
            state.free.push(at);
        }
    }

    fn was_direct(&self, ino: u64) -> bool {
        self.state.lock().was_direct.contains(&ino)
    }
}
