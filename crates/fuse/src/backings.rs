//! The files that the kernel uses by itself: which it knows, and by which numbers.
//!
//! The numbers belong to the connection and not to this process, so they are noted in memory that outlives it:
//! a file that is open must be given to the kernel by the same number again.

use crate::device::Device;
use crate::notes::{Notes, entry_of, number_in};
use base::sync::Mutex;
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a note: the blob and the number by which the kernel knows it. No blob and a number: the kernel is being
/// told that it need not know it any more.
const ENTRY: usize = 16;
/// The most files that the kernel knows of one mount.
const KNOWN_MAX: usize = 1 << 16;
/// What the notes take at most.
pub(crate) const NOTED_BYTES: u64 = (ENTRY * KNOWN_MAX) as u64;

/// The files that the kernel knows.
#[derive(Debug)]
pub(crate) struct Backings {
    device: Arc<Device>,
    table: Arc<File>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    notes: Notes<ENTRY>,
    /// Where a blob is noted, and its number.
    known: BTreeMap<u64, (usize, u32)>,
    refused: bool,
}

impl Backings {
    /// For a new connection. `None` when the kernel does not take files of the directory.
    pub(crate) fn begin(device: &Arc<Device>, directory: Option<&Path>) -> Option<Arc<Self>> {
        let begun = || -> io::Result<Arc<Self>> {
            let directory = directory.ok_or(io::ErrorKind::NotFound)?;
            let how = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            let probe = rustix::fs::open(directory, how, Mode::RUSR | Mode::WUSR)?;
            let id = device.open_backing(probe.as_fd())?;
            device.close_backing(id)?;
            let table = rustix::fs::memfd_create("seamount-backings", MemfdFlags::CLOEXEC)?;
            let table = Arc::new(File::from(table));
            let notes = Notes::new(&table, 0, KNOWN_MAX);
            let state = Mutex::new(State { notes, known: BTreeMap::new(), refused: false });
            Ok(Arc::new(Self { device: Arc::clone(device), table, state }))
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
    pub(crate) fn resume(device: &Arc<Device>, table: &Arc<File>) -> io::Result<Arc<Self>> {
        let (mut notes, found) = Notes::<ENTRY>::resume(table, 0, KNOWN_MAX)?;
        let mut known = BTreeMap::new();
        for (at, entry) in found {
            let (blob, id) = (number_in(&entry, 0), number_in(&entry, 1) as u32);
            match blob {
                0 => {
                    // It died over this. The kernel may have been told, and says so then.
                    let _ = device.close_backing(id);
                    notes.clear(at)?;
                }
                blob => drop(known.insert(blob, (at, id))),
            }
        }
        // Or just before a number was noted. The kernel counts upwards. Where it takes no file now, one may stay open.
        if let Ok(next) = device.open_backing(table.as_fd()) {
            let _ = device.close_backing(next);
            let last = next.saturating_sub(1);
            if last > 0 && !known.values().any(|(_, id)| *id == last) {
                let _ = device.close_backing(last);
            }
        }
        let state = Mutex::new(State { notes, known, refused: false });
        Ok(Arc::new(Self { device: Arc::clone(device), table: Arc::clone(table), state }))
    }

    /// Whether a descriptor is that of a table, and not of a connection.
    pub(crate) fn is_table(descriptor: &OwnedFd) -> bool {
        let stat = rustix::fs::fstat(descriptor);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    /// The memory that outlives this process.
    pub(crate) fn table(&self) -> &Arc<File> {
        &self.table
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
        let at = state.notes.take()?;
        let made = self.device.open_backing(file).and_then(|id| {
            let noted = state.notes.write(at, &entry_of(&[blob, id.into()]));
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
                state.notes.put_back(at);
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
        // Noted first: a number that the kernel does not know any more must never be given to it, by the next
        // process neither.
        let closed = state
            .notes
            .write(at, &entry_of(&[0, id.into()]))
            .and_then(|()| self.device.close_backing(id))
            .and_then(|()| state.notes.clear(at));
        state.known.remove(&blob);
        if let Err(error) = closed {
            tracing::debug!(%error, blob, "the kernel keeps a file");
        }
    }

    fn disown(&self, blob: u64) {
        let known = self.state.lock().known.get(&blob).copied();
        if let Some((_, id)) = known {
            self.unregister(blob, id);
        }
    }
}
