//! What the system says of this process: its memory, what it wrote, and the time that it used.

use crate::error::{Error, Result};
use std::time::{Duration, Instant};

/// The kernel counts processor time in these.
const TICK: Duration = Duration::from_millis(10);

/// A process is quiet when it uses at most a tick in this time.
const QUIET: Duration = Duration::from_millis(80);

/// Background work that takes longer than this is not waited for.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Resident memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    /// Of it, what is no file's: without the pages of a memory map.
    pub(crate) anonymous: u64,
    /// The most that was ever resident.
    pub(crate) peak: u64,
}

impl Memory {
    pub(crate) fn now() -> Result<Self> {
        Self::of("self")
    }

    /// Of a process by its number, or `self`.
    pub(crate) fn of(process: &str) -> Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        Ok(Self {
            resident: field(&status, "VmRSS:")? << 10,
            anonymous: field(&status, "RssAnon:")? << 10,
            peak: field(&status, "VmHWM:")? << 10,
        })
    }
}

/// Bytes written since the process began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    /// Handed to the system in calls.
    pub(crate) calls: u64,
    /// Pages that were made dirty, each as a whole: about what goes to the disk.
    pub(crate) pages: u64,
}

impl Written {
    pub(crate) fn now() -> Result<Self> {
        let io = std::fs::read_to_string("/proc/self/io")?;
        Ok(Self { calls: field(&io, "wchar:")?, pages: field(&io, "write_bytes:")? })
    }
}

fn field(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| Error::new(format!("the system does not report {name}")))
}

/// Processor time that all threads of a process used so far.
fn processor_time(process: &str) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in parentheses, may hold spaces; user and system time are fields 14 and 15.
    let ticks = stat.rsplit_once(')').and_then(|(_, fields)| {
        let mut fields = fields.split_whitespace().skip(11);
        let user: u32 = fields.next()?.parse().ok()?;
        let system: u32 = fields.next()?.parse().ok()?;
        Some(user + system)
    });
    let ticks = ticks.ok_or_else(|| Error::new("the system does not report processor time"))?;
    Ok(TICK * ticks)
}

/// What was done behind a cell's back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settled {
    /// Processor time from the end of the cell until the process was quiet.
    pub(crate) busy: Duration,
    /// It was not quiet in time: the next cell starts under this one's work.
    pub(crate) gave_up: bool,
}

/// Waits until no thread of this process works, so that one engine's background work does not slow
/// the next one's cell.
pub(crate) fn settle() -> Result<Settled> {
    settle_of("self", SETTLE_MAX)
}

/// The same of another process, by its number.
pub(crate) fn settle_of(process: &str, longest: Duration) -> Result<Settled> {
    let start = Instant::now();
    let before = processor_time(process)?;
    let mut last = before;
    loop {
        std::thread::sleep(QUIET);
        let now = processor_time(process)?;
        let quiet = now - last <= TICK;
        let gave_up = !quiet && start.elapsed() >= longest;
        if quiet || gave_up {
            let busy = now - before;
            return Ok(Settled { busy, gave_up });
        }
        last = now;
    }
}

/// Writes what the system holds back to the disk, so that a sync measured next pays for its own.
pub(crate) fn flush_system() {
    rustix::fs::sync();
}
