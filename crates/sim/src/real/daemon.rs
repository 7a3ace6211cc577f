//! A daemon of a real mount as a child of this process: started, watched, told to end, killed.

use super::seamount;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How long anything that should be quick may take.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(1);

/// Where a run takes place.
#[derive(Debug, Clone)]
pub struct Place {
    /// All that the run makes is in this directory.
    pub dir: PathBuf,
}

impl Place {
    /// The store's directory.
    pub fn store(&self) -> PathBuf {
        self.dir.join("store")
    }

    /// The mountpoint.
    pub fn mountpoint(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Makes what must be there.
    pub fn make(&self) -> Result<(), String> {
        std::fs::create_dir_all(self.mountpoint())
            .map_err(|error| format!("cannot make {}: {error}", self.mountpoint().display()))
    }

    /// Runs a verb of `seamount` to its end.
    pub fn verb(&self, words: &[&OsStr]) -> Result<Ended, String> {
        let failed = |error| format!("cannot run seamount {words:?}: {error}");
        let mut command = seamount(&self.dir)?;
        let output = command.args(words).stdin(Stdio::null()).output().map_err(failed)?;
        Ok(Ended {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            all: String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr),
        })
    }

    /// What the daemon logged last, for a report.
    pub fn log_tail(&self) -> String {
        const TAIL: usize = 4096;
        let bytes = std::fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TAIL)..]).into_owned()
    }

    fn log(&self) -> PathBuf {
        self.dir.join("daemon.log")
    }
}

/// Keeps what a run that failed has left, and says where.
pub fn keep(scratch: tempfile::TempDir, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let kept = scratch.keep();
    writeln!(out, "{name}: the store, the journals and the log are kept in {}", kept.display())
}

/// How a verb ended.
#[derive(Debug)]
pub struct Ended {
    /// Its code, unless a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub out: String,
    /// That, and what it complained of.
    pub all: String,
}

/// A daemon in the foreground, so that nobody starts it again when it is killed.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    mountpoint: PathBuf,
}

impl Daemon {
    /// Starts one and does not wait until it is ready. Returns what will say so.
    fn launch(
        place: &Place,
        options: &[&str],
    ) -> Result<(Self, impl BufRead + Send + use<>), String> {
        let failed = |error: std::io::Error| format!("cannot start a daemon: {error}");
        let log = File::options().create(true).append(true).open(place.log()).map_err(failed)?;
        let mut command = seamount(&place.dir)?;
        command.arg("mount").args(options).arg(place.store()).arg(place.mountpoint());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(failed)?;
        let out = child.stdout.take().ok_or("a daemon without an output")?;
        Ok((Self { child, mountpoint: place.mountpoint() }, BufReader::new(out)))
    }

    /// Starts one and waits until programs can use the mount.
    pub fn start(place: &Place, options: &[&str]) -> Result<Self, String> {
        let (mut daemon, out) = Self::launch(place, options)?;
        let (sender, said) = channel();
        // Reading has no deadline of its own.
        std::thread::spawn(move || {
            let mut lines = out.lines();
            let _ = sender.send(lines.next().and_then(Result::ok));
            lines.for_each(drop);
        });
        match said.recv_timeout(PATIENCE) {
            Ok(Some(_)) if is_mounted(&daemon.mountpoint) => Ok(daemon),
            Ok(_) => {
                let status = daemon.child.wait();
                Err(format!("the daemon did not mount: {status:?}\n{}", place.log_tail()))
            }
            Err(_) => {
                let _ = daemon.kill();
                Err(format!("the daemon was not ready in {PATIENCE:?}\n{}", place.log_tail()))
            }
        }
    }

    /// Starts one and kills it after this time, wherever it is by then.
    pub fn start_and_kill(place: &Place, after: Duration) -> Result<(), String> {
        let (mut daemon, _out) = Self::launch(place, &[])?;
        std::thread::sleep(after);
        daemon.kill()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it where it stands, and waits until it is gone and its mount too.
    pub fn kill(&mut self) -> Result<(), String> {
        self.strike()?;
        self.bury()
    }

    /// Kills it where it stands.
    pub fn strike(&mut self) -> Result<(), String> {
        self.child.kill().map_err(|error| format!("cannot kill the daemon: {error}"))
    }

    /// Waits until it is gone and its mount too.
    pub fn bury(&mut self) -> Result<(), String> {
        let gone = |error| format!("cannot wait for the daemon: {error}");
        self.child.wait().map_err(gone)?;
        let mountpoint = self.mountpoint.clone();
        wait_until("the mount of a killed daemon is cleared away", || !is_mounted(&mountpoint))
    }

    /// Tells it to end, and waits until it has in good order.
    pub fn end(&mut self) -> Result<(), String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("a daemon without a number")?;
        kill_process(pid, Signal::TERM).map_err(|error| format!("cannot end it: {error}"))?;
        let mut status = None;
        wait_until("the daemon ends when told", || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        })?;
        match status {
            Some(status) if status.success() => Ok(()),
            status => Err(format!("the daemon ended badly: {status:?}")),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = self.end();
        }
    }
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let end = deadline();
    while !is_so() {
        if Instant::now() > end {
            return Err(format!("not within {PATIENCE:?}: {what}"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// When patience ends.
pub fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// Whether something is mounted at this very path.
pub fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    table.lines().filter_map(|line| line.split(' ').nth(1)).any(|place| Path::new(place) == path)
}
