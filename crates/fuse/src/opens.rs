//! What the kernel has open by each handle, and in which way, where another process may follow: the kernel takes no
//! other way for an inode while one of its handles is open, and tells nobody which are.

use crate::notes::{Notes, entry_of, number_in};
use base::sync::Mutex;
use fs::{Ino, Way};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Handle, inode, the number of the request that it was opened for, and the way.
const ENTRY: usize = 32;
/// Behind the files that the kernel knows.
const FROM: u64 = crate::backings::NOTED_BYTES;
/// So many are noted without a call.
const IN_MEMORY: usize = 2048;
/// The most files that are open at once.
const OPEN_MAX: usize = 1 << 20;

/// Files that the kernel has open.
#[derive(Debug, Default)]
pub(crate) struct Opens(Option<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    notes: Notes<ENTRY>,
    /// Where each handle is noted.
    open: BTreeMap<u64, (usize, Ino)>,
    /// Of handles from before this process: those by the request that they were opened for.
    before: BTreeMap<u64, u64>,
    /// Handles up to this one are from before.
    upto: u64,
}

/// A handle that was noted before this process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Noted {
    at: usize,
    handle: u64,
    ino: Ino,
    request: u64,
    way: Way,
}

impl Noted {
    fn of((at, entry): &(usize, [u8; ENTRY])) -> Option<Self> {
        let way = match number_in(entry, 3) {
            1 => Way::Kernel,
            2 => Way::Cached,
            3 => Way::Direct,
            _ => return None,
        };
        let (handle, ino, request) =
            (number_in(entry, 0), number_in(entry, 1), number_in(entry, 2));
        Some(Self { at: *at, handle, ino, request, way })
    }
}

fn number_of(way: Way) -> u64 {
    match way {
        Way::Kernel => 1,
        Way::Cached => 2,
        Way::Direct => 3,
    }
}

/// What the process before has noted.
pub(crate) fn noted(table: &Arc<File>) -> io::Result<Vec<(Ino, Way)>> {
    let (_, found) = Notes::resume(table, FROM, OPEN_MAX)?;
    Ok(found.iter().filter_map(Noted::of).map(|noted| (noted.ino, noted.way)).collect())
}

impl Opens {
    /// For a new connection that another process may have after this one.
    pub(crate) fn begin(table: &Arc<File>) -> Self {
        let notes = Notes::new(table, FROM, OPEN_MAX).in_memory(IN_MEMORY);
        let (open, before) = (BTreeMap::new(), BTreeMap::new());
        Self(Some(Mutex::new(Table { notes, open, before, upto: 0 })))
    }

    /// For a connection that another process had, whose handles went up to a number.
    pub(crate) fn resume(table: &Arc<File>, upto: u64) -> io::Result<Self> {
        let (notes, found) = Notes::resume(table, FROM, OPEN_MAX)?;
        let notes = notes.in_memory(IN_MEMORY);
        let (mut open, mut before) = (BTreeMap::new(), BTreeMap::new());
        for noted in found.iter().filter_map(Noted::of) {
            open.insert(noted.handle, (noted.at, noted.ino));
            before.insert(noted.request, noted.handle);
        }
        Ok(Self(Some(Mutex::new(Table { notes, open, before, upto }))))
    }

    /// Whether anything is noted.
    pub(crate) fn are_noted(&self) -> bool {
        self.0.is_some()
    }

    /// A file was opened for a request. Noted before the kernel is told: false when it cannot be.
    pub(crate) fn add(&self, handle: u64, ino: Ino, request: u64, way: Way) -> bool {
        let Some(table) = &self.0 else {
            return true;
        };
        let mut table = table.lock();
        let Some(at) = table.notes.take() else {
            return false;
        };
        if table.notes.write(at, &entry_of(&[handle, ino, request, number_of(way)])).is_err() {
            table.notes.put_back(at);
            return false;
        }
        table.open.insert(handle, (at, ino));
        true
    }

    /// The kernel has closed it. Tells the inode when the handle is from before this process.
    pub(crate) fn remove(&self, handle: u64) -> Option<Ino> {
        self.0.as_ref()?.lock().remove(handle)
    }

    /// A request comes again that the process before had opened a file for, and not answered: the kernel has never
    /// had that handle. Tells the inode.
    pub(crate) fn remove_unanswered(&self, request: u64) -> Option<Ino> {
        let mut table = self.0.as_ref()?.lock();
        let handle = table.before.remove(&request)?;
        table.remove(handle)
    }
}

impl Table {
    fn remove(&mut self, handle: u64) -> Option<Ino> {
        let (at, ino) = self.open.remove(&handle)?;
        if let Err(error) = self.notes.clear(at) {
            // The next process takes it for open, which costs speed alone.
            tracing::debug!(%error, ino, "a closed file stays noted");
        }
        (handle <= self.upto).then_some(ino)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_knows_what_is_open_and_how() {
        let how = rustix::fs::MemfdFlags::CLOEXEC;
        let file = Arc::new(File::from(rustix::fs::memfd_create("opens", how).unwrap()));
        let first = Opens::begin(&file);
        assert!(first.add(1, 10, 100, Way::Kernel));
        assert!(first.add(2, 20, 101, Way::Cached));
        assert!(first.add(3, 20, 102, Way::Cached));
        assert!(first.add(4, 30, 103, Way::Direct));
        assert_eq!(first.remove(1), None, "one of its own");
        let open = [(20, Way::Cached), (20, Way::Cached), (30, Way::Direct)];
        assert_eq!(noted(&file).unwrap(), open);
        let second = Opens::resume(&file, 1 << 40).unwrap();
        assert_eq!(second.remove(1), None, "closed before");
        assert_eq!(second.remove_unanswered(102), Some(20));
        assert_eq!(second.remove_unanswered(102), None, "once");
        assert!(second.add((1 << 40) + 1, 20, 104, Way::Cached));
        assert_eq!(second.remove(2), Some(20));
        assert_eq!(second.remove((1 << 40) + 1), None);
        // A third one, of which the second has told nothing yet.
        assert_eq!(noted(&file).unwrap(), [(30, Way::Direct)]);
        let third = Opens::resume(&file, 2 << 40).unwrap();
        assert_eq!(third.remove(4), Some(30));
        assert!(noted(&file).unwrap().is_empty());
    }

    #[test]
    fn nothing_is_noted_where_nobody_follows() {
        let opens = Opens::default();
        assert!(!opens.are_noted());
        assert!(opens.add(1, 10, 100, Way::Kernel));
        assert_eq!((opens.remove(1), opens.remove_unanswered(100)), (None, None));
    }
}
