//! Committing: check, log, apply. One thread does it for all who wait at that moment.

use crate::error::io_error;
use crate::log::record::Change;
use crate::log::{AppendError, Log, record};
use crate::open::start_log;
use crate::overlay::{Found, Overlay};
use crate::reclaim::log_bytes;
use crate::shared::{Frozen, Shared, Visible};
use base::sync::{Backoff, Mutex};
use bytes::Bytes;
use kv::{AtomicOp, Commit, Error, ErrorKind, Key, KeyRange, Op, Result, Version};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

/// Longest batch: bounds the work that one thread does for others.
const BATCH_MAX: usize = 64;

/// The end of the log and what is needed to write there.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) log: Log,
    buffer: Vec<u8>,
}

impl Pipeline {
    pub(crate) fn new(log: Log) -> Self {
        Self { log, buffer: Vec::new() }
    }
}

/// A transaction that waits for somebody to commit it.
#[derive(Debug)]
pub(crate) struct Request {
    task: Mutex<Option<Task>>,
    outcome: Mutex<Option<Outcome>>,
    done: AtomicBool,
}

/// A transaction and the version that it read.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) at: Version,
    /// It counts only if that is the newest version still, whatever it read.
    pub(crate) alone: bool,
    pub(crate) commit: Commit,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Result<Version>),
    /// Nothing was done, because there is no room in memory: try again when a layer was folded.
    NoRoom(Task),
    /// Nothing was done, because there is no room on the disk: try again when some was given back.
    NoSpace(Task, Error),
}

/// A transaction that passed the checks.
struct Accepted {
    frees: bool,
    version: Version,
    changes: Vec<Change>,
    marks: Vec<KeyRange>,
}

impl Shared {
    /// Commits `task`, and what else waits.
    pub(crate) fn submit(&self, task: Task) -> Outcome {
        if let Some(mut pipeline) = self.pipeline.try_lock() {
            let waiting = self.take_queue();
            if waiting.is_empty() {
                return self.run_alone(&mut pipeline, task);
            }
            let mut outcome = None;
            self.run(&mut pipeline, Some((task, &mut outcome)), &waiting);
            return outcome.unwrap_or_else(|| Outcome::Done(Err(lost())));
        }
        let request = Arc::new(Request {
            task: Mutex::new(Some(task)),
            outcome: Mutex::default(),
            done: AtomicBool::new(false),
        });
        self.queue.lock().push(Arc::clone(&request));
        let mut backoff = Backoff::default();
        loop {
            if request.done.load(Ordering::Acquire) {
                return request.take();
            }
            if let Some(mut pipeline) = self.pipeline.try_lock() {
                self.run(&mut pipeline, None, &self.take_queue());
            } else if !backoff.wait() {
                break;
            }
        }
        while !request.done.load(Ordering::Acquire) {
            let mut pipeline = self.pipeline.lock();
            self.run(&mut pipeline, None, &self.take_queue());
        }
        request.take()
    }

    /// Commits `tasks` as one batch.
    pub(crate) fn submit_together(&self, tasks: Vec<Task>) -> Vec<Outcome> {
        let mut pipeline = self.pipeline.lock();
        self.run_batch(&mut pipeline, tasks)
    }

    fn take_queue(&self) -> Vec<Arc<Request>> {
        let mut queue = self.queue.lock_soon();
        if queue.is_empty() {
            return Vec::new();
        }
        let batch = queue.len().min(BATCH_MAX);
        let rest = queue.split_off(batch);
        std::mem::replace(&mut *queue, rest)
    }

