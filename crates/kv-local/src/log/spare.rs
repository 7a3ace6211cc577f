//! A log that is not needed any more, kept for the next one to be written over it: its blocks are there, and its
//! pages in memory. A sync of what overwrites blocks has nothing to say of the file.
//!
//! Only logs that this process has written are kept. One that an earlier life left may have records of a number
//! that is given out again.

use super::{Log, name_of};
use base::sync::Mutex;
use base::{Disk, File};
use std::sync::Arc;

/// Its name while it waits.
pub(crate) const NAME: &str = "spare";

/// What waits, and what may come to wait.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Logs that are not written any more, oldest first. What they hold may not be in tables yet.
    old: Vec<Old>,
    ready: Option<Old>,
}

/// A log that was written.
#[derive(Debug)]
struct Old {
    number: u64,
    file: Arc<dyn File>,
    room: u64,
}

impl Spare {
    /// This log is not written any more.
    pub(crate) fn retire(&self, log: &Log) {
        let (number, file, room) = (log.number(), Arc::clone(log.file()), log.room());
        self.0.lock().old.push(Old { number, file, room });
    }

    /// Logs below `first` are not needed any more. The newest of them is kept, if one is wanted.
    pub(crate) fn keep(&self, disk: &dyn Disk, first: u64, wanted: bool) {
        let mut state = self.0.lock();
        let mut newest = None;
        while state.old.first().is_some_and(|old| old.number < first) {
            newest = Some(state.old.remove(0));
        }
        if let Some(old) = newest.filter(|_| wanted && state.ready.is_none())
            && disk.rename(&name_of(old.number), NAME).is_ok()
        {
            state.ready = Some(old);
        }
    }

    /// Starts log number `number` over what waits. `None` when nothing does, or it cannot be had.
    pub(crate) fn start(&self, disk: &dyn Disk, number: u64, step: u64) -> Option<Log> {
        let old = self.0.lock().ready.take()?;
        match disk.rename(NAME, &name_of(number)) {
            Ok(()) => Some(Log::over(number, old.file, old.room, step)),
            Err(_) => {
                let _ = disk.remove(NAME);
                None
            }
        }
    }

    /// Gives up what waits, for its room. False when nothing does.
    pub(crate) fn give_up(&self, disk: &dyn Disk) -> bool {
        let given = self.0.lock().ready.take();
        given.is_some() && disk.remove(NAME).is_ok()
    }
}
