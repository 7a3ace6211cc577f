//! The engine that callers hold.

use crate::commit::{self, Outcome, Task};
use crate::merge::Source;
use crate::open;
use crate::options::Options;
use crate::overlay::Found;
use crate::reclaim::log_bytes;
use crate::shared::Shared;
use crate::snapshots::LocalSnapshot;
use crate::work;
use base::sync::Mutex;
use base::thread::Joiner;
use base::{Disk, OsRandom, Random, Spawn, SystemDisk, SystemThreads};
use bytes::Bytes;
use kv::{
    Capabilities, Commit, Durability, Engine, Error, ErrorKind, Fut, Key, KeyRange, OnSync, Result,
    Snapshot, Version, Watch,
};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;

/// How often a commit waits for space before it fails: others may take what is given back.
const RECLAIMS_MAX: u32 = 4;

/// An open store. Clones share it; dropping the last one closes it.
#[derive(Debug, Clone)]
pub struct Local(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    threads: Mutex<Vec<Joiner>>,
}

/// What a store is made of, for people and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// The newest version.
    pub version: Version,
    /// The newest version that survives a loss of power.
    pub synced: Version,
    /// Bytes of memory in layers that are not in tables.
    pub overlay_bytes: u64,
    /// Bytes in the current log.
    pub log_bytes: u64,
    /// Tables in all levels.
    pub tables: u64,
    /// Their bytes.
    pub table_bytes: u64,
    /// Merges done since the store was opened.
    pub merges: u64,
    /// Snapshots that are open.
    pub snapshots: u64,
}

impl Local {
    /// Opens the store in a directory of the host, and makes it when the directory is empty or
    /// missing.
    pub fn open_dir(path: &Path, options: Options) -> Result<Self> {
        let disk = SystemDisk::create(path).map_err(|error| {
            Error::new(ErrorKind::Unavailable, format!("cannot open {}", path.display()))
                .caused_by(error)
        })?;
        Self::open(Arc::new(disk), Some(&SystemThreads), &OsRandom::new(), options)
    }

    /// Opens the store on a disk, and makes it when the disk is empty. Without `threads` the work of
    /// the background is done in place, by whoever makes it necessary.
    pub fn open(
        disk: Arc<dyn Disk>,
        threads: Option<&dyn Spawn>,
        random: &dyn Random,
        options: Options,
    ) -> Result<Self> {
        let shared = Arc::new(open::open(disk, random, options, None)?);
        let local = Local(Arc::new(Handle { shared, threads: Mutex::default() }));
        if let Some(threads) = threads {
            local.start_threads(threads)?;
        }
        Ok(local)
    }

    /// Opens what is left of the store in a directory of the host; see [`recover`](Self::recover).
    pub fn recover_dir(path: &Path, options: Options) -> Result<(Self, Vec<String>)> {
        let disk = SystemDisk::open_read_only(path).map_err(|error| {
            Error::new(ErrorKind::Unavailable, format!("cannot open {}", path.display()))
                .caused_by(error)
        })?;
        Self::recover(Arc::new(disk), &OsRandom::new(), options)
    }

    /// Opens what is left of a store, and says what is not. Nothing is ever written to the disk:
    /// commits that free space, as a session needs them for itself, stay in memory and go with the
    /// store, and all others are refused. Reading what is damaged fails as [`ErrorKind::Corrupt`].
    pub fn recover(
        disk: Arc<dyn Disk>,
        random: &dyn Random,
        options: Options,
    ) -> Result<(Self, Vec<String>)> {
        let mut notes = Vec::new();
        let shared = Arc::new(open::open(disk, random, options, Some(&mut notes))?);
        Ok((Local(Arc::new(Handle { shared, threads: Mutex::default() })), notes))
    }

    fn start_threads(&self, threads: &dyn Spawn) -> Result<()> {
        type Body = fn(&Shared);
        let bodies = [
            ("kv-fold", work::fold_forever as Body),
            ("kv-merge", work::merge_forever as Body),
            ("kv-sync", work::sync_forever as Body),
        ];
        for (name, body) in bodies {
            let shared = Arc::clone(&self.0.shared);
            let joiner = threads.spawn(name, Box::new(move || body(&shared))).map_err(|error| {
                Error::new(ErrorKind::Unavailable, "cannot start a thread").caused_by(error)
            })?;
            self.0.threads.lock().push(joiner);
        }
        self.0.shared.work.set_threaded();
        Ok(())
    }

