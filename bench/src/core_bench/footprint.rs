//! What one operation asks of the engine, on both sides: the proof that they do the same. It is
//! counted on small stores of their own, below the transaction.

use super::action::DIRECTORY_FILES;
use super::core_side::Core;
use super::options::Options;
use super::plan::Plan;
use super::raw::Raw;
use super::side::{Extent, Side};
use super::work::Who;
use crate::error::Result;
use crate::table::Table;
use base::sync::Mutex;
use kv::{
    Capabilities, Commit, Engine, Error, ErrorKind, Fut, Key, Op, Page, Query, Snapshot, Version,
    Watch,
};
use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// What was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    snapshots: u64,
    gets: u64,
    ranges: u64,
    commits: u64,
    puts: u64,
    deletes: u64,
    atomics: u64,
    read_conflicts: u64,
    write_conflicts: u64,
    put_bytes: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.snapshots, self.gets, self.ranges)?;
        if self.commits > 0 {
            write!(f, " {}/{}/{}", self.puts, self.deletes, self.atomics)?;
            write!(f, " {}+{}", self.read_conflicts, self.write_conflicts)?;
            write!(f, " {} B", self.put_bytes)?;
        }
        Ok(())
    }
}

impl Counts {
    /// Whether both are the same but for some bytes, as the numbers in records come.
    fn agrees(&self, other: &Counts) -> bool {
        let near = self.put_bytes.abs_diff(other.put_bytes) <= 16;
        near && Counts { put_bytes: 0, ..*self } == Counts { put_bytes: 0, ..*other }
    }
}

/// An engine that counts.
#[derive(Debug)]
struct Counting {
    engine: Arc<dyn Engine>,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug)]
struct CountingSnapshot {
    snapshot: Box<dyn Snapshot>,
    counts: Arc<Mutex<Counts>>,
}

impl Engine for Counting {
    fn capabilities(&self) -> &Capabilities {
        self.engine.capabilities()
    }

    fn snapshot(&self) -> Fut<'static, kv::Result<Box<dyn Snapshot>>> {
        let counts = Arc::clone(&self.counts);
        counts.lock().snapshots += 1;
        self.engine.snapshot().map(|snapshot| {
            Ok(Box::new(CountingSnapshot { snapshot: snapshot?, counts }) as Box<dyn Snapshot>)
        })
    }

    fn commit(
        &self,
        snapshot: Box<dyn Snapshot>,
        commit: Commit,
    ) -> Fut<'static, kv::Result<Version>> {
        let Ok(snapshot) = (snapshot as Box<dyn Any>).downcast::<CountingSnapshot>() else {
            let error = Error::new(ErrorKind::Unsupported, "another engine's snapshot");
            return Fut::ready(Err(error));
        };
        {
            let mut counts = self.counts.lock();
            counts.commits += 1;
            counts.read_conflicts += commit.reads.len() as u64;
            counts.write_conflicts += commit.writes.len() as u64;
            for op in &commit.ops {
                match op {
                    Op::Put(_, value) => {
                        counts.puts += 1;
                        counts.put_bytes += value.len() as u64;
                    }
                    Op::Delete(_) | Op::DeleteRange(_) => counts.deletes += 1,
                    Op::Atomic(..) => counts.atomics += 1,
                }
            }
        }
        self.engine.commit(snapshot.snapshot, commit)
    }

    fn sync(&self) -> Fut<'static, kv::Result<()>> {
        self.engine.sync()
    }

    fn watch(&self, key: &Key, since: Version) -> Fut<'static, kv::Result<Watch>> {
        self.engine.watch(key, since)
    }
}

impl Snapshot for CountingSnapshot {
    fn version(&self) -> Version {
        self.snapshot.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Fut<'a, kv::Result<Option<bytes::Bytes>>> {
        self.counts.lock().gets += 1;
        self.snapshot.get(key)
    }

    fn range<'a>(&'a self, query: &'a Query) -> Fut<'a, kv::Result<Page>> {
        self.counts.lock().ranges += 1;
        self.snapshot.range(query)
    }
}

/// Does each kind of work once on both sides and prints what the engine saw.
pub(crate) fn run(directory: &Path, options: &Options) -> Result<()> {
    let mut plan = Plan::new(DIRECTORY_FILES);
    let extent = Extent { files: DIRECTORY_FILES, directories: 1000 };
    let counts = [Arc::default(), Arc::default()];
    let engine = |side: usize, name: &str| {
        let engine = super::open(&directory.join(name))?;
        let counting = Counting { engine, counts: Arc::clone(&counts[side]) };
        Ok::<Arc<dyn Engine>, crate::error::Error>(Arc::new(counting))
    };
    let core = Core::open(engine(0, "core")?, extent, options)?;
    let raw = Raw::open(engine(1, "raw")?, extent)?;
    let sides: [&dyn Side; 2] = [&core, &raw];
    for action in plan.load() {
        sides.iter().try_for_each(|side| side.run(Who::Root, &action))?;
    }
    sides.iter().try_for_each(|side| side.prepare_data())?;
    let mut table = Table::new("work", ["core", "raw", ""]);
    for &work in &options.works {
        for &who in work.callers() {
            let batch = plan.batch(work, 1);
            let seen: Result<Vec<Counts>> = sides
                .iter()
                .zip(&counts)
                .map(|(side, counts)| {
                    batch.before.iter().try_for_each(|action| side.run(who, action))?;
                    *counts.lock() = Counts::default();
                    batch.measured.iter().try_for_each(|action| side.run(who, action))?;
                    Ok(*counts.lock())
                })
                .collect();
            let seen = seen?;
            let same = if seen[0].agrees(&seen[1]) { "the same" } else { "DIFFERS" };
            let cells = [seen[0].to_string(), seen[1].to_string(), same.to_owned()];
            table.row(super::interleave::row_name(work, who), cells);
        }
    }
    table.print(
        "What one operation asks of the engine: snapshots/gets/ranges, and of a commit\n\
         puts/deletes/atomics, conflict ranges read+written, bytes of values",
    );
    Ok(())
}
