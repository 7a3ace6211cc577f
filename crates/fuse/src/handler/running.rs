//! Programs that run. The kernel looks whether a file runs only after it was opened, and an open that cuts a file
//! has cut it by then: who opens for reading alone, and cuts, is refused here.

use base::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the kernel adds to the flags of an open that runs the file.
pub(super) const EXEC: u32 = 0x20;

/// Handles by which files run, with their inodes.
#[derive(Debug, Default)]
pub(crate) struct Running {
    handles: Mutex<BTreeMap<u64, u64>>,
    count: AtomicUsize,
}

impl Running {
    pub(super) fn begin(&self, handle: u64, ino: u64) {
        self.handles.lock().insert(handle, ino);
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// A handle is closed, of whatever kind.
    pub(super) fn end(&self, handle: u64) {
        if self.count.load(Ordering::Acquire) > 0 && self.handles.lock().remove(&handle).is_some() {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(super) fn has(&self, ino: u64) -> bool {
        self.count.load(Ordering::Acquire) > 0
            && self.handles.lock().values().any(|running| *running == ino)
    }
}
