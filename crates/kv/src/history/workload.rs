//! Random transactions that do everything a transaction can, on few keys, so that they meet.

use super::{Outcome, Record, Recorder, Step, model};
use crate::{
    AtomicOp, Durability, Error, ErrorKind, Key, KeyRange, Op, Query, Read, Result, Store, Txn,
};
use base::exec::yield_now;
use base::{Clock, Random, SeededRandom};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// The size of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Tasks or threads at the same time.
    pub tasks: u32,
    /// Transactions of each, one after the other.
    pub txns: u32,
    /// Calls of each transaction, at most.
    pub steps_max: u64,
    /// How many different keys there are, at most all of [`model::odd_keys`].
    pub keys: usize,
    /// Once in so many steps a transaction dawdles, up to [`dawdle_max`](Self::dawdle_max), so that
    /// it grows old. Never when 0.
    pub dawdle: u64,
    /// The longest pause.
    pub dawdle_max: Duration,
}

impl Plan {
    /// A small run, drawn from `random`.
    pub fn draw(random: &dyn Random) -> Self {
        Self {
            tasks: 2 + random.below(5) as u32,
            txns: 4 + random.below(20) as u32,
            steps_max: 2 + random.below(7),
            keys: 3 + random.below(11) as usize,
            dawdle: 40,
            dawdle_max: Duration::from_secs(6),
        }
    }
}

/// One task of a run.
pub(super) struct Worker {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) plan: Plan,
    pub(super) task: u32,
    pub(super) random: SeededRandom,
}

/// What a transaction is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    ReadOnly,
    /// Writes nothing and still makes others conflict.
    ConflictOnly,
    Full,
}

/// A transaction under way.
struct Going<'a> {
    worker: &'a Worker,
    txn: Txn,
    steps: Vec<Step>,
    keys: Vec<Key>,
    name: String,
    last_seen: Option<Bytes>,
}

impl Worker {
    /// Runs all transactions of this task.
    pub(super) async fn run(self) {
        for number in 0..self.plan.txns {
            let record = self.transaction(number).await;
            self.recorder.keep(record);
        }
    }

    async fn transaction(&self, number: u32) -> Record {
        let random = &self.random;
        let mut record = Record {
            task: self.task,
            begin: self.recorder.tick(),
            end: 0,
            snapshot: None,
            steps: Vec::new(),
            outcome: Outcome::Abandoned,
            marker: None,
        };
        // Some without a snapshot: those end when another commits while they read.
        let looking = if random.one_in(3) { self.store.look() } else { None };
        let begun = match looking {
            Some(txn) => Ok(txn),
            None => self.store.begin().await,
        };
        let txn = match begun {
            Ok(txn) => txn,
            Err(error) => {
                record.outcome = Outcome::Failed(error.kind());
                record.end = self.recorder.tick();
                return record;
            }
        };
        record.snapshot = Some(txn.version());
        let style = match random.below(12) {
            0 | 1 => Style::ReadOnly,
            2 => Style::ConflictOnly,
            _ => Style::Full,
        };
        let name = format!("{}.{number}", self.task);
        let mut keys = model::odd_keys();
        keys.truncate(self.plan.keys);
        let mut going = Going { worker: self, txn, steps: Vec::new(), keys, name, last_seen: None };
        let done = going.all_steps(style, &mut record.marker).await;
        record.steps = std::mem::take(&mut going.steps);
        record.outcome = match done {
            Err(error) => Outcome::Failed(error.kind()),
            Ok(()) if random.one_in(12) => Outcome::Abandoned,
            Ok(()) => {
                let durability = match random.one_in(4) {
                    true => Durability::Synced,
                    false => Durability::Process,
                };
                match going.txn.commit(durability).await {
                    Ok(version) => Outcome::Committed(version),
                    Err(error) => match error.kind() {
                        ErrorKind::Conflict => Outcome::Conflict,
                        ErrorKind::Unknown => Outcome::Unknown,
                        other => Outcome::Failed(other),
                    },
                }
            }
        };
        record.end = self.recorder.tick();
        record
    }
}

