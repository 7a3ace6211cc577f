//! What is measured in children after the table of speeds, on the stores that it left: bytes written,
//! memory, and reopening after a kill.

use super::child::{Task, crash_file};
use super::options::Options;
use super::records::File;
use super::work::Worker;
use super::{Kind, Place};
use crate::error::{Error, Result};
use crate::table::{Table, count, mebibytes, median};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Creates over which written bytes are counted.
const WRITES_CREATES: u64 = 100_000;

/// A child is killed after this many creates, or after this time.
const CRASH_CREATES: u64 = 200_000;
const CRASH_TIME: Duration = Duration::from_secs(8);
const CRASH_TRIALS: u64 = 3;

/// How long the memory child does each kind of work.
const MEMORY_MS: u64 = 1_500;

/// Each child makes directories of its own: none comes near to this many.
const CHILD_DIRECTORIES: u64 = 1 << 20;

fn task(what: &'static str, place: &Place, options: &Options, child: u64) -> Task {
    Task {
        what,
        kind: place.kind,
        directory: place.directory.clone(),
        loaded: options.directories,
        next: place.files.next_directory() + child * CHILD_DIRECTORIES,
        amount: 0,
        seed: options.seed,
    }
}

/// Runs a child to its end and returns the numbers that it names.
fn answer(task: &Task, names: &[&str]) -> Result<Vec<u64>> {
    let name = task.kind.name();
    eprintln!("bench: {} of {name} ...", task.what);
    let output = task.command()?.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        let what = task.what;
        return Err(Error::new(format!("the {what} child of {name} failed")));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |name: &&str| {
        let line = text.lines().find_map(|line| line.strip_prefix(*name));
        line.and_then(|rest| rest.trim().parse().ok())
            .ok_or_else(|| Error::new(format!("the child does not say {name}")))
    };
    names.iter().map(number).collect()
}

/// Bytes written per create.
pub(crate) fn writes(places: &[Place], options: &Options) -> Result<()> {
    let (mut calls, mut pages) = (Vec::new(), Vec::new());
    for place in places {
        let task = Task { amount: WRITES_CREATES, ..task("writes", place, options, 1) };
        let numbers = answer(&task, &["creates", "calls", "pages"])?;
        let each = |bytes: u64| count(bytes as f64 / numbers[0].max(1) as f64);
        calls.push(each(numbers[1]));
        pages.push(each(numbers[2]));
    }
    let mut table = Table::new("bytes", Kind::names(&options.engines));
    table.row("in write calls", calls);
    table.row("in pages made dirty", pages);
    table.print(&format!(
        "Bytes written per create: {} creates by one thread, from open to the end of close",
        count(WRITES_CREATES as f64)
    ));
    Ok(())
}

/// Memory of a process that does all kinds of work.
pub(crate) fn memory(places: &[Place], options: &Options) -> Result<()> {
    let mut rows = [Vec::new(), Vec::new(), Vec::new()];
    for place in places {
        let task = Task { amount: MEMORY_MS, ..task("memory", place, options, 2) };
        let numbers = answer(&task, &["resident", "anonymous", "peak"])?;
        for (row, bytes) in rows.iter_mut().zip(numbers) {
            row.push(mebibytes(bytes));
        }
    }
    let [resident, anonymous, peak] = rows;
    let mut table = Table::new("memory", Kind::names(&options.engines));
    table.row("resident", resident);
    table.row("of it not of files", anonymous);
    table.row("peak", peak);
    table.print("Resident memory of a process that opened the store and did all kinds of work");
    Ok(())
}

/// Time to open a store whose process was killed, and to look one file up.
pub(crate) fn crash(places: &[Place], options: &Options) -> Result<()> {
    let mut rows = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for place in places {
        eprintln!("bench: crash of {} ...", place.kind.name());
        let mut trials = Vec::new();
        for trial in 0..CRASH_TRIALS {
            trials.push(crash_once(&task("crash", place, options, 3 + trial))?);
        }
        let times: Vec<f64> = trials.iter().map(|trial| trial.milliseconds).collect();
        let most = times.iter().copied().fold(0.0, f64::max);
        let total = |of: fn(&Crash) -> u64| count(trials.iter().map(of).sum::<u64>() as f64);
        let cells = [
            format!("{:.1} ms", median(&times)),
            format!("{most:.1} ms"),
            total(|trial| trial.returned),
            total(|trial| trial.lost),
        ];
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }
    let mut table = Table::new("reopen", Kind::names(&options.engines));
    let names = ["median", "slowest", "creates that had returned", "of them lost"];
    for (name, row) in names.into_iter().zip(rows) {
        table.row(name, row);
    }
    table.print(&format!(
        "Reopen after kill -9 and look one file up: {CRASH_TRIALS} times, after {} creates or {} s",
        count(CRASH_CREATES as f64),
        CRASH_TIME.as_secs()
    ));
    Ok(())
}

struct Crash {
    milliseconds: f64,
    /// Creates that the child said had returned.
    returned: u64,
    lost: u64,
}

fn crash_once(task: &Task) -> Result<Crash> {
    let returned = kill_midway(task)?;
    let mut worker = Worker::default();
    let start = Instant::now();
    let subject = task.kind.open(&task.directory)?;
    // No process renames in this directory.
    worker.lookup(&*subject, File::new(1, 0))?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    // Commits are lost from the end: the first that is not there is found by halving.
    let (mut found, mut end) = (0, returned);
    while found < end {
        let middle = (found + end).div_ceil(2);
        if worker.find(&*subject, crash_file(task.next, middle - 1))? {
            found = middle;
        } else {
            end = middle - 1;
        }
    }
    subject.close()?;
    Ok(Crash { milliseconds, returned, lost: returned - found })
}

/// Starts the child, kills it in the middle of its work, and returns how many creates it had
/// reported.
fn kill_midway(task: &Task) -> Result<u64> {
    let mut child = task.command()?.spawn()?;
    let out = child.stdout.take().ok_or_else(|| Error::new("the child has no output"))?;
    let mut lines = BufReader::new(out);
    let mut start = None;
    let mut returned: u64 = 0;
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        returned = line.trim().parse()?;
        line.clear();
        // The time to open does not count: the store may have to be repaired from the last kill.
        let start = *start.get_or_insert_with(Instant::now);
        if returned >= CRASH_CREATES || start.elapsed() >= CRASH_TIME {
            break;
        }
    }
    child.kill()?;
    child.wait()?;
    // What the child reported before it died is in the pipe; a line cut short is not a report.
    let mut rest = String::new();
    lines.read_to_string(&mut rest)?;
    for line in rest.split_inclusive('\n') {
        if let Some(number) = line.strip_suffix('\n') {
            returned = number.parse()?;
        }
    }
    if returned == 0 {
        let name = task.kind.name();
        return Err(Error::new(format!("the crash child of {name} did nothing")));
    }
    Ok(returned)
}

/// Fills an empty store in a child, which prints what it sees.
pub(crate) fn grow(kind: Kind, directory: &Path, options: &Options) -> Result<()> {
    println!("\nGrowing {} by creates, a transaction each:\n", kind.name());
    let task = Task {
        what: "grow",
        kind,
        directory: directory.to_owned(),
        loaded: options.directories,
        next: 0,
        amount: options.directories,
        seed: options.seed,
    };
    let status = task.command()?.stdout(Stdio::inherit()).status()?;
    if status.success() {
        return Ok(());
    }
    Err(Error::new(format!("growing {} failed", kind.name())))
}
