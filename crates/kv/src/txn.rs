//! A transaction: one snapshot, its own writes on top, and what it must conflict with.

use crate::writes::{Own, Writes, apply_all};
use crate::{
    AtomicOp, Commit, Durability, Engine, Error, ErrorKind, Fut, Key, KeyRange, Op, Page, Query,
    Result, Snapshot, Version, Watch,
};
use bytes::Bytes;
use std::sync::Arc;

/// Whether a read counts when the transaction is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// A later write to what was read is a conflict.
    Serializable,
    /// It is not.
    Snapshot,
}

/// A transaction. Dropping it abandons it: nothing was written, and all that it held is free.
#[derive(Debug)]
pub struct Txn {
    engine: Arc<dyn Engine>,
    source: Source,
    writes: Writes,
    read_conflicts: Vec<KeyRange>,
    write_conflicts: Vec<KeyRange>,
    ops: usize,
    bytes: usize,
    frees: bool,
}

/// Where a transaction reads.
#[derive(Debug)]
enum Source {
    Snapshot(Box<dyn Snapshot>),
    /// The store itself, as long as this is its newest version.
    Newest(Version),
}

impl Txn {
    pub(crate) fn new(engine: Arc<dyn Engine>, snapshot: Box<dyn Snapshot>) -> Self {
        Self::reading(engine, Source::Snapshot(snapshot))
    }

    /// One that looks at the store itself. It fails with a conflict when another commit comes between.
    pub(crate) fn looking(engine: Arc<dyn Engine>, at: Version) -> Self {
        Self::reading(engine, Source::Newest(at))
    }

    fn reading(engine: Arc<dyn Engine>, source: Source) -> Self {
        Self {
            engine,
            source,
            writes: Writes::default(),
            read_conflicts: Vec::new(),
            write_conflicts: Vec::new(),
            ops: 0,
            bytes: 0,
            frees: false,
        }
    }

    /// The version that it reads.
    pub fn version(&self) -> Version {
        match &self.source {
            Source::Snapshot(snapshot) => snapshot.version(),
            Source::Newest(at) => *at,
        }
    }

    /// The value of a key.
    pub fn get<'a>(&'a mut self, key: &'a [u8], read: Read) -> Fut<'a, Result<Option<Bytes>>> {
        if let Err(error) = self.check_key(key) {
            return Fut::ready(Err(error));
        }
        let pending = match self.writes.own(key) {
            Own::Known(value) => return Fut::ready(Ok(value.cloned())),
            Own::Untouched => None,
            Own::Pending(ops) => Some(ops),
        };
        if read == Read::Serializable {
            note_point(&mut self.read_conflicts, key);
        }
        let value = match &self.source {
            Source::Snapshot(snapshot) => snapshot.get(key),
            Source::Newest(at) => Fut::ready(self.engine.look(*at, key)),
        };
        match pending {
            None => value,
            Some(ops) => value.map(|value| Ok(apply_all(ops, value?))),
        }
    }