impl Going<'_> {
    async fn all_steps(&mut self, style: Style, marker: &mut Option<Key>) -> Result<()> {
        let random = &self.worker.random;
        if style == Style::Full {
            let key = Key::new(format!("m/{}", self.name).as_bytes());
            self.op(Op::Put(key.clone(), Bytes::new()))?;
            *marker = Some(key);
        }
        for _ in 0..=random.below(self.worker.plan.steps_max) {
            if random.one_in(2) {
                yield_now().await;
            }
            if random.one_in(self.worker.plan.dawdle) {
                let longest = self.worker.plan.dawdle_max.as_nanos() as u64;
                let pause = Duration::from_nanos(random.below(longest + 1));
                self.worker.clock.sleep(pause).await;
            }
            match (style, random.below(20)) {
                (_, 0..=4) => self.get().await?,
                (_, 5) => self.get_many().await?,
                (_, 6..=9) => self.pages().await?,
                (_, 10) => {
                    let range = self.some_range();
                    self.txn.read_conflict(&range)?;
                    self.steps.push(Step::ReadConflict(range));
                }
                (Style::ConflictOnly | Style::Full, 11) => {
                    let range = self.some_range();
                    self.txn.write_conflict(&range)?;
                    self.steps.push(Step::WriteConflict(range));
                }
                (Style::Full, _) => {
                    let op = self.some_op();
                    self.op(op)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn get(&mut self) -> Result<()> {
        let (key, read) = (self.some_key(), self.some_read());
        let value = self.txn.get(&key, read).await?;
        if value.is_some() {
            self.last_seen.clone_from(&value);
        }
        self.steps.push(Step::Get { key, read, value });
        Ok(())
    }

    async fn get_many(&mut self) -> Result<()> {
        let keys: Vec<Key> = (0..self.worker.random.below(4)).map(|_| self.some_key()).collect();
        let read = self.some_read();
        let asked: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        let values = self.txn.get_many(&asked, read).await?;
        if values.len() != keys.len() {
            return Err(Error::new(ErrorKind::Corrupt, "values are missing"));
        }
        for (key, value) in keys.into_iter().zip(values) {
            self.steps.push(Step::Get { key, read, value });
        }
        Ok(())
    }

    /// Some pages of a range.
    async fn pages(&mut self) -> Result<()> {
        let random = &self.worker.random;
        let read = self.some_read();
        let mut query = Query::new(self.some_range());
        query.reverse = random.one_in(2);
        if random.one_in(2) {
            query.limit = 1 + random.below(3) as usize;
        }
        if random.one_in(3) {
            query.bytes = random.below(60) as usize;
        }
        for _ in 0..=random.below(3) {
            let page = self.txn.range(&query, read).await?;
            let next = if page.more { query.behind(&page) } else { None };
            self.steps.push(Step::Range {
                query,
                read,
                entries: model::entries(&page),
                more: page.more,
            });
            match next {
                Some(next) => query = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Makes a change. One that is over a bound is refused and leaves the transaction as it was.
    fn op(&mut self, op: Op) -> Result<()> {
        let done = match &op {
            Op::Put(key, value) => self.txn.put(key, value.clone()),
            Op::Delete(key) => self.txn.delete(key),
            Op::DeleteRange(range) => self.txn.delete_range(range),
            Op::Atomic(key, atomic) => self.txn.atomic(key, atomic.clone()),
        };
        match done {
            Ok(()) => self.steps.push(Step::Op(op)),
            Err(error) if error.kind() == ErrorKind::TooLarge => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn some_op(&self) -> Op {
        let random = &self.worker.random;
        let key = self.some_key();
        match random.below(14) {
            0..=5 => Op::Put(key, self.some_value()),
            6 | 7 => Op::Delete(key),
            8 => Op::DeleteRange(self.some_range()),
            9 | 10 => Op::Atomic(key, AtomicOp::Add(random.below(5))),
            11 => Op::Atomic(key, AtomicOp::Max(random.below(500))),
            _ => {
                let expected = match &self.last_seen {
                    Some(seen) if !random.one_in(3) => seen.clone(),
                    _ => self.some_value(),
                };
                Op::Atomic(key, AtomicOp::CompareAndClear(expected))
            }
        }
    }

    /// Mostly a value that nobody else writes, so that a read tells who wrote it.
    fn some_value(&self) -> Bytes {
        let random = &self.worker.random;
        let bound = self.worker.store.capabilities().value_bytes_max;
        match random.below(12) {
            0 => Bytes::new(),
            1 => model::le(random.below(300)),
            2 => Bytes::from(vec![7; 9 + random.below(200) as usize]),
            // Over the bound, where that is cheap to try.
            3 if bound < 50_000 => Bytes::from(vec![9; bound + 1]),
            _ => Bytes::from(format!("{}.{}", self.name, self.steps.len())),
        }
    }

    fn some_key(&self) -> Key {
        self.keys[self.worker.random.below(self.keys.len() as u64) as usize].clone()
    }

    /// A range of the shared keys. The markers are outside: nobody removes them.
    fn some_range(&self) -> KeyRange {
        match self.worker.random.below(8) {
            0 => KeyRange::prefix(b"k"),
            1 => KeyRange::point(&self.some_key()),
            2 => KeyRange::prefix(&self.some_key()),
            _ => {
                let (one, other) = (self.some_key(), self.some_key());
                KeyRange { start: one.clone().min(other.clone()), end: one.max(other) }
            }
        }
    }

    fn some_read(&self) -> Read {
        match self.worker.random.one_in(4) {
            true => Read::Snapshot,
            false => Read::Serializable,
        }
    }
}
