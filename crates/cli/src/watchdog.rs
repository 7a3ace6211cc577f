//! A second process that clears away the mounts of a daemon that died without doing so: it holds the
//! other end of a pipe, and the end of that is the end of the daemon.

use crate::error::{CliError, Result};
use crate::store::{escape, unescape_path};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The hidden verb.
pub const VERB: &str = "watchdog";
/// How long the kernel may take to see that the daemon is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the daemon says to its watchdog, a line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    /// There is this mount.
    Add { id: u64, device: String, mountpoint: String },
    /// It is gone.
    Remove { id: u64 },
    /// The daemon ends in good order.
    Exit,
}

/// The daemon's hold on its watchdog.
#[derive(Debug)]
pub struct Watchdog {
    child: Child,
    line: ChildStdin,
}

impl Watchdog {
    /// Starts one. It has a process group of its own, so that Ctrl-C in the daemon's terminal is not for
    /// it.
    pub fn start() -> Result<Self> {
        let failed = |error| CliError::io("cannot start the watchdog", &error);
        let mut child = Command::new(crate::background::own_program())
            .arg0("seamount")
            .arg(VERB)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let line =
            child.stdin.take().ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { child, line })
    }

    /// Tells it of a mount; returns the mount's number, by which it is told of its end.
    pub fn add(&mut self, mountpoint: &Path, source: &str) -> Option<u64> {
        let mounts = fuse::mounted().ok()?;
        let is_ours =
            |entry: &&fuse::MountEntry| entry.mountpoint == mountpoint && entry.source == source;
        let entry = mounts.iter().rev().find(is_ours)?;
        let mountpoint = escape(mountpoint.as_os_str().as_bytes());
        self.say(&Word::Add { id: entry.id, device: entry.device.clone(), mountpoint });
        Some(entry.id)
    }

    /// Tells it that a mount is gone.
    pub fn remove(&mut self, id: u64) {
        self.say(&Word::Remove { id });
    }

    /// Ends it.
    pub fn end(mut self) {
        self.say(&Word::Exit);
        drop(self.line);
        let _ = self.child.wait();
    }

    fn say(&mut self, word: &Word) {
        let Ok(mut line) = serde_json::to_vec(word) else { return };
        line.push(b'\n');
        if let Err(error) = self.line.write_all(&line) {
            tracing::warn!(%error, "the watchdog is gone: if this daemon dies, its mounts stay behind");
        }
    }
}

/// The watchdog's life.
pub fn watch(from: impl BufRead) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // Whoever ends everything at once ends the daemon too, and then there is work to do.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(|error| CliError::io("cannot listen to signals", &error))?;
    }
    let mut mounts = Vec::new();
    for line in from.lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(Word::Add { id, device, mountpoint }) => mounts.push((id, device, mountpoint)),
            Ok(Word::Remove { id }) => mounts.retain(|mount| mount.0 != id),
            Ok(Word::Exit) => return Ok(()),
            Err(_) => break,
        }
    }
    for (id, device, mountpoint) in mounts.iter().rev() {
        if let Some(path) = unescape_path(mountpoint) {
            clear(*id, device, &path);
        }
    }
    Ok(())
}

/// Takes a mount away if it is still the one that it was, and dead.
fn clear(id: u64, device: &str, path: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let there = fuse::mounted().is_ok_and(|mounts| {
            mounts
                .iter()
                .any(|entry| entry.id == id && entry.device == device && entry.mountpoint == path)
        });
        if !there {
            return;
        }
        // Nothing that lives is taken away, and nothing that was mounted over it since.
        if fuse::is_stale(path) && fuse::unmount(path, true).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
