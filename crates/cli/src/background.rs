//! Going to the background: this program runs again as a process of its own, and says when it is ready.

use crate::daemon::MountReply;
use crate::error::{CliError, Failure, Result};
use crate::logging;
use rustix::fs::{AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The daemon's log in the store's directory, when no other was named.
const LOG: &str = "daemon.log";
const OLD_LOG: &str = "daemon.log.old";
/// A log that is longer than this when a daemon starts is put aside.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// What the child says, in one line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Ready(MountReply),
    Failed(CliError),
}

/// Starts the same command as a child, and waits until it is ready or has failed.
pub fn start(argv: &[OsString]) -> Result<MountReply> {
    let failed = |error| CliError::io("cannot start the daemon", &error);
    let mut child = Command::new(own_program())
        .arg("--daemon-child")
        .args(argv)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(failed)?;
    }
    match serde_json::from_str(&line) {
        Ok(Said::Ready(reply)) => Ok(reply),
        Ok(Said::Failed(error)) => {
            let _ = child.wait();
            Err(error)
        }
        Err(_) => {
            let status = child.wait().map_err(failed)?;
            let words = format!("the daemon ended before it was ready ({status})");
            Err(CliError::new(Failure::Failed, words)
                .hint("mount without --background to see more"))
        }
    }
}

/// The file of this program; by another name when it is gone, as after an update.
pub fn own_program() -> PathBuf {
    let path = std::env::current_exe().ok().filter(|path| path.is_file());
    path.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}

/// In the child: a session without a terminal, in a directory that no unmount waits for.
pub fn detach() -> Result<()> {
    // A leader of a session already: then it has left the terminal.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").map_err(|error| CliError::io("cannot change to /", &error))
}

/// In the child: tells who started it that the mount is there.
pub fn say_ready(reply: &MountReply) -> Result<()> {
    say(&Said::Ready(reply.clone()));
    Ok(())
}

/// In the child: tells who started it what went wrong.
pub fn say_failed(error: &CliError) {
    say(&Said::Failed(error.clone()));
}

fn say(said: &Said) {
    let Ok(mut line) = serde_json::to_string(said) else { return };
    line.push('\n');
    let mut out = std::io::stdout().lock();
    // Whoever waited may have gone; the daemon goes on.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// In the child: where standard output and standard error go once it has left the terminal.
#[derive(Debug)]
pub struct Leaving {
    nowhere: File,
    /// None for the journal, which stays.
    log: Option<File>,
}

/// In the child: opens what is needed to leave the terminal, before anybody is told that all is well.
pub fn prepare_to_leave(store: &OwnedFd, log: Option<&Path>) -> Result<Leaving> {
    let failed = |error: std::io::Error| CliError::io("cannot leave the terminal", &error);
    let nowhere = File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
    let log = match log {
        _ if logging::is_journal() => None,
        Some(path) => Some(logging::open_log(path)?),
        None => Some(open_own_log(store).map_err(|error| {
            let words = "cannot open the daemon's log in the store";
            CliError::io(words, &error).hint("name another with --log-file")
        })?),
    };
    Ok(Leaving { nowhere, log })
}

impl Leaving {
    /// Standard output goes nowhere from now on, standard error to the log.
    pub fn leave(self) -> Result<()> {
        let failed = |errno: rustix::io::Errno| {
            CliError::io("cannot leave the terminal", &std::io::Error::from(errno))
        };
        rustix::stdio::dup2_stdout(&self.nowhere).map_err(failed)?;
        match &self.log {
            Some(log) => rustix::stdio::dup2_stderr(log).map_err(failed),
            None => Ok(()),
        }
    }
}

fn open_own_log(store: &OwnedFd) -> std::io::Result<File> {
    let is_long = rustix::fs::statat(store, LOG, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| u64::try_from(stat.st_size).is_ok_and(|size| size > LOG_BYTES_MAX));
    if is_long {
        rustix::fs::renameat(store, LOG, store, OLD_LOG)?;
    }
    let flags =
        OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let log = rustix::fs::openat(store, LOG, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(File::from(log))
}
