//! Group commit: whoever needs a sync first does it, for everybody who came before it began.

use crate::error::io_error;
use base::sync::{Condvar, Mutex};
use base::{Disk, File};
use kv::{Error, ErrorKind, OnSync, Result, Version};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// Which versions survive the loss of power.
pub(crate) struct Syncs {
    disk: Arc<dyn Disk>,
    synced: AtomicU64,
    /// Whether `state` holds a failure: looked at by every commit.
    has_failed: AtomicBool,
    state: Mutex<State>,
    /// For the thread that serves those who do not wait.
    called: Condvar,
}

impl std::fmt::Debug for Syncs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Syncs").field("synced", &self.synced).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    /// Files with versions that are not synced, oldest first; the last one is being written.
    files: Vec<Pending>,
    /// Somebody is syncing.
    busy: bool,
    waiting: Vec<Waker>,
    /// Those who do not wait, and what they want to survive.
    callers: Vec<(Version, OnSync)>,
    /// The thread that serves them sleeps.
    sleeps: bool,
    /// It serves no more.
    closed: bool,
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

impl State {
    /// Those callers who can be told how it went.
    fn take_done(&mut self, synced: Version) -> Vec<(OnSync, Result<()>)> {
        let failed = self.failed.clone();
        let mut done = Vec::new();
        self.callers = std::mem::take(&mut self.callers)
            .into_iter()
            .filter_map(|(version, caller)| match (&failed, version <= synced) {
                (_, true) => {
                    done.push((caller, Ok(())));
                    None
                }
                (Some(error), _) => {
                    done.push((caller, Err(error.clone())));
                    None
                }
                (None, false) => Some((version, caller)),
            })
            .collect();
        done
    }
}

impl Syncs {
    pub(crate) fn new(disk: Arc<dyn Disk>, synced: Version) -> Self {
        Self {
            disk,
            synced: AtomicU64::new(synced),
            has_failed: AtomicBool::new(false),
            state: Mutex::default(),
            called: Condvar::new(),
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

    /// Calls `done` when `version` survives, on the thread that [serves](Self::serve).
    pub(crate) fn call(&self, version: Version, done: OnSync) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return done(Err(Error::new(ErrorKind::Closed, "the store is closed")));
        }
        state.callers.push((version, done));
        self.wake_server(&mut state);
    }

    /// Whoever syncs meanwhile is as good: the thread is told when that has ended.
    fn wake_server(&self, state: &mut State) {
        if !state.busy && std::mem::take(&mut state.sleeps) {
            self.called.notify_one();
        }
    }

    /// Syncs for those who do not wait, one sync for all who are there, until it is [closed](Self::close) and
    /// nobody is left.
    pub(crate) fn serve(&self, current: impl Fn() -> Version) {
        let mut state = self.state.lock();
        loop {
            let done = state.take_done(self.synced());
            if !done.is_empty() {
                drop(state);
                for (done, outcome) in done {
                    // A panic is a bug of whoever is called, and keeps no other from being called: its message has
                    // been printed.
                    let _ = catch_unwind(AssertUnwindSafe(|| done(outcome)));
                }
                state = self.state.lock();
            } else if state.callers.is_empty() && state.closed {
                return;
            } else if state.callers.is_empty() || state.busy {
                state.sleeps = true;
                state = self.called.wait(state);
            } else {
                state.busy = true;
                drop(state);
                self.lead(current());
                state = self.state.lock();
            }
        }
    }

    /// Nobody can call from here on.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.called.notify_all();
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
            if !state.callers.is_empty() {
                self.wake_server(&mut state);
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
