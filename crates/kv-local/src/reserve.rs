//! Room on the disk that is kept ahead, so that a full disk can be emptied again.
//!
//! One file holds it, as blocks that the disk has really given. It is as long as what folding the
//! layers in memory and the next merge may need, and some slack for the log. Ordinary commits are
//! taken only while it is whole. Work in the background may use all of it, and commits that free
//! space its slack: see docs/adr/0019. A log that is kept to be written over is room too, and is given up first.

use crate::error::io_error;
use crate::log::Spare;
use base::disk::{Disk, File, Lock};
use base::sync::Mutex;
use kv::Result;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const NAME: &str = "reserve";
/// Room is given up in pieces of at least this.
const PIECE_BYTES: u64 = 64 << 10;
/// How often a write is tried again with more room each time.
const TRIES: u32 = 16;

/// The room that is kept.
#[derive(Debug)]
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    /// What commits that free space may take of it.
    slack: u64,
    /// Looked at by every commit.
    whole: AtomicBool,
    state: Mutex<State>,
    /// A log to write the next one over.
    pub(crate) spare: Spare,
}

#[derive(Debug)]
struct State {
    file: Option<Arc<dyn File>>,
    len: u64,
    target: u64,
}

impl Reserve {
    /// The reserve as an earlier life left it.
    pub(crate) fn open(disk: &Arc<dyn Disk>, slack: u64) -> Self {
        let found = disk.open(NAME).and_then(|file| Ok((file.len()?, file))).ok();
        let (len, file) = found.map_or((0, None), |(len, file)| (len, Some(file)));
        let state = Mutex::new(State { file, len, target: slack });
        let (disk, whole) = (Arc::clone(disk), AtomicBool::new(false));
        Self { disk, slack, whole, state, spare: Spare::default() }
    }

    /// Gives up the log that is kept. False when there is none.
    pub(crate) fn give_spare(&self) -> bool {
        self.spare.give_up(&*self.disk)
    }

    /// Whether there is all the room that should be.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// From now on this much is needed beside the slack.
    pub(crate) fn want(&self, needed: u64) -> Result<()> {
        if self.slack == 0 {
            // Nothing is kept for a store that is only read.
            self.whole.store(true, Ordering::Release);
            return Ok(());
        }
        let mut state = self.state.lock();
        // In whole steps: a little more or less is not worth a call.
        state.target = (needed + self.slack).next_multiple_of((self.slack / 4).max(1));
        self.fill(&mut state)
    }

    fn fill(&self, state: &mut State) -> Result<()> {
        let mut outcome = self.fit(state);
        if outcome.as_ref().is_err_and(is_full) && self.give_spare() {
            outcome = self.fit(state);
        }
        self.whole.store(outcome.is_ok(), Ordering::Release);
        outcome.map_err(|error| io_error("no room to keep in reserve: remove something", error))
    }

    fn fit(&self, state: &mut State) -> io::Result<()> {
        if state.len > state.target + self.slack
            && let Some(file) = &state.file
            && file.truncate(state.target).is_ok()
        {
            state.len = state.target;
        }
        if state.len >= state.target {
            return Ok(());
        }
        let file = match &state.file {
            Some(file) => Arc::clone(file),
            None => {
                let file = match self.disk.create(NAME) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        self.disk.open(NAME)?
                    }
                    made => made?,
                };
                state.len = file.len()?;
                Arc::clone(state.file.insert(file))
            }
        };
        let mut outcome = Ok(());
        let mut step = state.target - state.len;
        // What there is should be ours, even when it is not enough.
        while step >= PIECE_BYTES.min(self.slack) {
            match file.allocate(state.len + step) {
                Ok(()) => {
                    state.len += step;
                    if state.len == state.target {
                        return Ok(());
                    }
                }
                Err(error) => outcome = Err(error),
            }
            step = step.div_ceil(2).min(state.target - state.len);
        }
        match outcome {
            Err(error) => Err(error),
            // Less than a piece is missing.
            Ok(()) => file.allocate(state.target).map(|()| state.len = state.target),
        }
    }

    /// Gives up `bytes` or somewhat more, of the slack alone or of all. False when there is not so
    /// much.
    pub(crate) fn give(&self, bytes: u64, slack_only: bool) -> bool {
        let mut state = self.state.lock();
        let floor = if slack_only { state.target.saturating_sub(self.slack) } else { 0 };
        let spare = state.len.saturating_sub(floor);
        if spare == 0 || (slack_only && spare < bytes) {
            return false;
        }
        let len = state.len - bytes.max(PIECE_BYTES).min(spare);
        let Some(file) = &state.file else { return false };
        if file.truncate(len).is_err() {
            return false;
        }
        state.len = len;
        self.whole.store(false, Ordering::Release);
        true
    }

    /// Does `write`, of about `bytes`, with room of the reserve if there is no other.
    pub(crate) fn help<T>(
        &self,
        bytes: u64,
        mut write: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut outcome = write();
        if outcome.as_ref().is_err_and(is_full) && self.give_spare() {
            outcome = write();
        }
        for tries in 0..TRIES {
            match &outcome {
                Err(error) if is_full(error) => {}
                _ => break,
            }
            if !self.give(bytes.max(PIECE_BYTES) << tries, false) {
                break;
            }
            outcome = write();
        }
        outcome
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A disk whose writes may use the reserve.
#[derive(Debug)]
pub(crate) struct Sparing {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) reserve: Arc<Reserve>,
}

impl Sparing {
    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SparingFile { file, reserve: Arc::clone(&self.reserve) })
    }
}

impl Disk for Sparing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.reserve.help(0, || self.disk.create(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        // What is opened again is read, and cut at most.
        self.disk.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.reserve.help(0, || self.disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Lock> {
        self.disk.lock(name)
    }

    fn lock_shared(&self, name: &str) -> io::Result<Option<Lock>> {
        self.disk.lock_shared(name)
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}

#[derive(Debug)]
struct SparingFile {
    file: Arc<dyn File>,
    reserve: Arc<Reserve>,
}

impl File for SparingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Doing it again from the start is the same as doing it once.
        self.reserve.help(bytes.len() as u64, || self.file.write_at(bytes, offset))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
