//! Space: what a commit must find on the disk, and how what was freed comes back.

use crate::commit::{Pipeline, Task};
use crate::levels::pick_gone;
use crate::log::record;
use crate::shared::Shared;
use kv::{AtomicOp, ErrorKind, Op, Result};
use std::sync::atomic::Ordering;

impl Shared {
    /// Room for ordinary commits: in the log, and kept for what becomes of the log.
    pub(crate) fn take_space(&self, pipeline: &mut Pipeline, tasks: &[Task]) -> Result<()> {
        let bytes = log_bytes(tasks);
        let fits = pipeline.log.len() + bytes <= pipeline.log.allocated();
        if fits && self.reserve.is_whole() {
            return Ok(());
        }
        if !self.reserve.is_whole() {
            // First: what the log takes now, the reserve would miss.
            self.retarget(pipeline)?;
        }
        self.grow_log(pipeline, bytes)?;
        self.retarget(pipeline)
    }

    /// Takes room for the log, if need be that of one that is kept for the next.
    fn grow_log(&self, pipeline: &mut Pipeline, bytes: u64) -> Result<()> {
        let grown = pipeline.log.grow(bytes);
        if self.is_short(&grown) { pipeline.log.grow(bytes) } else { grown }
    }

    /// Whether something failed for want of room, and there is more now.
    fn is_short(&self, outcome: &Result<()>) -> bool {
        let full = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full);
        full && self.reserve.give_spare()
    }

    /// Room for commits that free space.
    pub(crate) fn take_slack(&self, pipeline: &mut Pipeline, tasks: &[Task]) -> Result<()> {
        let bytes = log_bytes(tasks);
        match self.grow_log(pipeline, bytes) {
            Err(_) if self.reserve.give(bytes, true) => pipeline.log.grow(bytes),
            grown => grown,
        }
    }

    /// Says what must be kept: for the layers to be folded, and for the tables to be merged.
    pub(crate) fn retarget(&self, pipeline: &Pipeline) -> Result<()> {
        let layers = {
            let visible = self.visible.lock_soon();
            let frozen = visible.frozen.as_ref().map_or(0, |frozen| frozen.overlay.bytes());
            // A table is not much longer than its log, and not longer than its layer in memory.
            let log = pipeline.log.allocated() + pipeline.log.allocated() / 8;
            frozen as u64 + log.max(visible.active.bytes() as u64)
        };
        self.reserve.want(layers + self.merge_need.load(Ordering::Relaxed))
    }

    /// Whether something was freed that may give space back.
    pub(crate) fn may_reclaim(&self) -> bool {
        self.reclaim_due.load(Ordering::Acquire) && self.stopped().is_none()
    }

    /// Gives back the space of what was freed, until there is room for ordinary commits of `bytes`.
    pub(crate) fn reclaim(&self, bytes: u64) -> Result<()> {
        // What is freed from here on is for the next time.
        if !self.reclaim_due.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let outcome = self.reclaim_all(bytes);
        if !matches!(outcome, Ok(true)) {
            self.reclaim_due.store(true, Ordering::Release);
        }
        // An error here is one of a disk that has no room even for this: who waits is told of that.
        outcome.map(drop)
    }

    /// True when there is nothing left to give back.
    fn reclaim_all(&self, bytes: u64) -> Result<bool> {
        if self.has_space(bytes) {
            return Ok(false);
        }
        while self.fold()? {}
        self.freeze_what_there_is()?;
        while self.fold()? {}
        while !self.work.is_stopping() {
            if self.has_space(bytes) {
                return Ok(false);
            }
            if !self.merge_by(|levels, _| pick_gone(levels))? {
                return Ok(true);
            }
        }
        Ok(true)
    }

    fn has_space(&self, bytes: u64) -> bool {
        let mut pipeline = self.pipeline.lock();
        self.retarget(&pipeline).is_ok()
            && self.grow_log(&mut pipeline, bytes).is_ok()
            && self.retarget(&pipeline).is_ok()
    }

    /// Freezes the active layer, if it has anything and nothing is frozen.
    pub(crate) fn freeze_what_there_is(&self) -> Result<()> {
        let mut pipeline = self.pipeline.lock();
        let ready = {
            let visible = self.visible.lock();
            visible.frozen.is_none() && !visible.active.is_empty()
        };
        if ready { self.freeze(&mut pipeline) } else { Ok(()) }
    }
}

/// What commits take in the log, at most, but for values that an operation finds there.
pub(crate) fn log_bytes(tasks: &[Task]) -> u64 {
    let op_bytes = |op: &Op| match op {
        Op::Put(key, value) => key.len() + value.len(),
        Op::Delete(key) => key.len(),
        Op::DeleteRange(range) => range.start.len() + range.end.len(),
        Op::Atomic(key, AtomicOp::CompareAndClear(value)) => key.len() + value.len(),
        Op::Atomic(key, _) => key.len() + 8,
    };
    let bytes = |task: &Task| -> usize {
        record::OVERHEAD_BYTES
            + task.commit.ops.iter().map(|op| op_bytes(op) + record::OP_BYTES).sum::<usize>()
    };
    tasks.iter().map(bytes).sum::<usize>() as u64
}
