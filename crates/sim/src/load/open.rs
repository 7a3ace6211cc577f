//! Many open files at once, each read and written through its handle; by several processes where one may
//! not have so many.

use super::mounted;
use crate::real::{Place, Role};
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};

/// Files in one directory.
const IN_ONE: u64 = 1_000;
/// Descriptors of a process that are not those files.
const OTHERS: u64 = 1_000;
/// What a process says that has its files open, and has read them.
const WORD: &str = "open";

pub(super) fn run(place: &Place, count: u64) -> Result<(String, u64), String> {
    let room = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).saturating_sub(OTHERS);
    // Whole directories each.
    let share = (room / IN_ONE * IN_ONE).max(IN_ONE);
    let (processes, peak) = mounted(place, || open_all(&place.mountpoint(), count, share))?;
    Ok((format!("{count} files open at once by {processes} processes, written and read"), peak))
}

/// Has all files open, and reads each again when all are.
fn open_all(mountpoint: &Path, count: u64, share: u64) -> Result<usize, String> {
    let mut holders = Vec::new();
    let mut first = 0;
    while first < count {
        let end = first.saturating_add(share).min(count);
        holders.push(Holder::start(mountpoint, first..end)?);
        first = end;
    }
    for holder in &mut holders {
        holder.wait()?;
    }
    // All are open now.
    for holder in &mut holders {
        holder.ask()?;
        holder.wait()?;
    }
    Ok(holders.len())
}

/// A process that has files open.
struct Holder {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Holder {
    fn start(mountpoint: &Path, numbers: Range<u64>) -> Result<Self, String> {
        let failed = |error| format!("cannot start a process that holds files: {error}");
        let mut command = Role::Holder.command()?;
        command.arg(mountpoint).args([numbers.start.to_string(), numbers.end.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
        let mut child = command.spawn().map_err(failed)?;
        let answers = child.stdout.take().ok_or("a process without an output")?;
        Ok(Self { child, answers: BufReader::new(answers) })
    }

    fn ask(&mut self) -> Result<(), String> {
        let line = self.child.stdin.as_mut().ok_or("a process without an input")?;
        writeln!(line, "{WORD}").map_err(|error| format!("a process with files is gone: {error}"))
    }

    fn wait(&mut self) -> Result<(), String> {
        let mut said = String::new();
        self.answers.read_line(&mut said).map_err(|error| error.to_string())?;
        match said.trim_end() {
            WORD => Ok(()),
            words => Err(format!("a process with files: {words}")),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The life of that process: opens its files, and reads them when it is asked to.
pub fn hold(words: &[String], asked: impl BufRead, mut out: impl Write) -> io::Result<()> {
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    let (Some(mountpoint), Some(first), Some(end)) = (words.first(), number(1), number(2)) else {
        return writeln!(out, "it was not told which files");
    };
    let files = match open(Path::new(mountpoint), first..end) {
        Ok(files) => files,
        Err(words) => return writeln!(out, "{words}"),
    };
    writeln!(out, "{WORD}")?;
    out.flush()?;
    for line in asked.lines() {
        line?;
        match read(&files, first) {
            Ok(()) => writeln!(out, "{WORD}")?,
            Err(words) => writeln!(out, "{words}")?,
        }
        out.flush()?;
    }
    Ok(())
}

fn open(mountpoint: &Path, numbers: Range<u64>) -> Result<Vec<File>, String> {
    let failed = |number: u64| move |error: io::Error| format!("file {number}: {error}");
    let mut files = Vec::new();
    for number in numbers {
        let directory = mountpoint.join((number / IN_ONE).to_string());
        if number % IN_ONE == 0 {
            std::fs::create_dir(&directory).map_err(failed(number))?;
        }
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        let file = options.open(directory.join(number.to_string())).map_err(failed(number))?;
        file.write_all_at(&number.to_le_bytes(), 0).map_err(failed(number))?;
        files.push(file);
    }
    Ok(files)
}

fn read(files: &[File], first: u64) -> Result<(), String> {
    for (number, file) in (first..).zip(files) {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 0).map_err(|error| format!("file {number}: {error}"))?;
        if u64::from_le_bytes(bytes) != number {
            return Err(format!("file {number} has other bytes"));
        }
    }
    Ok(())
}
