//! One transaction as its caller saw it, and all of them together.

use super::model::Entry;
use crate::{ErrorKind, Key, KeyRange, Op, Query, Read, Version};
use base::sync::Mutex;
use bytes::Bytes;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// One call of a transaction and what it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A point read.
    Get {
        /// The key.
        key: Key,
        /// How it was read.
        read: Read,
        /// What came back.
        value: Option<Bytes>,
    },
    /// One page of a range.
    Range {
        /// What was asked.
        query: Query,
        /// How it was read.
        read: Read,
        /// What came back.
        entries: Vec<Entry>,
        /// Whether there may be more behind.
        more: bool,
    },
    /// A change.
    Op(Op),
    /// An explicit read conflict.
    ReadConflict(KeyRange),
    /// An explicit write conflict.
    WriteConflict(KeyRange),
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The commit returned this version.
    Committed(Version),
    /// The commit returned a conflict.
    Conflict,
    /// A call failed; nothing was written.
    Failed(ErrorKind),
    /// The commit returned that its outcome is unknown.
    Unknown,
    /// It was dropped.
    Abandoned,
}

/// One transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Who ran it.
    pub task: u32,
    /// When it was asked to begin, on the logical clock of the run.
    pub begin: u64,
    /// When its end was known.
    pub end: u64,
    /// The version that it read; none when it could not begin.
    pub snapshot: Option<Version>,
    /// What it did, in order.
    pub steps: Vec<Step>,
    /// How it ended.
    pub outcome: Outcome,
    /// A key that only this transaction writes, by which it can be found again.
    pub marker: Option<Key>,
}

impl Record {
    /// Its changes, in order.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.steps.iter().filter_map(|step| match step {
            Step::Op(op) => Some(op),
            _ => None,
        })
    }

    /// Whether there is nothing to commit.
    pub fn is_read_only(&self) -> bool {
        self.write_set().is_empty()
    }

    /// What others that read it must conflict with.
    pub fn write_set(&self) -> Vec<KeyRange> {
        let ranges = self.steps.iter().filter_map(|step| match step {
            Step::Op(op) => Some(op.range()),
            Step::WriteConflict(range) => Some(range.clone()),
            _ => None,
        });
        ranges.filter(|range| !range.is_empty()).collect()
    }

    /// What it must conflict with when others write it. A key that the transaction itself has set
    /// before is not read from the store.
    pub fn read_set(&self) -> Vec<KeyRange> {
        let mut set = Vec::new();
        let mut fixed: Vec<KeyRange> = Vec::new();
        for step in &self.steps {
            match step {
                Step::Get { key, read, .. } => {
                    let own = fixed.iter().any(|range| range.contains(key));
                    if *read == Read::Serializable && !own {
                        set.push(KeyRange::point(key));
                    }
                }
                Step::Range { query, read, entries, more } => {
                    if *read == Read::Serializable && query.limit > 0 {
                        set.push(shown(query, entries, *more));
                    }
                }
                Step::Op(Op::Atomic(..)) | Step::WriteConflict(_) => {}
                Step::Op(op) => fixed.push(op.range()),
                Step::ReadConflict(range) => set.push(range.clone()),
            }
        }
        set.retain(|range| !range.is_empty());
        set
    }
}

/// The part of the range that a page tells of: up to its last entry, or all when it is the last.
fn shown(query: &Query, entries: &[Entry], more: bool) -> KeyRange {
    let mut range = query.range.clone();
    if more && let Some((last, _)) = entries.last() {
        if query.reverse {
            range.start = last.clone();
        } else {
            range.end = last.successor();
        }
    }
    range
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>5}..{:<5} task {} snapshot {:?} -> {:?}",
            self.begin, self.end, self.task, self.snapshot, self.outcome
        )?;
        for step in &self.steps {
            writeln!(f, "        {step:?}")?;
        }
        Ok(())
    }
}

/// A whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// All transactions, in the order in which they began.
    pub records: Vec<Record>,
    /// Changes and versions of commits that happened although their caller was not told.
    pub secret: Vec<(Vec<Op>, Version)>,
    /// All that the store held at the end.
    pub end: Vec<Entry>,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for record in &self.records {
            write!(f, "{record}")?;
        }
        for (ops, version) in &self.secret {
            writeln!(f, "secretly committed at {version}: {ops:?}")?;
        }
        for (key, value) in &self.end {
            writeln!(f, "at the end {key:?} = {value:?}")?;
        }
        Ok(())
    }
}

/// Takes records from many tasks or threads.
#[derive(Debug, Default)]
pub struct Recorder {
    clock: AtomicU64,
    records: Mutex<Vec<Record>>,
}

impl Recorder {
    /// The next moment: later than every moment that was given out before.
    pub fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Keeps a record.
    pub fn keep(&self, record: Record) {
        self.records.lock().push(record);
    }

    /// All records, in the order in which they began.
    pub fn take(&self) -> Vec<Record> {
        let mut records = std::mem::take(&mut *self.records.lock());
        records.sort_by_key(|record| record.begin);
        records
    }
}