    /// Commits one transaction when nobody else waits, which is most of the time. What is out of the
    /// ordinary is done as a batch of one.
    fn run_alone(&self, pipeline: &mut Pipeline, task: Task) -> Outcome {
        if self.read_only || self.stopped().is_some() || !self.has_room(pipeline, &task) {
            let outcome = self.run_batch(pipeline, vec![task]).pop();
            return outcome.unwrap_or_else(|| Outcome::Done(Err(lost())));
        }
        let mut batch = Batch::new(self);
        let version = batch.visible().version + 1;
        let Commit { reads, writes, ops, frees, .. } = task.commit;
        let checked = batch.check(task.at, task.alone, &reads).and_then(|()| batch.resolve(ops));
        drop(batch);
        let changes = match checked {
            Ok(changes) => changes,
            Err(error) => return Outcome::Done(Err(error)),
        };
        let one = Accepted { frees, version, changes, marks: writes };
        pipeline.buffer.clear();
        self.write_record(pipeline, &one);
        if let Err(error) = self.append(pipeline) {
            return Outcome::Done(Err(error));
        }
        self.publish(one);
        Outcome::Done(Ok(version))
    }

    /// Whether a transaction can be committed without making room for it first.
    fn has_room(&self, pipeline: &Pipeline, task: &Task) -> bool {
        let full = self.options.overlay_bytes();
        self.reserve.is_whole()
            && pipeline.log.len() < full as u64
            && pipeline.log.len() + log_bytes(std::slice::from_ref(task))
                <= pipeline.log.allocated()
            && self.visible.lock_soon().active.bytes() < full
    }

    /// Commits one batch: the leader's own transaction, then those of others.
    fn run(
        &self,
        pipeline: &mut Pipeline,
        own: Option<(Task, &mut Option<Outcome>)>,
        waiting: &[Arc<Request>],
    ) {
        let (own_task, own_outcome) = own.unzip();
        let tasks: Vec<Task> = own_task
            .into_iter()
            .chain(waiting.iter().filter_map(|one| one.task.lock().take()))
            .collect();
        if tasks.is_empty() {
            return;
        }
        let mut outcomes = self.run_batch(pipeline, tasks).into_iter();
        if let Some(own) = own_outcome {
            *own = outcomes.next();
        }
        for (request, outcome) in waiting.iter().zip(outcomes) {
            *request.outcome.lock() = Some(outcome);
            request.done.store(true, Ordering::Release);
        }
    }

    fn run_batch(&self, pipeline: &mut Pipeline, tasks: Vec<Task>) -> Vec<Outcome> {
        let all = |tasks: Vec<Task>, error: Error| {
            tasks.iter().map(|_| Outcome::Done(Err(error.clone()))).collect()
        };
        if let Some(error) = self.stopped() {
            return all(tasks, error);
        }
        if self.read_only && tasks.iter().any(|task| !task.commit.frees) {
            let words = "the store was opened to save what is left, and is not written to";
            return tasks
                .into_iter()
                .map(|task| match task.commit.frees {
                    true => Outcome::NoRoom(task),
                    false => Outcome::Done(Err(Error::new(ErrorKind::ReadOnly, words))),
                })
                .collect();
        }
        match self.make_room(pipeline) {
            Ok(true) => {}
            Ok(false) => return tasks.into_iter().map(Outcome::NoRoom).collect(),
            Err(error) => return all(tasks, error),
        }
        match self.take_space(pipeline, &tasks) {
            Ok(()) => self.commit_all(pipeline, tasks),
            Err(error) if error.kind() == ErrorKind::Full => {
                self.commit_some(pipeline, tasks, &error)
            }
            Err(error) => all(tasks, error),
        }
    }

    /// On a full disk: commits what frees space, with room that was kept for it.
    fn commit_some(
        &self,
        pipeline: &mut Pipeline,
        tasks: Vec<Task>,
        error: &Error,
    ) -> Vec<Outcome> {
        let frees: Vec<bool> = tasks.iter().map(|task| task.commit.frees).collect();
        let (freeing, mut others): (Vec<Task>, Vec<Task>) =
            tasks.into_iter().partition(|task| task.commit.frees);
        let done = match self.take_slack(pipeline, &freeing) {
            Ok(()) => self.commit_all(pipeline, freeing),
            Err(error) => {
                freeing.into_iter().map(|task| Outcome::NoSpace(task, error.clone())).collect()
            }
        };
        let mut done = done.into_iter();
        let mut others = others.drain(..);
        let no_space = |task| Outcome::NoSpace(task, error.clone());
        frees
            .into_iter()
            .filter_map(|frees| if frees { done.next() } else { others.next().map(no_space) })
            .collect()
    }

