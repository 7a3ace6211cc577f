//! The reference engine: a map in memory. It is the model that others are checked against, so it
//! is written to be obviously right, not fast.

use crate::{
    Capabilities, Commit, Engine, Error, ErrorKind, Fut, Key, KeyRange, Native, Op, Page, Query,
    Result, Snapshot, Version, Watch, WatchTable,
};
use base::sync::Mutex;
use bytes::Bytes;
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A store in memory. Clones share it; it is gone with the last one.
#[derive(Debug, Clone)]
pub struct Mem(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    capabilities: Capabilities,
    state: Mutex<State>,
    watches: WatchTable,
}

type Map = BTreeMap<Key, Bytes>;

#[derive(Debug, Default)]
struct State {
    version: Version,
    /// Shared with open snapshots; a commit copies it when somebody still looks at it.
    map: Arc<Map>,
    /// What each commit wrote, for as long as an open snapshot is older.
    written: BTreeMap<Version, Vec<KeyRange>>,
    /// What was written up to here is forgotten.
    forgotten: Version,
    /// How many snapshots are open at each version.
    open: BTreeMap<Version, usize>,
}

impl Mem {
    /// An empty store.
    pub fn new() -> Self {
        let capabilities = Capabilities {
            name: "mem",
            key_bytes_max: 10_000,
            value_bytes_max: 8 << 20,
            txn_bytes_max: 64 << 20,
            txn_ops_max: usize::MAX,
            txn_lifetime_max: None,
            durable: false,
            shared: false,
            unknown_commits: false,
            native: Native::ALL,
        };
        let state = Mutex::new(State::default());
        Self(Arc::new(Shared { capabilities, state, watches: WatchTable::default() }))
    }

    /// How many snapshots are open, and how many commits are remembered for them.
    pub fn held(&self) -> (usize, usize) {
        let state = self.0.state.lock();
        (state.open.values().sum(), state.written.len())
    }
}

impl Default for Mem {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn commit(&mut self, at: Version, commit: &Commit) -> Result<Version> {
        let later = (Bound::Excluded(at), Bound::Unbounded);
        for (version, written) in self.written.range(later) {
            for read in &commit.reads {
                if let Some(write) = written.iter().find(|write| write.overlaps(read)) {
                    return Err(Error::new(
                        ErrorKind::Conflict,
                        format!("read {read:?} at {at}, {write:?} was written at {version}"),
                    ));
                }
            }
        }
        let map = Arc::make_mut(&mut self.map);
        let mut written = commit.writes.clone();
        for op in &commit.ops {
            written.push(op.range());
            match op {
                Op::Put(key, value) => {
                    map.insert(key.clone(), value.clone());
                }
                Op::Delete(key) => {
                    map.remove(key);
                }
                Op::DeleteRange(range) => map.retain(|key, _| !range.contains(key)),
                Op::Atomic(key, op) => match op.apply(map.get(key).map(|value| &**value)) {
                    Some(value) => {
                        map.insert(key.clone(), value);
                    }
                    None => {
                        map.remove(key);
                    }
                },
            }
        }
        self.version += 1;
        self.written.insert(self.version, written);
        Ok(self.version)
    }

    fn close(&mut self, version: Version) {
        if let Some(count) = self.open.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&version);
            }
        }
        // What every open snapshot has seen can conflict with none of them.
        let oldest = self.open.first_key_value().map_or(self.version, |(&version, _)| version);
        self.written = self.written.split_off(&(oldest + 1));
        self.forgotten = oldest;
    }
}

impl Engine for Mem {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn snapshot(&self) -> Fut<'static, Result<Box<dyn Snapshot>>> {
        let mut state = self.0.state.lock();
        let version = state.version;
        *state.open.entry(version).or_default() += 1;
        let map = Arc::clone(&state.map);
        Fut::ready(Ok(Box::new(MemSnapshot { store: self.clone(), version, map })))
    }

    fn commit(&self, snapshot: Box<dyn Snapshot>, commit: Commit) -> Fut<'static, Result<Version>> {
        let Ok(mut snapshot) = (snapshot as Box<dyn Any>).downcast::<MemSnapshot>() else {
            return Fut::ready(Err(Error::new(
                ErrorKind::Unsupported,
                "another engine's snapshot",
            )));
        };
        // Nobody reads it any more: without it, the map need not be copied.
        snapshot.map = Arc::default();
        let outcome = self.0.state.lock().commit(snapshot.version, &commit);
        drop(snapshot);
        if outcome.is_ok() {
            for range in &commit.writes {
                self.0.watches.fire(range);
            }
            self.0.watches.fire_ops(&commit.ops);
        }
        Fut::ready(outcome)
    }

    fn sync(&self) -> Fut<'static, Result<()>> {
        Fut::ready(Ok(()))
    }

    fn watch(&self, key: &Key, since: Version) -> Fut<'static, Result<Watch>> {
        let watch = self.0.watches.add(key);
        let state = self.0.state.lock();
        let later = (Bound::Excluded(since), Bound::Unbounded);
        // The snapshot may be closed by now. When what came after it is forgotten, the key may have
        // changed, and a watch that fires for nothing is allowed while one that is late is not.
        let changed = since < state.forgotten
            || state
                .written
                .range(later)
                .any(|(_, written)| written.iter().any(|range| range.contains(key)));
        drop(state);
        if changed {
            self.0.watches.fire(&KeyRange::point(key));
        }
        Fut::ready(Ok(watch))
    }
}

#[derive(Debug)]
struct MemSnapshot {
    store: Mem,
    version: Version,
    map: Arc<Map>,
}

impl Drop for MemSnapshot {
    fn drop(&mut self) {
        self.store.0.state.lock().close(self.version);
    }
}

impl Snapshot for MemSnapshot {
    fn version(&self) -> Version {
        self.version
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Fut<'a, Result<Option<Bytes>>> {
        Fut::ready(Ok(self.map.get(key).cloned()))
    }

    fn range<'a>(&'a self, query: &'a Query) -> Fut<'a, Result<Page>> {
        let mut page = Page::new();
        if query.range.is_empty() {
            return Fut::ready(Ok(page));
        }
        let bounds = (Bound::Included(&*query.range.start), Bound::Excluded(&*query.range.end));
        let forward = self.map.range::<[u8], _>(bounds);
        let entries: &mut dyn Iterator<Item = (&Key, &Bytes)> =
            if query.reverse { &mut forward.rev() } else { &mut { forward } };
        for (key, value) in entries {
            if query.is_full(&page) {
                page.more = true;
                break;
            }
            page.push(key, value);
        }
        Fut::ready(Ok(page))
    }
}
