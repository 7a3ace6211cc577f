//! What open files and sessions take in memory, by the allocator's own count.

use super::core_side::Core;
use crate::error::{Error, Result};
use crate::table::{Table, count};
use base::block_on;
use fs::{Caller, Handle, OpenFlags, Session, SessionOptions, Sharing};
use tikv_jemalloc_ctl::{epoch, stats};

/// Files that are opened, each once.
const OPENS: u64 = 100_000;

/// Sessions that are started.
const SESSIONS: usize = 1000;

pub(crate) fn run(core: &Core, files: u64) -> Result<()> {
    eprintln!("bench: memory ...");
    let opens = OPENS.min(files);
    // Once for the caches of the engine, which are not what is measured.
    let warm = open_all(core, opens)?;
    release_all(core, warm)?;
    // The list of handles is the measurement's own.
    let mut handles = Vec::with_capacity(opens as usize);
    let before = allocated()?;
    for number in 0..opens {
        handles.push(open_one(core, number)?);
    }
    let file = allocated()?.saturating_sub(before) as f64 / opens as f64;
    release_all(core, handles)?;
    let mut table = Table::new("memory", ["bytes each", "of"]);
    table.row("open file", [count(file), count(opens as f64)]);
    table.row("session", [count(session(core)?), count(SESSIONS as f64)]);
    table.print("Memory that the allocator gave out");
    Ok(())
}

fn open_one(core: &Core, number: u64) -> Result<Handle> {
    let caller = Caller { checked_here: false, ..Caller::root() };
    Ok(block_on(core.session().open(&caller, core.file(number), OpenFlags::READ))?)
}

fn open_all(core: &Core, opens: u64) -> Result<Vec<Handle>> {
    (0..opens).map(|number| open_one(core, number)).collect()
}

fn release_all(core: &Core, handles: Vec<Handle>) -> Result<()> {
    for handle in handles {
        block_on(core.session().release(handle))?;
    }
    Ok(())
}

/// What a session gives back when it is dropped: starting one also writes to the store, which takes
/// memory of its own.
fn session(core: &Core) -> Result<f64> {
    // A private one would bury the others.
    let options = SessionOptions { sharing: Sharing::Shared, ..SessionOptions::default() };
    let start = || block_on(Session::start(core.session().volume(), options.clone()));
    let sessions = (0..SESSIONS).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
    crate::process::settle()?;
    let before = allocated()?;
    for session in sessions {
        drop(session);
    }
    Ok(before.saturating_sub(allocated()?) as f64 / SESSIONS as f64)
}

fn allocated() -> Result<u64> {
    let failed = |error| Error::new(format!("the allocator does not count: {error}"));
    epoch::advance().map_err(failed)?;
    Ok(stats::allocated::read().map_err(failed)? as u64)
}