    fn commit_all(&self, pipeline: &mut Pipeline, tasks: Vec<Task>) -> Vec<Outcome> {
        let (mut outcomes, accepted) = self.check_all(pipeline, tasks);
        if accepted.is_empty() {
            return outcomes;
        }
        if let Err(error) = self.append(pipeline) {
            for outcome in &mut outcomes {
                if matches!(outcome, Outcome::Done(Ok(_))) {
                    *outcome = Outcome::Done(Err(error.clone()));
                }
            }
            return outcomes;
        }
        for one in accepted {
            self.publish(one);
        }
        outcomes
    }

    /// Writes the buffer to the log.
    fn append(&self, pipeline: &mut Pipeline) -> Result<()> {
        pipeline.log.append(&pipeline.buffer).map_err(|error| match error {
            AppendError::Clean(error) => error,
            AppendError::Unknown(error) => {
                let words = "a write to the log failed half way, so open the store again";
                let error = Error::new(ErrorKind::Unknown, format!("{words}: {error}"));
                self.poison(&error);
                error
            }
        })
    }

    /// Why no commit can be taken, if so.
    pub(crate) fn stopped(&self) -> Option<Error> {
        let error = self.work.poisoned().or_else(|| self.syncs.failure())?;
        Some(error.with_kind(ErrorKind::Closed))
    }

    /// Checks each transaction against what is committed and against those before it in the batch,
    /// and writes the records of those that pass to the buffer.
    fn check_all(
        &self,
        pipeline: &mut Pipeline,
        tasks: Vec<Task>,
    ) -> (Vec<Outcome>, Vec<Accepted>) {
        pipeline.buffer.clear();
        let single = tasks.len() == 1;
        let mut accepted = Vec::with_capacity(tasks.len());
        let mut outcomes = Vec::with_capacity(tasks.len());
        let mut batch = Batch::new(self);
        let mut next = batch.visible().version + 1;
        for task in tasks {
            let outcome = batch
                .check(task.at, task.alone, &task.commit.reads)
                .and_then(|()| batch.resolve(task.commit.ops));
            let changes = match outcome {
                Ok(changes) => changes,
                Err(error) => {
                    outcomes.push(Outcome::Done(Err(error)));
                    continue;
                }
            };
            let (frees, marks) = (task.commit.frees, task.commit.writes);
            let one = Accepted { frees, version: next, changes, marks };
            if !single {
                batch.note(&one);
            }
            accepted.push(one);
            outcomes.push(Outcome::Done(Ok(next)));
            next += 1;
        }
        // Readers can go on while the records are written.
        drop(batch);
        for one in &accepted {
            self.write_record(pipeline, one);
        }
        (outcomes, accepted)
    }

    /// Writes the record of a transaction to the end of the buffer.
    fn write_record(&self, pipeline: &mut Pipeline, one: &Accepted) {
        let (synced, log) = (self.syncs.synced(), pipeline.log.number());
        pipeline.log.note_synced(synced);
        let start = record::begin(&mut pipeline.buffer);
        for change in &one.changes {
            change.encode(&mut pipeline.buffer);
        }
        record::finish(
            &mut pipeline.buffer,
            start,
            record::Header { version: one.version, synced, log },
        );
    }

    /// Lets everybody see what was written to the log.
    fn publish(&self, one: Accepted) {
        if one.frees {
            self.reclaim_due.store(true, Ordering::Release);
        }
        let mut changed = Vec::new();
        if !self.watches.is_empty() {
            changed.extend(one.marks.iter().cloned());
            changed.extend(one.changes.iter().map(Change::range));
        }
        {
            let mut visible = self.visible.lock_soon();
            for change in one.changes {
                change.apply(&mut visible.active, one.version);
            }
            for range in &one.marks {
                visible.active.mark(range, one.version);
            }
            visible.version = one.version;
        }
        // Watches that were made since the list was taken have seen the new version or will look.
        for range in &changed {
            self.watches.fire(range);
        }
    }