    /// Closes the store: everything is synced, and the store says so. Later calls on any clone fail.
    pub fn close(self) -> Result<()> {
        self.0.close()
    }

    /// Commits several transactions as one batch, in their order, as a leader does for those who
    /// wait. For tests: a real batch is a matter of timing.
    #[doc(hidden)]
    pub fn commit_together(&self, commits: Vec<(Version, Commit)>) -> Vec<Result<Version>> {
        let tasks =
            commits.into_iter().map(|(at, commit)| Task { at, alone: false, commit }).collect();
        let outcomes = self.0.shared.submit_together(tasks);
        outcomes
            .into_iter()
            .map(|outcome| match outcome {
                Outcome::Done(outcome) => outcome,
                Outcome::NoRoom(_) => Err(Error::new(ErrorKind::Full, "no room in memory")),
                Outcome::NoSpace(_, error) => Err(error),
            })
            .collect()
    }

    /// Writes what is in memory to tables, now.
    pub fn flush(&self) -> Result<()> {
        let shared = &self.0.shared;
        if let Some(error) = shared.stopped() {
            return Err(error);
        }
        // What is frozen goes first; then what is active, if there is anything.
        while shared.visible.lock().frozen.is_some() {
            base::block_on(work::folded(shared))?;
        }
        shared.freeze_what_there_is()?;
        while shared.visible.lock().frozen.is_some() {
            base::block_on(work::folded(shared))?;
        }
        Ok(())
    }

    /// What the store is made of now.
    pub fn stats(&self) -> Stats {
        let shared = &self.0.shared;
        let log_bytes = shared.pipeline.lock().log.len();
        let visible = shared.visible.lock();
        let frozen = visible.frozen.as_ref().map_or(0, |frozen| frozen.overlay.bytes());
        Stats {
            version: visible.version,
            synced: shared.syncs.synced(),
            overlay_bytes: (visible.active.bytes() + frozen) as u64,
            log_bytes,
            tables: visible.levels.tables().count() as u64,
            table_bytes: visible.levels.bytes(),
            snapshots: shared.snapshots.count() as u64,
            merges: shared.merges_done.load(std::sync::atomic::Ordering::Relaxed),
        }
    }
}

impl Handle {
    fn close(&self) -> Result<()> {
        let shared = &self.shared;
        if shared.work.is_stopping() {
            return Ok(());
        }
        shared.work.stop();
        shared.syncs.close();
        for joiner in std::mem::take(&mut *self.threads.lock()) {
            joiner.join();
        }
        let outcome = commit::seal(shared);
        shared.poison(&Error::new(ErrorKind::Closed, "the store is closed"));
        shared.watches.close();
        drop(shared.lock.lock().take());
        outcome
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Who wants to know calls `close`. What was promised is in the log whether this works or not.
        let _ = self.close();
    }
}

impl Engine for Local {
    fn capabilities(&self) -> &Capabilities {
        &self.0.shared.capabilities
    }

