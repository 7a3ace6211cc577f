//! Group commit: whoever needs a sync first does it, for everybody who came before it began.

use crate::error::io_error;
use base::sync::Mutex;
use base::{Disk, File};
use kv::{Error, ErrorKind, Result, Version};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// Which versions survive the loss of power.
#[derive(Debug)]
pub(crate) struct Syncs {
    disk: Arc<dyn Disk>,
    synced: AtomicU64,
    /// Whether `state` holds a failure: looked at by every commit.
    has_failed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Files with versions that are not synced, oldest first; the last one is being written.
    files: Vec<Pending>,
    /// Somebody is syncing.
    busy: bool,
    waiting: Vec<Waker>,
    /// A sync failed: what it should have written may be gone, and no later one can tell.
    failed: Option<Error>,
}

#[derive(Debug, Clone)]
struct Pending {
    number: u64,
    file: Arc<dyn File>,
    /// Its name is not durable yet.
    nameless: bool,
}

impl Syncs {
    pub(crate) fn new(disk: Arc<dyn Disk>, synced: Version) -> Self {
        Self {
            disk,
            synced: AtomicU64::new(synced),
            has_failed: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// The newest version that is known to survive.
    pub(crate) fn synced(&self) -> Version {
        self.synced.load(Ordering::Acquire)
    }

    /// Versions up to `version` are safe by other means: they are in a table.
    pub(crate) fn raise(&self, version: Version) {
        self.synced.fetch_max(version, Ordering::AcqRel);
    }

    /// From now on commits go to this file.
    pub(crate) fn start_file(&self, number: u64, file: &Arc<dyn File>, nameless: bool) {
        self.state.lock().files.push(Pending { number, file: Arc::clone(file), nameless });
    }

    /// Logs below `number` are not needed any more: what they had is in tables.
    pub(crate) fn forget_before(&self, number: u64) {
        self.state.lock().files.retain(|pending| pending.number >= number);
    }

    /// The error that makes every later commit fail, if there is one.
    pub(crate) fn failure(&self) -> Option<Error> {
        if !self.has_failed.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().failed.clone()
    }

    /// Waits until `version` survives. `current` tells the newest version in the log, and is asked
    /// before the files are synced.
    pub(crate) async fn wait(&self, version: Version, current: impl Fn() -> Version) -> Result<()> {
        poll_fn(|context| {
            loop {
                if self.synced() >= version {
                    return Poll::Ready(Ok(()));
                }
                let mut state = self.state.lock();
                if let Some(error) = &state.failed {
                    return Poll::Ready(Err(error.clone()));
                }
                if state.busy {
                    state.waiting.push(context.waker().clone());
                    drop(state);
                    // The sync may have ended before the waker was there.
                    if self.synced() >= version {
                        return Poll::Ready(Ok(()));
                    }
                    return Poll::Pending;
                }
                state.busy = true;
                drop(state);
                self.lead(current());
            }
        })
        .await
    }

    /// Syncs what is in the logs now.
    fn lead(&self, target: Version) {
        let files = self.state.lock().files.clone();
        let outcome = self.sync_files(&files);
        let waiting = {
            let mut state = self.state.lock();
            state.busy = false;
            match outcome {
                Ok(()) => {
                    self.raise(target);
                    for pending in &mut state.files {
                        if files.iter().any(|done| done.number == pending.number) {
                            pending.nameless = false;
                        }
                    }
                    // All but the last are never written again.
                    if let Some(last) = files.last() {
                        state.files.retain(|pending| pending.number >= last.number);
                    }
                }
                Err(error) => {
                    self.has_failed.store(true, Ordering::Release);
                    state.failed = Some(Error::new(
                        ErrorKind::Unknown,
                        format!("a sync failed, so open the store again: {error}"),
                    ));
                }
            }
            std::mem::take(&mut state.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }

    fn sync_files(&self, files: &[Pending]) -> Result<()> {
        for pending in files {
            pending.file.sync().map_err(|error| io_error("cannot sync the log", error))?;
        }
        if files.iter().any(|pending| pending.nameless) {
            self.disk
                .sync_dir()
                .map_err(|error| io_error("cannot sync the store's directory", error))?;
        }
        Ok(())
    }
}