    /// Freezes the active layer when it is full. False when the layer below is not folded yet.
    fn make_room(&self, pipeline: &mut Pipeline) -> Result<bool> {
        {
            let visible = self.visible.lock_soon();
            // One key that is written for ever fills the log and not the layer.
            let full = self.options.overlay_bytes();
            if visible.active.bytes() < full && pipeline.log.len() < full as u64 {
                return Ok(true);
            }
            if visible.frozen.is_some() {
                return Ok(false);
            }
        }
        self.freeze(pipeline)?;
        Ok(true)
    }

    /// Starts a new layer and a new log.
    pub(crate) fn freeze(&self, pipeline: &mut Pipeline) -> Result<()> {
        let number = pipeline.log.number() + 1;
        let log = match self.reserve.spare.start(&*self.raw, number, self.options.log_step_bytes())
        {
            Some(log) => log,
            None => start_log(&self.raw, &self.reserve, number, &self.options)?,
        };
        self.syncs.start_file(number, log.file(), true);
        self.reserve.spare.retire(&std::mem::replace(&mut pipeline.log, log));
        {
            let mut visible = self.visible.lock_soon();
            visible.active.settle();
            let overlay = Arc::new(std::mem::take(&mut visible.active));
            visible.frozen =
                Some(Arc::new(Frozen { overlay, version: visible.version, next_log: number }));
            visible.recent = None;
            visible.floor = visible.active_since;
            visible.active_since = visible.version;
            visible.generation += 1;
        }
        self.work.want_fold();
        Ok(())
    }
}

impl Request {
    fn take(&self) -> Outcome {
        self.outcome.lock().take().unwrap_or_else(|| Outcome::Done(Err(lost())))
    }
}

/// Every request gets an outcome; should one not, nobody can say what became of it.
fn lost() -> Error {
    Error::new(ErrorKind::Unknown, "the outcome of a commit was lost")
}

/// What the transactions of a batch are checked against.
struct Batch<'a> {
    shared: &'a Shared,
    /// Held while transactions are checked, and let go for reads that may need the disk.
    visible: Option<MutexGuard<'a, Visible>>,
    /// What those before wrote, when there are some.
    scratch: Option<Overlay>,
}

