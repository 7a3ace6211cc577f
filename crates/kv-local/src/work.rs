//! Work in the background: folding layers into tables and merging tables, and who waits for it.

use crate::fold::LEVEL0_TABLES_MAX;
use crate::shared::Shared;
use base::sync::{Condvar, Mutex};
use kv::{Error, ErrorKind, Result};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Nobody commits for so long: it is quiet.
const MOMENT: Duration = Duration::from_millis(5);
/// With so many tables of level 0, two thirds of those that folding waits for, merging waits for no quiet moment.
const TABLES_WAITING_MAX: usize = LEVEL0_TABLES_MAX / 3 * 2;

/// What is to be done, and how it went.
#[derive(Debug, Default)]
pub(crate) struct Work {
    state: Mutex<State>,
    changed: Condvar,
    stopping: AtomicBool,
    poisoned: AtomicBool,
    /// Threads do the work. Otherwise whoever makes it does it, in place.
    threaded: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    fold_wanted: bool,
    merge_wanted: bool,
    reclaim_wanted: bool,
    /// For commits of this length, at most.
    reclaim_bytes: u64,
    /// How often getting space back was tried, and how the last try went.
    reclaims: u64,
    reclaim_failed: Option<Error>,
    /// How often folding was tried, and how the last try went.
    folds: u64,
    failed: Option<Error>,
    waiting: Vec<Waker>,
    poison: Option<Error>,
}

impl Work {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn is_threaded(&self) -> bool {
        self.threaded.load(Ordering::Relaxed)
    }

    pub(crate) fn set_threaded(&self) {
        self.threaded.store(true, Ordering::Relaxed);
    }

    /// The error after which the store must be opened again.
    pub(crate) fn poisoned(&self) -> Option<Error> {
        if !self.poisoned.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().poison.clone()
    }

    pub(crate) fn poison(&self, error: &Error) {
        self.state.lock().poison.get_or_insert_with(|| error.clone());
        self.poisoned.store(true, Ordering::Release);
    }

    pub(crate) fn want_fold(&self) {
        self.state.lock().fold_wanted = true;
        self.changed.notify_all();
    }

    fn want_merge(&self) {
        self.state.lock().merge_wanted = true;
        self.changed.notify_all();
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Taken so that nobody is between looking at the flag and going to sleep.
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        self.changed.notify_all();
        for waker in waiting {
            waker.wake();
        }
    }

    /// Waits until `take` finds its wish; false when the store is closing.
    fn wait(&self, take: impl Fn(&mut State) -> &mut bool) -> bool {
        let mut state = self.state.lock();
        loop {
            if self.is_stopping() {
                return false;
            }
            if std::mem::take(take(&mut state)) {
                return true;
            }
            state = self.changed.wait(state);
        }
    }

    /// Waits a moment, or until there is something new to do.
    fn pause(&self) {
        let state = self.state.lock();
        if !self.is_stopping() {
            drop(self.changed.wait_for(state, MOMENT));
        }
    }

