//! Appending to the log.

use super::name_of;
use crate::error::io_error;
use base::disk::Window;
use base::{Disk, File};
use kv::{Error, Result, Version};
use std::sync::Arc;

/// A log that is written.
#[derive(Debug)]
pub(crate) struct Log {
    number: u64,
    file: Arc<dyn File>,
    len: u64,
    /// How far it may grow without asking for more.
    allocated: u64,
    /// How much the disk has given it, which is more in a file that had another log.
    room: u64,
    /// How much of another log the file has.
    old: u64,
    /// How far what it has was asked for, to be in memory before it is written over.
    asked: u64,
    /// Room is taken from the disk in steps of this, so that running out of it is met here and not
    /// in the middle of a record, and so that a sync need not also record a new length.
    step: u64,
    /// Where it is written next, in memory: with where that begins.
    window: Option<(u64, Box<dyn Window>)>,
    /// A window can be had, as far as is known.
    has_windows: bool,
    /// The newest version that was known to be synced, and how long the log was when that became known.
    synced: Version,
    synced_len: u64,
    /// How long records have been of late, about.
    typical: u64,
}

/// How much of the log is in memory at once.
const WINDOW_BYTES: u64 = 256 << 10;
const PAGE_BYTES: u64 = 4096;
/// How much of what is written over is asked for at once.
const AHEAD_BYTES: u64 = 256 << 10;
/// Records as long as this are written by calls: to make a page writable costs more than a call that fills it.
const LONG_BYTES: u64 = 1536;
/// A single one that is longer says no more of those to come.
const VERY_LONG_BYTES: u64 = 8 << 10;

/// Why nothing was appended.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// Nothing of it is in the log.
    Clean(Error),
    /// Some of it may be, and cannot be taken back.
    Unknown(Error),
}

impl Log {
    /// Starts log number `number`.
    pub(crate) fn create(disk: &dyn Disk, number: u64, step: u64) -> Result<Self> {
        let name = name_of(number);
        let failed = |error| io_error(format!("cannot start {name}"), error);
        let file = match disk.create(&name) {
            // Left by a start that failed behind this point: nothing was ever written to it.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                disk.remove(&name).map_err(failed)?;
                disk.create(&name).map_err(failed)?
            }
            other => other.map_err(failed)?,
        };
        Ok(Self::over(number, file, 0, step))
    }

    /// Starts log number `number` in a file that the disk has given `room`, whatever stands there.
    pub(crate) fn over(number: u64, file: Arc<dyn File>, room: u64, step: u64) -> Self {
        Self {
            number,
            file,
            len: 0,
            allocated: 0,
            room,
            old: room,
            asked: 0,
            step,
            window: None,
            has_windows: true,
            synced: 0,
            synced_len: 0,
            typical: 0,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Hears how far the log is synced.
    pub(crate) fn note_synced(&mut self, synced: Version) {
        if self.synced != synced {
            (self.synced, self.synced_len) = (synced, self.len);
        }
    }

    /// Whether it is synced again and again. A sync writes all of a window, of which little may have been used,
    /// and makes what is left of it need a fault for each page: then calls are cheaper.
    fn is_synced_often(&self) -> bool {
        self.synced_len > 0 && self.len - self.synced_len < WINDOW_BYTES
    }

    /// Appends whole records.
    pub(crate) fn append(&mut self, records: &[u8]) -> std::result::Result<(), AppendError> {
        let end = self.len + records.len() as u64;
        self.typical = (7 * self.typical + (records.len() as u64).min(VERY_LONG_BYTES)) / 8;
        if end > self.allocated {
            self.allocate(end).map_err(AppendError::Clean)?;
        }
        if end + AHEAD_BYTES > self.asked && self.asked < self.old {
            self.ask_ahead(end);
        }
        if self.write_to_window(records) {
            self.len = end;
            return Ok(());
        }
        if let Err(error) = self.file.write_at(records, self.len) {
            self.window = None;
            let error = io_error(format!("cannot write {}", name_of(self.number)), error);
            // What was written of it must not be met as a record later.
            return match self.file.truncate(self.len) {
                Ok(()) => {
                    (self.allocated, self.room) = (self.len, self.len);
                    Err(AppendError::Clean(error))
                }
                Err(_) => Err(AppendError::Unknown(error)),
            };
        }
        self.len = end;
        Ok(())
    }

    /// Asks for what comes next of another log: a record that ends in the midst of a page waits for the disk where the
    /// host has forgotten that page.
    #[cold]
    fn ask_ahead(&mut self, end: u64) {
        self.asked = self.asked.max(self.len / AHEAD_BYTES * AHEAD_BYTES);
        while end + AHEAD_BYTES > self.asked && self.asked < self.old {
            self.file.will_write(self.asked, AHEAD_BYTES.min(self.old - self.asked));
            self.asked += AHEAD_BYTES;
        }
    }

    /// Writes where the log is in memory. False when it is not, or not all of it.
    fn write_to_window(&mut self, records: &[u8]) -> bool {
        let end = self.len + records.len() as u64;
        let covers = |(start, window): &(u64, Box<dyn Window>)| end <= start + window.len() as u64;
        if !self.window.as_ref().is_some_and(covers) {
            self.move_window();
        }
        match &mut self.window {
            Some((start, window)) => window.write((self.len - *start) as usize, records),
            None => false,
        }
    }

    /// Takes what comes next into memory. A record that does not fit is written by a call.
    #[cold]
    fn move_window(&mut self) {
        self.window = None;
        if !self.has_windows || self.is_synced_often() || self.typical >= LONG_BYTES {
            return;
        }
        let start = self.len / PAGE_BYTES * PAGE_BYTES;
        let len = (self.allocated - start).min(WINDOW_BYTES) / PAGE_BYTES * PAGE_BYTES;
        if len == 0 {
            return;
        }
        match self.file.window(start, len as usize) {
            Some(window) => self.window = Some((start, window)),
            None => self.has_windows = false,
        }
    }

    /// How far room was taken for it.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// How much the disk has given it.
    pub(crate) fn room(&self) -> u64 {
        self.room
    }

    /// Takes room for `bytes` more.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<()> {
        let end = self.len + bytes;
        if end > self.allocated { self.allocate(end) } else { Ok(()) }
    }

    fn allocate(&mut self, end: u64) -> Result<()> {
        let generous = end.next_multiple_of(self.step);
        if generous <= self.room {
            self.allocated = generous;
            return Ok(());
        }
        let outcome = self.file.allocate(generous).map(|()| generous);
        // Close to full, just enough is still enough.
        let outcome = outcome.or_else(|_| self.file.allocate(end).map(|()| end));
        self.allocated = outcome.map_err(|error| {
            io_error(format!("no room for {} to grow", name_of(self.number)), error)
        })?;
        self.room = self.room.max(self.allocated);
        Ok(())
    }
}