    fn snapshot(&self) -> Fut<'static, Result<Box<dyn Snapshot>>> {
        let shared = &self.0.shared;
        if shared.work.is_stopping() {
            return Fut::ready(Err(Error::new(ErrorKind::Closed, "the store is closed")));
        }
        let (view, generation) = {
            let mut visible = shared.visible.lock_soon();
            (visible.view(), visible.generation)
        };
        Fut::ready(Ok(Box::new(LocalSnapshot::new(shared, view, generation))))
    }

    fn commit(&self, snapshot: Box<dyn Snapshot>, commit: Commit) -> Fut<'static, Result<Version>> {
        let Ok(snapshot) = (snapshot as Box<dyn Any>).downcast::<LocalSnapshot>() else {
            return Fut::ready(Err(Error::new(
                ErrorKind::Unsupported,
                "another engine's snapshot",
            )));
        };
        let at = snapshot.version();
        // Nobody reads it any more: without it, the writer need not copy what it shows.
        drop(snapshot);
        self.commit_at(at, commit)
    }

    fn newest(&self) -> Option<Version> {
        let shared = &self.0.shared;
        // Who finds the store closed is told so when it asks for a snapshot.
        (!shared.work.is_stopping()).then(|| shared.visible.lock_soon().version)
    }

    fn look(&self, at: Version, key: &[u8]) -> Result<Option<Bytes>> {
        let levels = {
            let visible = self.0.shared.visible.lock_soon();
            if visible.version != at {
                return Err(Error::new(ErrorKind::Conflict, "another commit came between"));
            }
            match visible.layered(&Key::new(key)) {
                Found::Value(value) => return Ok(Some(value.clone())),
                Found::Gone => return Ok(None),
                Found::Unknown => Arc::clone(&visible.levels),
            }
        };
        levels.get(key)
    }

    fn look_any(&self, at: Version, range: &KeyRange) -> Result<bool> {
        let visible = || {
            let visible = self.0.shared.visible.lock_soon();
            match visible.version == at {
                true => Ok(visible),
                false => Err(Error::new(ErrorKind::Conflict, "another commit came between")),
            }
        };
        let levels = {
            let visible = visible()?;
            if visible.any_layered(range) {
                return Ok(true);
            }
            Arc::clone(&visible.levels)
        };
        let mut tables = levels.scan(range)?;
        while let Some((key, value)) = tables.peek() {
            if value.is_some() && matches!(visible()?.layered(&Key::new(key)), Found::Unknown) {
                return Ok(true);
            }
            tables.advance()?;
        }
        Ok(false)
    }

    fn commit_at(&self, at: Version, commit: Commit) -> Fut<'static, Result<Version>> {
        self.commit_task(Task { at, alone: false, commit })
    }

    fn commit_alone(&self, at: Version, commit: Commit) -> Fut<'static, Result<Version>> {
        self.commit_task(Task { at, alone: true, commit })
    }

    fn sync(&self) -> Fut<'static, Result<()>> {
        let local = self.clone();
        Fut::later(async move {
            let shared = &local.0.shared;
            if let Some(error) = shared.stopped() {
                return Err(error);
            }
            let version = shared.visible.lock().version;
            commit::sync(shared, version).await
        })
    }

    fn syncs_for_others(&self) -> bool {
        self.0.shared.work.is_threaded()
    }

    fn sync_then(&self, done: OnSync) {
        let shared = &self.0.shared;
        if !shared.work.is_threaded() {
            let words = "this store has no threads";
            return done(Err(Error::new(ErrorKind::Unsupported, words)));
        }
        if let Some(error) = shared.stopped() {
            return done(Err(error));
        }
        let version = shared.visible.lock_soon().version;
        shared.syncs.call(version, done);
    }

    fn watch(&self, key: &Key, since: Version) -> Fut<'static, Result<Watch>> {
        let shared = &self.0.shared;
        let watch = shared.watches.add(key);
        let visible = shared.visible.lock();
        let point = KeyRange::point(key);
        let changed = since < visible.floor || visible.any_newer(&point, since);
        drop(visible);
        if changed {
            shared.watches.fire(&point);
        }
        Fut::ready(Ok(watch))
    }
}

impl Local {
    fn commit_task(&self, task: Task) -> Fut<'static, Result<Version>> {
        let durability = task.commit.durability;
        let shared = &self.0.shared;
        let outcome = shared.submit(task);
        if !shared.work.is_threaded() && shared.visible.lock().frozen.is_some() {
            work::fold_now(shared);
        }
        match outcome {
            Outcome::Done(Ok(version)) if durability == Durability::Synced => {
                let local = self.clone();
                Fut::later(async move {
                    commit::sync(&local.0.shared, version).await?;
                    Ok(version)
                })
            }
            Outcome::Done(outcome) => Fut::ready(outcome),
            Outcome::NoSpace(_, error) if !shared.may_reclaim() => Fut::ready(Err(error)),
            Outcome::NoRoom(_) | Outcome::NoSpace(..) => {
                let local = self.clone();
                Fut::later(async move { local.commit_when_room(outcome, durability).await })
            }
        }
    }

    /// Waits for room in memory, or on the disk, and tries again.
    async fn commit_when_room(
        &self,
        mut outcome: Outcome,
        durability: Durability,
    ) -> Result<Version> {
        let shared = &self.0.shared;
        let mut reclaims = 0;
        loop {
            outcome = match outcome {
                Outcome::NoRoom(task) => {
                    work::folded(shared).await?;
                    shared.submit(task)
                }
                Outcome::NoSpace(_, error) if reclaims == RECLAIMS_MAX || !shared.may_reclaim() => {
                    return Err(error);
                }
                Outcome::NoSpace(task, _) => {
                    reclaims += 1;
                    let bytes = log_bytes(std::slice::from_ref(&task));
                    work::reclaimed(shared, bytes).await?;
                    shared.submit(task)
                }
                Outcome::Done(outcome) => {
                    let version = outcome?;
                    if durability == Durability::Synced {
                        commit::sync(shared, version).await?;
                    }
                    return Ok(version);
                }
            }
        }
    }
}
