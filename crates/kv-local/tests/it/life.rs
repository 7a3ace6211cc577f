//! A scripted life of a store: what it does depends on a seed alone, and what the store must hold
//! after each version is kept beside it.

use base::disk::Cut;
use base::{Random, SeededRandom, SimDisk, block_on};
use bytes::Bytes;
use kv::{AtomicOp, Commit, Durability, Engine, Key, KeyRange, Op, Query, Result, Version};
use kv_local::{Local, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// Small, so that layers are frozen, folded and merged within a few dozen commits.
pub(crate) fn small() -> Options {
    Options { memory_bytes: 8 * 6_000, level_scale: 1 << 14 }
}

pub(crate) fn open(disk: &SimDisk) -> Result<Local> {
    Local::open(Arc::new(disk.clone()), None, &SeededRandom::new(1), small())
}

/// Everything that a store holds.
pub(crate) fn scan(local: &Local) -> Result<State> {
    block_on(async {
        let snapshot = local.snapshot().await?;
        let mut state = State::new();
        let mut query = Query { bytes: 700, ..Query::new(KeyRange::all()) };
        loop {
            let page = snapshot.range(&query).await?;
            state.extend(page.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
            match query.behind(&page) {
                Some(next) if page.more => query = next,
                _ => return Ok(state),
            }
        }
    })
}

/// What was asked of a store, and what it said.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// The state after each version that was asked for, whether it was reached or not.
    pub(crate) states: BTreeMap<Version, State>,
    /// The newest version that was acknowledged.
    pub(crate) acknowledged: Version,
    /// The newest version that was acknowledged as synced.
    pub(crate) synced: Version,
    /// What ended it early.
    pub(crate) error: Option<kv::Error>,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self { states: [(0, State::new())].into(), ..Self::default() }
    }

    fn latest(&self) -> State {
        self.states[&self.acknowledged].clone()
    }

    /// Goes on with a store that was opened again: whatever it has now is what holds.
    pub(crate) fn go_on(&mut self, local: &Local) {
        let version = local.stats().version;
        self.states.retain(|&other, _| other <= version);
        self.acknowledged = version;
        self.error = None;
    }

    /// Lives `steps` commits.
    pub(crate) fn live(&mut self, local: &Local, random: &SeededRandom, steps: usize) {
        for _ in 0..steps {
            if let Err(error) = self.step(local, random) {
                self.error = Some(error);
                return;
            }
        }
    }

    fn step(&mut self, local: &Local, random: &SeededRandom) -> Result<()> {
        match random.below(12) {
            0 => return self.batch(local, random),
            1 => {
                block_on(local.sync())?;
                self.synced = self.acknowledged;
                return Ok(());
            }
            2 if random.one_in(3) => return local.flush(),
            _ => {}
        }
        let durability = if random.one_in(4) { Durability::Synced } else { Durability::Process };
        let mut state = self.latest();
        let ops = some_ops(random, &mut state, None);
        self.states.insert(self.acknowledged + 1, state);
        let snapshot = block_on(local.snapshot())?;
        let commit = Commit { reads: vec![], writes: vec![], ops, durability, frees: false };
        let version = block_on(local.commit(snapshot, commit))?;
        assert_eq!(version, self.acknowledged + 1);
        self.acknowledged = version;
        if durability == Durability::Synced {
            self.synced = version;
        }
        Ok(())
    }

    fn batch(&mut self, local: &Local, random: &SeededRandom) -> Result<()> {
        let mut commits = Vec::new();
        let mut state = self.latest();
        // A transaction that cannot read what its atomics change fails alone, and those behind it
        // take its version. So atomics here change only what the batch itself wrote.
        let mut written = BTreeSet::new();
        for number in 1..=3 {
            let ops = some_ops(random, &mut state, Some(&mut written));
            self.states.insert(self.acknowledged + number, state.clone());
            let durability = Durability::Process;
            commits.push((
                self.acknowledged,
                Commit { reads: vec![], writes: vec![], ops, durability, frees: false },
            ));
        }
        for outcome in local.commit_together(commits) {
            match outcome {
                Ok(version) => self.acknowledged = version,
                // A batch that found no room wrote nothing: that is for single commits to test.
                Err(error) if error.to_string() == "no room in memory" => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Checks that a store that was opened again kept what it promised: everything up to `promised`,
    /// and no commit in half.
    pub(crate) fn check(&self, local: &Local, promised: Version, context: &str) {
        let version = local.stats().version;
        assert!(version >= promised, "{context}: {version} is there, {promised} was promised");
        let Some(expected) = self.states.get(&version) else {
            panic!("{context}: version {version} was never asked for");
        };
        let found = scan(local).unwrap_or_else(|error| panic!("{context}: {error}"));
        let differs = found
            .keys()
            .chain(expected.keys())
            .find(|key| found.get(*key) != expected.get(*key))
            .map(|key| (key.escape_ascii().to_string(), found.get(key), expected.get(key)));
        assert_eq!(differs, None, "{context}: version {version} is not whole");
    }

    /// What must be there after a cut.
    pub(crate) fn promised(&self, cut: Cut) -> Version {
        if cut == Cut::Kept { self.acknowledged } else { self.synced }
    }
}

fn key(random: &SeededRandom) -> Vec<u8> {
    let mut key = format!("key-{:02}", random.below(48)).into_bytes();
    // Some do not fit in a key's inline form.
    if key[5] % 4 == 0 {
        key.extend([b'x'; 60]);
    }
    key
}

fn some_ops(
    random: &SeededRandom,
    state: &mut State,
    mut written: Option<&mut BTreeSet<Vec<u8>>>,
) -> Vec<Op> {
    let mut points: BTreeMap<Vec<u8>, Op> = BTreeMap::new();
    let mut ops = Vec::new();
    if random.one_in(9) {
        let (a, b) = (key(random), key(random));
        let range = KeyRange::new(a.clone().min(b.clone()).as_slice(), a.max(b).as_slice());
        state.retain(|key, _| !range.contains(key));
        ops.push(Op::DeleteRange(range));
    }
    let cleared = ops.clone();
    for _ in 0..1 + random.below(4) {
        let name = key(random);
        let hidden = cleared.iter().any(|op| op.range().contains(&name));
        let op = match random.below(6) {
            0 => Op::Delete(Key::new(&name)),
            // A transaction turns atomics on keys that it deleted into plain puts.
            1 if !hidden && written.as_ref().is_none_or(|written| written.contains(&name)) => {
                Op::Atomic(Key::new(&name), AtomicOp::Add(random.below(100)))
            }
            _ => {
                let len = if random.one_in(12) { 5_000 } else { random.below(90) };
                let byte = random.below(256) as u8;
                Op::Put(Key::new(&name), Bytes::from(vec![byte; len as usize]))
            }
        };
        points.insert(name, op);
    }
    for (name, op) in points {
        match &op {
            Op::Put(_, value) => {
                if let Some(written) = &mut written {
                    written.insert(name.clone());
                }
                state.insert(name, value.to_vec());
            }
            Op::Atomic(_, atomic) => {
                let value = atomic.apply(state.get(&name).map(Vec::as_slice));
                state.insert(name, value.unwrap().to_vec());
            }
            _ => {
                state.remove(&name);
            }
        }
        ops.push(op);
    }
    ops
}