    /// Whether somebody waits for a layer to be folded.
    fn is_fold_awaited(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    fn want_reclaim(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.reclaim_bytes = state.reclaim_bytes.max(bytes);
        (state.reclaim_wanted, state.merge_wanted) = (true, true);
        drop(state);
        self.changed.notify_all();
    }

    fn take_reclaim(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let bytes = std::mem::take(&mut state.reclaim_bytes);
        std::mem::take(&mut state.reclaim_wanted).then_some(bytes)
    }

    fn is_reclaim_wanted(&self) -> bool {
        self.state.lock().reclaim_wanted
    }

    fn reclaim_ended(&self, outcome: Result<()>) {
        let mut state = self.state.lock();
        state.reclaims += 1;
        state.reclaim_failed = outcome.err();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for waker in waiting {
            waker.wake();
        }
    }

    fn fold_ended(&self, outcome: Result<()>) {
        let mut state = self.state.lock();
        state.folds += 1;
        state.failed = outcome.err();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for waker in waiting {
            waker.wake();
        }
    }
}

/// Waits until folding was tried once more, and says how that went.
pub(crate) async fn folded(shared: &Shared) -> Result<()> {
    let work = &shared.work;
    let seen = work.state.lock().folds;
    if !work.is_threaded() {
        fold_now(shared);
    } else {
        work.want_fold();
    }
    poll_fn(|context| {
        if work.is_stopping() {
            return Poll::Ready(Err(Error::new(ErrorKind::Closed, "the store is closing")));
        }
        let mut state = work.state.lock();
        if state.folds > seen {
            return Poll::Ready(state.failed.clone().map_or(Ok(()), Err));
        }
        state.waiting.push(context.waker().clone());
        Poll::Pending
    })
    .await
}

/// Waits until getting space back was tried once more, and says how that went.
pub(crate) async fn reclaimed(shared: &Shared, bytes: u64) -> Result<()> {
    let work = &shared.work;
    let seen = work.state.lock().reclaims;
    if work.is_threaded() {
        work.want_reclaim(bytes);
    } else {
        work.reclaim_ended(shared.reclaim(bytes));
    }
    poll_fn(|context| {
        if work.is_stopping() {
            return Poll::Ready(Err(Error::new(ErrorKind::Closed, "the store is closing")));
        }
        if let Some(error) = work.poisoned() {
            return Poll::Ready(Err(error));
        }
        let mut state = work.state.lock();
        if state.reclaims > seen {
            return Poll::Ready(state.reclaim_failed.clone().map_or(Ok(()), Err));
        }
        state.waiting.push(context.waker().clone());
        Poll::Pending
    })
    .await
}

/// Tries to fold, here and now, and merges what that makes necessary.
pub(crate) fn fold_now(shared: &Shared) {
    let outcome = shared.fold();
    let folded = matches!(outcome, Ok(true));
    if folded {
        // Before anybody who waits for room goes on: the room is there only then.
        shared.move_old_snapshots();
    }
    shared.work.fold_ended(outcome.map(drop));
    if folded {
        shared.work.want_merge();
        if !shared.work.is_threaded() && !shared.read_only {
            // A merge that fails now is tried again after the next fold.
            while let Ok(true) = shared.merge() {}
        }
        reclaim_early(shared);
    }
}

/// On a disk that is full: gets back what was freed while there is room for it. What marks keys as gone takes room too, in
/// tables that only a merge joins with what they hide.
fn reclaim_early(shared: &Shared) {
    if shared.read_only || shared.reserve.is_whole() || !shared.may_reclaim() {
        return;
    }
    match shared.work.is_threaded() {
        true => shared.work.want_reclaim(0),
        // Should it fail, who needs the room is told.
        false => shared.work.reclaim_ended(shared.reclaim(0)),
    }
}

/// Waits for a moment in which nobody commits, as long as the work is not `pressing`: who commits much for a short
/// time has the CPU and the disk, and what is to be done is done behind that.
fn wait_for_quiet(shared: &Shared, pressing: impl Fn() -> bool) {
    let newest = || shared.visible.lock_soon().version;
    let mut seen = newest();
    while !pressing() && !shared.work.is_stopping() {
        shared.work.pause();
        let now = newest();
        if now == seen {
            return;
        }
        seen = now;
    }
}

/// The thread that folds.
pub(crate) fn fold_forever(shared: &Shared) {
    while shared.work.wait(|state| &mut state.fold_wanted) {
        // There must be time left before the next layer is full.
        let half = shared.options.overlay_bytes() / 2;
        wait_for_quiet(shared, || {
            shared.work.is_fold_awaited() || shared.visible.lock_soon().active.bytes() >= half
        });
        guarded(shared, || fold_now(shared));
    }
}

/// The thread that merges.
pub(crate) fn merge_forever(shared: &Shared) {
    // Who folds merges by itself when it cannot wait any longer.
    base::thread::stand_back();
    while shared.work.wait(|state| &mut state.merge_wanted) {
        guarded(shared, || {
            if let Some(bytes) = shared.work.take_reclaim() {
                shared.work.reclaim_ended(shared.reclaim(bytes));
            }
            let busy = || shared.work.is_stopping() || shared.work.is_reclaim_wanted();
            let pressing = || {
                let tables = shared.visible.lock_soon().levels.level(0).len();
                busy() || tables >= TABLES_WAITING_MAX
            };
            wait_for_quiet(shared, pressing);
            while !busy() && matches!(shared.merge(), Ok(true)) {
                wait_for_quiet(shared, pressing);
            }
        });
    }
}

/// The thread that syncs for those who do not wait.
pub(crate) fn sync_forever(shared: &Shared) {
    shared.syncs.serve(|| shared.visible.lock().version);
}

/// Runs `work`. Should it panic, which is a bug, those who wait are told instead of waiting for ever.
fn guarded(shared: &Shared, work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        let error = Error::new(
            ErrorKind::Closed,
            "a background thread of the store failed, so open the store again",
        );
        shared.poison(&error);
        shared.work.fold_ended(Err(error));
    }
}