impl<'a> Batch<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self { shared, visible: None, scratch: None }
    }

    fn visible(&mut self) -> &mut Visible {
        let shared = self.shared;
        self.visible.get_or_insert_with(|| shared.visible.lock_soon())
    }

    fn check(&mut self, at: Version, alone: bool, reads: &[KeyRange]) -> Result<()> {
        if alone {
            let first = self.scratch.is_none();
            return match first && self.visible().version == at {
                true => Ok(()),
                false => Err(Error::new(ErrorKind::Conflict, "another commit came between")),
            };
        }
        if reads.is_empty() {
            return Ok(());
        }
        let visible = self.visible();
        if at < visible.floor {
            return Err(Error::new(
                ErrorKind::TooOld,
                "the transaction is older than what is known of later writes",
            ));
        }
        let changed = reads.iter().find(|range| visible.any_newer(range, at));
        let changed = changed.or_else(|| {
            let scratch = self.scratch.as_ref()?;
            reads.iter().find(|range| scratch.any_newer(range, at))
        });
        match changed {
            Some(range) => Err(Error::new(ErrorKind::Conflict, format!("{range:?} has changed"))),
            None => Ok(()),
        }
    }

    /// Turns operations into what they come to.
    fn resolve(&mut self, ops: Vec<Op>) -> Result<Vec<Change>> {
        let mut changes: Vec<Change> = Vec::with_capacity(ops.len());
        // A transaction's operations are, and then none has the key of another but the one right before it.
        let mut in_order = true;
        for op in ops {
            in_order = in_order && is_behind(changes.last(), &op);
            let change = match op {
                Op::Put(key, value) => Change::Set(key, Some(value)),
                Op::Delete(key) => Change::Set(key, None),
                Op::DeleteRange(range) => Change::Clear(range),
                Op::Atomic(key, op) => {
                    // Several on one key come one after the other.
                    let new = match changes.last() {
                        Some(Change::Set(last, value) | Change::Count(last, value))
                            if *last == key =>
                        {
                            let new = op.apply(value.as_deref());
                            changes.pop();
                            new
                        }
                        _ if in_order => self.applied(&key, &op)?,
                        _ => match last_of(&changes, &key) {
                            Some(value) => op.apply(value.map(|value| &**value)),
                            None => self.applied(&key, &op)?,
                        },
                    };
                    Change::Count(key, new)
                }
            };
            changes.push(change);
        }
        Ok(changes)
    }

    /// What an operation makes of the value that is there now.
    fn applied(&mut self, key: &Key, op: &AtomicOp) -> Result<Option<Bytes>> {
        match self.scratch.as_ref().map_or(Found::Unknown, |scratch| scratch.get(key)) {
            Found::Value(value) => return Ok(op.apply(Some(value))),
            Found::Gone => return Ok(op.apply(None)),
            Found::Unknown => {}
        }
        // Most counters are hot: found without a view, which would make the writer copy.
        match self.visible().active.get(key) {
            Found::Value(value) => return Ok(op.apply(Some(value))),
            Found::Gone => return Ok(op.apply(None)),
            Found::Unknown => {}
        }
        let view = self.visible().view();
        // Nobody else commits meanwhile, so what is read does not change.
        self.visible = None;
        Ok(op.apply(view.get(key)?.as_deref()))
    }

    fn note(&mut self, accepted: &Accepted) {
        let scratch = self.scratch.get_or_insert_default();
        for change in &accepted.changes {
            change.clone().apply(scratch, accepted.version);
        }
        for range in &accepted.marks {
            scratch.mark(range, accepted.version);
        }
    }
}

/// Whether an operation is on a key behind that of the change before it, or on the same.
fn is_behind(last: Option<&Change>, op: &Op) -> bool {
    match (last, op) {
        (_, Op::DeleteRange(_)) | (Some(Change::Clear(_)), _) => false,
        (None, _) => true,
        (
            Some(Change::Set(last, _) | Change::Count(last, _)),
            Op::Put(key, _) | Op::Delete(key) | Op::Atomic(key, _),
        ) => last <= key,
    }
}

/// What the changes of a transaction have made of a key so far, when they did anything to it.
fn last_of<'a>(changes: &'a [Change], key: &Key) -> Option<Option<&'a Bytes>> {
    changes.iter().rev().find_map(|change| match change {
        Change::Set(other, value) | Change::Count(other, value) => {
            (other == key).then_some(value.as_ref())
        }
        Change::Clear(range) => range.contains(key).then_some(None),
    })
}

/// Makes what is committed up to `version` survive the loss of power.
pub(crate) async fn sync(shared: &Shared, version: Version) -> Result<()> {
    shared.syncs.wait(version, || shared.visible.lock().version).await
}

/// The last act of a store that is closed: everything is durable, and the manifest says so.
pub(crate) fn seal(shared: &Shared) -> Result<()> {
    if let Some(error) = shared.stopped() {
        return Err(error);
    }
    let version = shared.visible.lock().version;
    base::block_on(sync(shared, version))?;
    let _pipeline = shared.pipeline.lock();
    if shared.visible.lock().version != version {
        return Err(io_error(
            "commits while the store was closed",
            std::io::ErrorKind::Other.into(),
        ));
    }
    shared.reserve.give_spare();
    shared.edit(&[], &[], |manifest| manifest.closed_at = Some(version), |_| {})
}
