//! Waiting for a key to change.

use crate::{Error, ErrorKind, Key, KeyRange, Op, Result};
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// A future that is ready when a key may have changed, or when the store cannot tell any more.
/// Dropping it stops the watch.
pub struct Watch(Kind);

enum Kind {
    /// An entry of a table, taken out when it is dropped.
    Entry { state: Arc<Mutex<State>>, table: Arc<Table>, key: Key },
    /// Whatever an engine waits for.
    Other(Pin<Box<dyn Future<Output = Result<()>> + Send>>),
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Result<()>>,
    waker: Option<Waker>,
}

fn settle(state: &Mutex<State>, outcome: Result<()>) {
    let waker = {
        let mut state = state.lock();
        if state.outcome.is_none() {
            state.outcome = Some(outcome);
        }
        state.waker.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Watch {
    /// A watch that is ready when `future` is.
    pub fn new(future: impl Future<Output = Result<()>> + Send + 'static) -> Self {
        Watch(Kind::Other(Box::pin(future)))
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Entry { key, .. } => write!(f, "Watch({key:?})"),
            Kind::Other(_) => f.write_str("Watch"),
        }
    }
}

impl Future for Watch {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.0 {
            Kind::Other(future) => future.as_mut().poll(context),
            Kind::Entry { state, .. } => {
                let mut state = state.lock();
                match &state.outcome {
                    Some(outcome) => Poll::Ready(outcome.clone()),
                    None => {
                        state.waker = Some(context.waker().clone());
                        Poll::Pending
                    }
                }
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Kind::Entry { state, table, key } = &self.0 {
            table.forget(key, state);
        }
    }
}

/// The watches of an engine whose commits all pass through this process.
#[derive(Debug, Default)]
pub struct WatchTable(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    /// How many watches there are: a commit looks no further when there are none.
    count: AtomicUsize,
    keys: Mutex<BTreeMap<Key, Vec<Arc<Mutex<State>>>>>,
}

impl Table {
    fn forget(&self, key: &Key, state: &Arc<Mutex<State>>) {
        let mut keys = self.keys.lock();
        if let Some(states) = keys.get_mut(key) {
            let before = states.len();
            states.retain(|other| !Arc::ptr_eq(other, state));
            self.count.fetch_sub(before - states.len(), Ordering::SeqCst);
            if states.is_empty() {
                keys.remove(key);
            }
        }
    }
}

impl WatchTable {
    /// Starts to watch `key`. The caller must look for a change that came before *after* this
    /// returns, and [`fire`](Self::fire) the key if there was one; otherwise it could be missed.
    pub fn add(&self, key: &Key) -> Watch {
        let state = Arc::new(Mutex::new(State::default()));
        let mut keys = self.0.keys.lock();
        keys.entry(key.clone()).or_default().push(Arc::clone(&state));
        self.0.count.fetch_add(1, Ordering::SeqCst);
        drop(keys);
        Watch(Kind::Entry { state, table: Arc::clone(&self.0), key: key.clone() })
    }

    /// Whether nobody watches anything.
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::SeqCst) == 0
    }

    /// Fires the watches of the keys of `range`.
    pub fn fire(&self, range: &KeyRange) {
        if self.is_empty() || range.is_empty() {
            return;
        }
        let bounds = (Bound::Included(&*range.start), Bound::Excluded(&*range.end));
        let mut fired = Vec::new();
        let mut keys = self.0.keys.lock();
        let hit: Vec<Key> = keys.range::<[u8], _>(bounds).map(|(key, _)| key.clone()).collect();
        for key in hit {
            fired.append(&mut keys.remove(&key).unwrap_or_default());
        }
        self.0.count.fetch_sub(fired.len(), Ordering::SeqCst);
        drop(keys);
        for state in fired {
            settle(&state, Ok(()));
        }
    }

    /// Fires what `ops` may have changed.
    pub fn fire_ops(&self, ops: &[Op]) {
        if !self.is_empty() {
            for op in ops {
                self.fire(&op.range());
            }
        }
    }

    /// Ends all watches: the store is closed.
    pub fn close(&self) {
        let keys = {
            let mut keys = self.0.keys.lock();
            // Under the lock: a watch that is added meanwhile must not be counted away.
            self.0.count.store(0, Ordering::SeqCst);
            std::mem::take(&mut *keys)
        };
        for state in keys.into_values().flatten() {
            settle(&state, Err(Error::new(ErrorKind::Closed, "the store was closed")));
        }
    }
}