    /// The values of several keys, in their order, in one round trip where that matters.
    pub fn get_many<'a>(
        &'a mut self,
        keys: &'a [&'a [u8]],
        read: Read,
    ) -> Fut<'a, Result<Vec<Option<Bytes>>>> {
        for key in keys {
            if let Err(error) = self.check_key(key) {
                return Fut::ready(Err(error));
            }
        }
        if read == Read::Serializable {
            for key in keys {
                if !matches!(self.writes.own(key), Own::Known(_)) {
                    note_point(&mut self.read_conflicts, key);
                }
            }
        }
        let writes = &self.writes;
        let values = match &self.source {
            Source::Snapshot(snapshot) => snapshot.get_many(keys),
            Source::Newest(at) => {
                Fut::ready(keys.iter().map(|key| self.engine.look(*at, key)).collect())
            }
        };
        if writes.is_empty() {
            return values;
        }
        values.map(move |values| {
            let mut values = values?;
            for (key, value) in keys.iter().zip(&mut values) {
                match writes.own(key) {
                    Own::Untouched => {}
                    Own::Known(own) => *value = own.cloned(),
                    Own::Pending(ops) => *value = apply_all(ops, value.take()),
                }
            }
            Ok(values)
        })
    }

    /// One page of a range. A page may be shorter than asked for, but is only empty, or without
    /// [`Page::more`], at the end of the range. What counts as read is the range up to the last
    /// entry returned, or all of it at its end.
    pub fn range<'a>(&'a mut self, query: &'a Query, read: Read) -> Fut<'a, Result<Page>> {
        if let Err(error) = self.check_range(&query.range) {
            return Fut::ready(Err(error));
        }
        if query.range.is_empty() || query.limit == 0 {
            return Fut::ready(Ok(Page::new()));
        }
        if let Err(error) = self.take_snapshot() {
            return Fut::ready(Err(error));
        }
        let Self { source: Source::Snapshot(snapshot), writes, read_conflicts, .. } = self else {
            return Fut::ready(Err(moved_on()));
        };
        let conflicts = (read == Read::Serializable).then_some(read_conflicts);
        if !writes.touches(&query.range) {
            return snapshot.range(query).map(move |page| {
                let page = page?;
                if let Some(conflicts) = conflicts {
                    note(conflicts, seen(query, &page));
                }
                Ok(page)
            });
        }
        Fut::later(async move {
            let page = merged(&**snapshot, writes, query).await?;
            if let Some(conflicts) = conflicts {
                note(conflicts, seen(query, &page));
            }
            Ok(page)
        })
    }

    /// Ranges are read from a snapshot: their pages are, and what holds the store still while one is
    /// made holds up everybody else.
    fn take_snapshot(&mut self) -> Result<()> {
        if let Source::Newest(at) = self.source {
            match self.engine.snapshot().now() {
                Ok(snapshot) => match snapshot? {
                    snapshot if snapshot.version() == at => {
                        self.source = Source::Snapshot(snapshot);
                    }
                    _ => return Err(moved_on()),
                },
                // One that is begun anew can wait for it.
                Err(_) => return Err(moved_on()),
            }
        }
        Ok(())
    }

    /// Sets a key.
    pub fn put(&mut self, key: &[u8], value: impl Into<Bytes>) -> Result<()> {
        let value = value.into();
        self.check_key(key)?;
        let bound = self.engine.capabilities().value_bytes_max;
        if value.len() > bound {
            return Err(too_large("a value", value.len(), bound));
        }
        self.count(1, key.len() + value.len())?;
        self.writes.put(Key::new(key), value);
        Ok(())
    }

    /// Removes a key, which need not be there.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.check_key(key)?;
        self.count(1, key.len())?;
        self.writes.delete(Key::new(key));
        Ok(())
    }

    /// Removes all keys of a range.
    pub fn delete_range(&mut self, range: &KeyRange) -> Result<()> {
        self.check_range(range)?;
        self.count(1, range.start.len() + range.end.len())?;
        self.writes.delete_range(range.clone());
        Ok(())
    }

    /// Changes a key by the value that it has when the transaction commits. Does not count as
    /// reading it.
    pub fn atomic(&mut self, key: &[u8], op: AtomicOp) -> Result<()> {
        self.check_key(key)?;
        self.count(1, key.len() + op.operand_bytes())?;
        self.writes.atomic(Key::new(key), op);
        Ok(())
    }

    /// Adds to a number; see [`AtomicOp::Add`].
    pub fn add(&mut self, key: &[u8], by: u64) -> Result<()> {
        self.atomic(key, AtomicOp::Add(by))
    }

    /// Raises a number; see [`AtomicOp::Max`].
    pub fn max(&mut self, key: &[u8], with: u64) -> Result<()> {
        self.atomic(key, AtomicOp::Max(with))
    }

    /// Removes a key if it holds `expected`; see [`AtomicOp::CompareAndClear`].
    pub fn compare_and_clear(&mut self, key: &[u8], expected: impl Into<Bytes>) -> Result<()> {
        self.atomic(key, AtomicOp::CompareAndClear(expected.into()))
    }

    /// Conflict as if `range` had been read.
    pub fn read_conflict(&mut self, range: &KeyRange) -> Result<()> {
        self.check_range(range)?;
        note(&mut self.read_conflicts, range.clone());
        Ok(())
    }

    /// Conflict as if `key` had been read.
    pub fn read_conflict_at(&mut self, key: &[u8]) -> Result<()> {
        self.check_key(key)?;
        note_point(&mut self.read_conflicts, key);
        Ok(())
    }

    /// Make others conflict as if `range` had been written.
    pub fn write_conflict(&mut self, range: &KeyRange) -> Result<()> {
        self.check_range(range)?;
        self.count(0, range.start.len() + range.end.len())?;
        note(&mut self.write_conflicts, range.clone());
        Ok(())
    }

    /// Says that this transaction gives space back, now or by what it makes possible. An engine whose
    /// disk is full takes it all the same, as long as the room lasts that it has kept for this.
    pub fn frees_space(&mut self) {
        self.frees = true;
    }

    /// A future that is ready some time after another transaction changes `key` from what this one
    /// sees. It may be ready without a change, more than once a change never.
    pub fn watch(&mut self, key: &[u8]) -> Fut<'static, Result<Watch>> {
        if let Err(error) = self.check_key(key) {
            return Fut::ready(Err(error));
        }
        self.engine.watch(&Key::new(key), self.version())
    }

    /// Whether it has written nothing, so that committing it makes no version.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty() && self.write_conflicts.is_empty()
    }

    /// Checks and applies the transaction, and returns its version. One that wrote nothing returns
    /// the version that it read.
    pub fn commit(self, durability: Durability) -> Fut<'static, Result<Version>> {
        let (at, is_read_only) = (self.version(), self.is_read_only());
        let Self { engine, source, writes, read_conflicts, write_conflicts, frees, .. } = self;
        if is_read_only {
            drop(source);
            if durability == Durability::Process {
                return Fut::ready(Ok(at));
            }
            return engine.sync().map(move |done| done.map(|()| at));
        }
        let commit = Commit {
            reads: read_conflicts,
            writes: write_conflicts,
            ops: writes.into_ops(),
            durability,
            frees,
        };
        match source {
            Source::Snapshot(snapshot) => engine.commit(snapshot, commit),
            Source::Newest(at) => engine.commit_at(at, commit),
        }
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        let bound = self.engine.capabilities().key_bytes_max;
        match key.first() {
            None => Err(Error::new(ErrorKind::Unsupported, "a key must not be empty")),
            Some(0xff) => Err(Error::new(
                ErrorKind::Unsupported,
                "a key must not begin with the byte 0xff, which engines keep for themselves",
            )),
            Some(_) if key.len() > bound => Err(too_large("a key", key.len(), bound)),
            Some(_) => Ok(()),
        }
    }

    fn check_range(&self, range: &KeyRange) -> Result<()> {
        // The bound behind the longest key is one byte longer than it.
        let bound = self.engine.capabilities().key_bytes_max.saturating_add(1);
        let longest = range.start.len().max(range.end.len());
        if longest > bound {
            return Err(too_large("the bound of a range", longest, bound));
        }
        if *range.end > *[0xff].as_slice() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a range must end at or before the byte 0xff, behind which engines keep their own",
            ));
        }
        if range.start > range.end {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the range {range:?} ends before it starts"),
            ));
        }
        Ok(())
    }

    fn count(&mut self, ops: usize, bytes: usize) -> Result<()> {
        let bounds = self.engine.capabilities();
        let (ops, bytes) = (self.ops.saturating_add(ops), self.bytes.saturating_add(bytes));
        if ops > bounds.txn_ops_max {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "a transaction on {} writes at most {} operations",
                    bounds.name, bounds.txn_ops_max
                ),
            ));
        }
        if bytes > bounds.txn_bytes_max {
            return Err(too_large("a transaction", bytes, bounds.txn_bytes_max));
        }
        (self.ops, self.bytes) = (ops, bytes);
        Ok(())
    }
}

