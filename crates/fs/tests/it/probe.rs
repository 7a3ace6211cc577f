//! An engine that counts what is committed through it, and makes chosen commits unknown or the last.

use base::sync::Mutex;
use kv::{
    Capabilities, Commit, Engine, Error, ErrorKind, Fut, Key, Result, Snapshot, Version, Watch,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clones are the same probe.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    inner: Arc<dyn Engine>,
    capabilities: Capabilities,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    /// Commits by number, and whether they happen although nobody is told.
    unknown: BTreeMap<u64, bool>,
    /// From this commit on nothing is answered any more: the process has died.
    cut: Option<u64>,
}

/// What went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Commits that were tried.
    pub(crate) commits: u64,
    /// Their changes.
    pub(crate) ops: u64,
    /// Those that conflicted.
    pub(crate) conflicts: u64,
}

impl Probe {
    pub(crate) fn new(inner: Arc<dyn Engine>) -> Self {
        let capabilities = Capabilities { unknown_commits: true, ..inner.capabilities().clone() };
        Self { inner, capabilities, state: Arc::default() }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Counts anew, and makes these commits unknown, counted from 1.
    pub(crate) fn unknown(&self, commits: &[(u64, bool)]) {
        let unknown = commits.iter().copied().collect();
        *self.state.lock() = State { unknown, ..State::default() };
    }

    /// Counts anew, and lets only so many commits through.
    pub(crate) fn cut_after(&self, commits: u64) {
        *self.state.lock() = State { cut: Some(commits), ..State::default() };
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the process has died")
}

impl Engine for Probe {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn snapshot(&self) -> Fut<'static, Result<Box<dyn Snapshot>>> {
        let state = self.state.lock();
        if state.cut.is_some_and(|cut| state.counts.commits > cut) {
            return Fut::ready(Err(closed()));
        }
        self.inner.snapshot()
    }

    fn commit(&self, snapshot: Box<dyn Snapshot>, commit: Commit) -> Fut<'static, Result<Version>> {
        let mut state = self.state.lock();
        state.counts.commits += 1;
        state.counts.ops += commit.ops.len() as u64;
        let number = state.counts.commits;
        if state.cut.is_some_and(|cut| number > cut) {
            return Fut::ready(Err(closed()));
        }
        let unknown = || Error::new(ErrorKind::Unknown, "the answer was lost");
        let fate = state.unknown.get(&number).copied();
        drop(state);
        let state = Arc::clone(&self.state);
        match fate {
            Some(false) => Fut::ready(Err(unknown())),
            Some(true) => {
                let done = self.inner.commit(snapshot, commit);
                done.map(move |done| done.and_then(|_| Err(unknown())))
            }
            None => self.inner.commit(snapshot, commit).map(move |done| {
                if let Err(error) = &done
                    && error.kind() == ErrorKind::Conflict
                {
                    state.lock().counts.conflicts += 1;
                }
                done
            }),
        }
    }

    fn sync(&self) -> Fut<'static, Result<()>> {
        self.inner.sync()
    }

    fn watch(&self, key: &Key, since: Version) -> Fut<'static, Result<Watch>> {
        self.inner.watch(key, since)
    }
}
