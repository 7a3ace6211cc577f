//! A database of sqlite3 that one process writes to: every commit that it has acknowledged is there, and
//! every transaction wholly or not at all.

use super::{Journal, Round};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Rows that are kept: each commit adds one and removes the one that is older.
const ROWS: u64 = 200;

/// A database and how far it is.
#[derive(Debug)]
pub(super) struct Base {
    mode: &'static str,
    journal: Journal,
    commits: u64,
}

impl Base {
    /// Makes the database's directory. `mode` is a journal mode of sqlite3.
    pub(super) fn new(
        mountpoint: &Path,
        mode: &'static str,
        journal: Journal,
    ) -> Result<Self, String> {
        let base = Self { mode, journal, commits: 0 };
        let made = std::fs::create_dir(mountpoint.join(base.home()));
        made.map_err(|error| format!("cannot make the directory of a database: {error}"))?;
        let words = base.ask(
            mountpoint,
            &format!(
                "pragma journal_mode={mode}; create table rows(number integer primary key, text);
                 create table total(n); insert into total values(0);"
            ),
        )?;
        if words.trim() != mode {
            return Err(format!("sqlite3 has journal mode {words}, not {mode}"));
        }
        Ok(base)
    }

    fn home(&self) -> String {
        format!("sqlite-{}", self.mode)
    }

    fn path(&self, mountpoint: &Path) -> PathBuf {
        mountpoint.join(self.home()).join("base.db")
    }

    /// Commits until the daemon is gone.
    pub(super) fn work(&mut self, mountpoint: &Path, round: &Round) -> Result<(), String> {
        let mut process = Process::start(&self.path(mountpoint))?;
        while round.goes_on() {
            let number = self.commits + 1;
            match process.commit(number) {
                Ok(()) => {
                    self.journal.note(round.number, &format_args!("commit {number}"))?;
                    self.commits = number;
                    round.acknowledge();
                }
                Err(error) => {
                    return round.gone(&error, &format!("commit {number} ({})", self.mode));
                }
            }
        }
        Ok(())
    }

    /// Checks that every acknowledged commit is there, and nothing of others.
    pub(super) fn verify(&mut self, mountpoint: &Path) -> Result<(), String> {
        let told = |words: &str| format!("sqlite3 ({}): {words}", self.mode);
        let found = self.ask(
            mountpoint,
            "pragma integrity_check; select n from total; select number, text from rows order by number;",
        )?;
        let mut lines = found.lines();
        if lines.next() != Some("ok") {
            return Err(told(&format!("the database is broken:\n{found}")));
        }
        let total = lines.next().and_then(|word| word.parse::<u64>().ok());
        let total = total.ok_or_else(|| told("the number of commits is missing"))?;
        if total != self.commits && total != self.commits + 1 {
            let words = format!("{total} commits, of which {} were acknowledged", self.commits);
            return Err(told(&words));
        }
        for number in total.saturating_sub(ROWS) + 1..=total {
            let wanted = format!("{number}|{}", text(number));
            if lines.next() != Some(&wanted) {
                return Err(told(&format!("row {number} of {total} is not what was committed")));
            }
        }
        if let Some(line) = lines.next() {
            return Err(told(&format!("there is a row too many: {line}")));
        }
        self.commits = total;
        Ok(())
    }

    fn ask(&self, mountpoint: &Path, lines: &str) -> Result<String, String> {
        let failed = |error: io::Error| format!("cannot run sqlite3: {error}");
        let mut command = Command::new("sqlite3");
        command.args(["-batch", "-bail"]).arg(self.path(mountpoint)).arg(lines);
        let output = command.stdin(Stdio::null()).output().map_err(failed)?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("sqlite3 ({}) failed: {words}", self.mode));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn text(number: u64) -> String {
    format!("{number}-").repeat(1 + (number % 60) as usize)
}

/// A process of sqlite3 that takes a line at a time.
struct Process {
    child: Child,
    line: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(path: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot run sqlite3: {error}");
        let mut command = Command::new("sqlite3");
        command.args(["-batch", "-bail"]).arg(path).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(line), Some(out)) => Ok(Self { child, line, answers: BufReader::new(out) }),
            _ => Err("a process without pipes".to_owned()),
        }
    }

    /// One transaction; returns when it is acknowledged.
    fn commit(&mut self, number: u64) -> io::Result<()> {
        let old = number.saturating_sub(ROWS);
        writeln!(
            self.line,
            "begin immediate; insert into rows values({number},'{}'); update total set n=n+1; \
             delete from rows where number <= {old}; commit; select 'done';",
            text(number)
        )?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim_end() {
            "done" => Ok(()),
            "" => Err(io::ErrorKind::BrokenPipe.into()),
            words => Err(io::Error::other(words.to_owned())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