/// The error of who looks at the store itself and is not alone.
fn moved_on() -> Error {
    Error::new(ErrorKind::Conflict, "another commit came between two reads")
}

fn too_large(what: &str, bytes: usize, bound: usize) -> Error {
    Error::new(ErrorKind::TooLarge, format!("{what} of {bytes} bytes is over {bound}, the bound"))
}

/// What a transaction of usual size reads.
const CONFLICTS_FIRST: usize = 8;

/// Adds a key.
fn note_point(conflicts: &mut Vec<KeyRange>, key: &[u8]) {
    if conflicts.capacity() == 0 {
        conflicts.reserve_exact(CONFLICTS_FIRST);
    }
    if conflicts.last().is_none_or(|last| *last.start != *key) {
        conflicts.push(KeyRange::point(key));
    }
}

/// Adds a range, joined with the last one when it goes on where that ended.
fn note(conflicts: &mut Vec<KeyRange>, range: KeyRange) {
    if range.is_empty() {
        return;
    }
    if let Some(last) = conflicts.last_mut() {
        if last.start <= range.start && range.end <= last.end {
            return;
        }
        if last.end == range.start {
            last.end = range.end;
            return;
        }
        if last.start == range.end {
            last.start = range.start;
            return;
        }
    }
    conflicts.push(range);
}

/// The part of a query's range that a page shows.
fn seen(query: &Query, page: &Page) -> KeyRange {
    let mut range = query.range.clone();
    if page.more
        && let Some(last) = page.last_key()
    {
        if query.reverse {
            range.start = last;
        } else {
            range.end = last.successor();
        }
    }
    range
}

/// Reads the snapshot page by page under the transaction's own writes.
async fn merged(snapshot: &dyn Snapshot, writes: &Writes, query: &Query) -> Result<Page> {
    let mut page = Page::new();
    let mut rest = query.clone();
    loop {
        let base = snapshot.range(&rest).await?;
        let covered = seen(&rest, &base);
        let finished = writes.overlay(&covered, &base, query, &mut page);
        let next = if base.more { rest.behind(&base) } else { None };
        match next {
            _ if !finished => {
                page.more = true;
                return Ok(page);
            }
            None => return Ok(page),
            Some(next) => rest = next,
        }
        if query.is_full(&page) {
            page.more = true;
            return Ok(page);
        }
    }
}

impl Op {
    /// The keys that it may change.
    pub fn range(&self) -> KeyRange {
        match self {
            Op::Put(key, _) | Op::Delete(key) | Op::Atomic(key, _) => KeyRange::point(key),
            Op::DeleteRange(range) => range.clone(),
        }
    }
}
