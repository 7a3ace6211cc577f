//! Other people's programs: where they are, running them with a deadline, and saying loudly that
//! one is missing.

use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a program ended, and what it said.
pub(crate) struct Ended {
    /// The words that ran it.
    pub(crate) words: String,
    /// Its status; `None` when it was killed at the deadline.
    pub(crate) status: Option<ExitStatus>,
    /// What it printed.
    pub(crate) out: Vec<u8>,
    /// What it complained of.
    pub(crate) err: Vec<u8>,
}

impl Ended {
    /// Whether it ended well.
    pub(crate) fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// What it printed, as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Both outputs, as text.
    pub(crate) fn all(&self) -> String {
        self.text() + &String::from_utf8_lossy(&self.err)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => writeln!(f, "{}: {status}", self.words)?,
            None => writeln!(f, "{}: killed at the deadline", self.words)?,
        }
        let tail = |bytes: &[u8]| {
            String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(16_384)..]).into_owned()
        };
        write!(f, "{}{}", tail(&self.out), tail(&self.err))
    }
}

/// Runs a program to its end, or kills it at the deadline. Its output goes to files, not pipes, so
/// that a daemon that it leaves behind holds nobody up.
pub(crate) fn finish(command: &mut Command, patience: Duration) -> Ended {
    let mut out = tempfile::tempfile().unwrap();
    let mut err = tempfile::tempfile().unwrap();
    command.stdin(Stdio::null());
    command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
    let words = format!("{command:?}");
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{words}: {error}"));
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_micros(500);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            // Not waited for: what hangs in the kernel would hang us too.
            break None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    Ended { words, status, out: whole(&mut out), err: whole(&mut err) }
}

fn whole(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Runs a program that must end well, within five minutes.
pub(crate) fn run(command: &mut Command) -> Ended {
    let ended = finish(command, Duration::from_secs(300));
    assert!(ended.success(), "{ended}");
    ended
}

/// Runs a line of shell in a directory; it must end well.
pub(crate) fn shell(place: &Path, line: &str) -> String {
    run(Command::new("sh").arg("-ec").arg(line).current_dir(place)).text()
}

/// Where a program is: named by an environment variable of its name, in `PATH`, or installed by
/// `./test` in the target directory's `tools`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(name.to_uppercase().replace('-', "_")) {
        return Some(PathBuf::from(path));
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(target.map(|target| target.join("tools/bin")));
    // Administrators' programs are not in everybody's path.
    let places = places.chain(["/usr/sbin".into(), "/sbin".into()]);
    places.map(|place| place.join(name)).find(|path| path.is_file())
}

/// Whether all these programs are there; says loudly that the proof is skipped if not.
pub(crate) fn has(proof: &str, names: &[&str]) -> bool {
    match names.iter().find(|name| find(name).is_none()) {
        None => true,
        Some(name) => {
            skip(proof, &format!("no program {name} (./test installs it)"));
            false
        }
    }
}

/// Says that a proof, or a part of it, does not run. The test harness knows no tests that skip
/// themselves, so the line goes past its capture, and to the file `PROOF_SKIPPED`, which
/// `./test` prints at its end.
pub(crate) fn skip(proof: &str, why: &str) {
    let line = format!("SKIPPED: {proof}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("PROOF_SKIPPED")
        && let Ok(mut file) = File::options().append(true).create(true).open(path)
    {
        let _ = file.write_all(line.as_bytes());
    }
}

/// A number from the environment, or the default.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number"))
    })
}
