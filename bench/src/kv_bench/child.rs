//! What runs in a process of its own: what is measured of a process as a whole, and what is killed.

use super::cell::{self, Outcome, Until};
use super::files::Files;
use super::records::{DIRECTORY_FILES, FILE_RECORDS, File};
use super::subject::{Kind, Subject};
use super::work::{Work, Worker};
use crate::error::{Error, Result};
use crate::given::Given;
use crate::process::{self, Memory, Written};
use crate::table::{count, mebibytes};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The word on the command line that makes a process a child.
pub(crate) const CHILD: &str = "kv-child";

/// A crashing child reports this often how many creates have returned.
const REPORT_CREATES: u64 = 100;

/// How many times a growing child reports.
const GROW_REPORTS: u64 = 10;

/// What a child does.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// `writes`, `crash`, `memory` or `grow`.
    pub(crate) what: &'static str,
    pub(crate) kind: Kind,
    pub(crate) directory: PathBuf,
    /// Full directories in the store.
    pub(crate) loaded: u64,
    /// The first directory that may be made.
    pub(crate) next: u64,
    /// Creates, milliseconds or directories, by what it does.
    pub(crate) amount: u64,
    pub(crate) seed: u64,
}

impl Task {
    /// The command that runs it, its answer piped back.
    pub(crate) fn command(&self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([CHILD, self.what, "--engine", self.kind.name()])
            .arg("--dir")
            .arg(&self.directory)
            .args(["--loaded", &self.loaded.to_string()])
            .args(["--next", &self.next.to_string()])
            .args(["--amount", &self.amount.to_string()])
            .args(["--seed", &self.seed.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Ok(command)
    }
}

/// The child's side.
pub(crate) fn run_child(arguments: &[String]) -> Result<()> {
    let (what, rest) =
        arguments.split_first().ok_or_else(|| Error::new("a child needs something to do"))?;
    let mut given = Given::new(rest)?;
    let engine: String = given.need("--engine")?;
    let kind = Kind::parse(&engine)?;
    let directory: PathBuf = given.need("--dir")?;
    let files = Files::following(given.need("--loaded")?, given.need("--next")?);
    let (amount, seed) = (given.need("--amount")?, given.need("--seed")?);
    given.finish()?;
    match what.as_str() {
        "writes" => writes(kind, &directory, &files, amount, seed),
        "crash" => crash(kind, &directory, &files),
        "memory" => memory(kind, &directory, &files, Duration::from_millis(amount), seed),
        "grow" => grow(kind, &directory, &files, amount, seed),
        _ => Err(Error::new(format!("a child cannot do \"{what}\""))),
    }
}

fn writes(kind: Kind, directory: &Path, files: &Files, creates: u64, seed: u64) -> Result<()> {
    let mut subject = kind.open(directory)?;
    let before = Written::now()?;
    let until = Until { time: Duration::from_secs(120), ops: creates };
    let outcome = cell::run(&mut *subject, files, Work::Create, 1, until, seed)?;
    subject.close()?;
    let after = Written::now()?;
    println!("creates {}", outcome.ops);
    println!("calls {}", after.calls - before.calls);
    println!("pages {}", after.pages - before.pages);
    Ok(())
}

/// Creates until it is killed, and says how far it has come.
fn crash(kind: Kind, directory: &Path, files: &Files) -> Result<()> {
    let mut subject = kind.open(directory)?;
    subject.set_durability(kv::Durability::Process)?;
    let mut worker = Worker::default();
    let mut out = std::io::stdout().lock();
    for number in 0.. {
        let file = crash_file(files.next_directory(), number);
        if file.index == 0 {
            worker.mkdir(&*subject, file.directory)?;
        }
        worker.create(&*subject, file)?;
        if (number + 1) % REPORT_CREATES == 0 {
            writeln!(out, "{}", number + 1)?;
            out.flush()?;
        }
    }
    Ok(())
}

/// The file that a crashing child makes as its `number`th.
pub(crate) fn crash_file(first_directory: u64, number: u64) -> File {
    File::new(first_directory + number / DIRECTORY_FILES, number % DIRECTORY_FILES)
}

fn memory(kind: Kind, directory: &Path, files: &Files, each: Duration, seed: u64) -> Result<()> {
    let mut subject = kind.open(directory)?;
    mix(&mut *subject, files, each, seed, &mut |_, _| {})?;
    process::settle()?;
    let memory = Memory::now()?;
    println!("resident {}", memory.resident);
    println!("anonymous {}", memory.anonymous);
    println!("peak {}", memory.peak);
    subject.close()
}

/// All kinds of work that need no sync, one after the other, by one thread and by four.
fn mix(
    subject: &mut dyn Subject,
    files: &Files,
    each: Duration,
    seed: u64,
    report: &mut dyn FnMut(String, Outcome),
) -> Result<()> {
    for threads in [1, 4] {
        for work in [Work::Create, Work::Lookup, Work::Readdir, Work::Rename, Work::Unlink] {
            let until = Until { time: each, ops: u64::MAX };
            let outcome = cell::run(subject, files, work, threads, until, seed)?;
            report(format!("{} x{threads}", work.name()), outcome);
        }
    }
    Ok(())
}

/// Fills an empty store by creates, a transaction each, and prints what that does to its memory.
fn grow(kind: Kind, directory: &Path, files: &Files, directories: u64, seed: u64) -> Result<()> {
    let mut subject = kind.open(directory)?;
    let line = |what: &str, outcome: Outcome| -> Result<()> {
        let memory = Memory::now()?;
        println!(
            "{what:>24}: {:>9} a second; resident {:>9}, not of files {:>9}, peak {:>9}",
            count(outcome.rate()),
            mebibytes(memory.resident),
            mebibytes(memory.anonymous),
            mebibytes(memory.peak)
        );
        Ok(())
    };
    // Full directories only: what follows counts on that.
    let made = |part: u64| directories * part / GROW_REPORTS * DIRECTORY_FILES;
    for part in 1..=GROW_REPORTS {
        let until = Until { time: Duration::MAX, ops: made(part) - made(part - 1) };
        let outcome = cell::run(&mut *subject, files, Work::Create, 1, until, seed)?;
        let records = made(part) * FILE_RECORDS;
        line(&format!("{} records", count(records as f64)), outcome)?;
    }
    files.keep_created();
    let each = Duration::from_secs(2);
    let mut outcomes = Vec::new();
    mix(&mut *subject, files, each, seed, &mut |what, outcome| {
        outcomes.push(line(&what, outcome));
    })?;
    outcomes.into_iter().collect::<Result<Vec<()>>>()?;
    process::settle()?;
    let memory = Memory::now()?;
    println!(
        "{:>24}: resident {}, not of files {}, peak {}",
        "at rest",
        mebibytes(memory.resident),
        mebibytes(memory.anonymous),
        mebibytes(memory.peak)
    );
    subject.close()
}
