//! `sim load`: many files, many open ones, many writers: the daemon's memory stays in its bound.
#![allow(clippy::disallowed_methods, reason = "a real mount has real time and real threads")]

mod files;
mod open;
mod writers;

pub use open::hold;

use crate::real::{Daemon, Place, why_not};
use crate::soak::Sample;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

/// What a daemon with default options may have in memory, whatever it serves.
pub const MEMORY_BYTES_MAX: u64 = 300 << 20;

/// What to run: those that have a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Files to make in the store, and to walk through a mount.
    pub files: Option<u64>,
    /// Files to have open at once.
    pub open: Option<u64>,
    /// Writers at once.
    pub writers: Option<u64>,
    /// Where to work: a new directory in it.
    pub dir: PathBuf,
}

/// One kind of load: what it did, in words.
type Load = fn(&Place, u64) -> Result<(String, u64), String>;

/// Runs them one after the other, a line each, and says whether all was well.
pub fn run(options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    if let Some(why) = why_not() {
        writeln!(out, "load: cannot run: {why}")?;
        return Ok(false);
    }
    let mut well = true;
    let all: [(Option<u64>, Load); 3] =
        [(options.files, files::run), (options.open, open::run), (options.writers, writers::run)];
    for (count, load) in all {
        let Some(count) = count else { continue };
        let scratch = tempfile::Builder::new().prefix("sim-load-").tempdir_in(&options.dir)?;
        let place = Place { dir: scratch.path().canonicalize()? };
        let started = Instant::now();
        match place.make().and_then(|()| load(&place, count)) {
            Ok((words, peak)) => {
                let (peak_mib, bound_mib) = (peak >> 20, MEMORY_BYTES_MAX >> 20);
                let holds = if peak <= MEMORY_BYTES_MAX { "held" } else { "BROKEN" };
                well &= peak <= MEMORY_BYTES_MAX;
                writeln!(
                    out,
                    "load: {words}, peak memory {peak_mib} MiB, bound of {bound_mib} MiB {holds}, {} s",
                    started.elapsed().as_secs()
                )?;
            }
            Err(words) => {
                writeln!(out, "load: FAILED: {words}\n{}", place.log_tail())?;
                well = false;
            }
        }
    }
    Ok(well)
}

/// Runs `work` on a mount with default options and gives what it says and the most memory that the daemon
/// had.
fn mounted<T>(place: &Place, work: impl FnOnce() -> Result<T, String>) -> Result<(T, u64), String> {
    let mut daemon = Daemon::start(place, &[])?;
    let done = work();
    if daemon.has_ended() {
        let words = format!("the daemon died by itself\n{}", place.log_tail());
        return Err(done.err().map_or(words.clone(), |error| format!("{error}; {words}")));
    }
    let done = done?;
    let peak = Sample::peak_bytes(daemon.pid())?;
    daemon.end()?;
    Ok((done, peak))
}
