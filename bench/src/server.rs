//! A program that serves a mount: started, waited for, and ended with its mount gone, whatever happens.

use crate::error::{Error, Result};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that has not mounted, or has not ended, after this time never will.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(1);

/// A running server. When it is dropped, its mount goes, and then it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    mountpoint: PathBuf,
    /// The time from its start until something was mounted.
    pub(crate) ready: Duration,
    stopped: bool,
}

impl Server {
    /// Starts a program that mounts on `mountpoint`, which is made. It runs in a process group of its own,
    /// so that Ctrl-C does not end it before its mount.
    pub(crate) fn start<'a>(
        program: &Path,
        words: impl IntoIterator<Item = &'a OsStr>,
        mountpoint: &Path,
    ) -> Result<Self> {
        std::fs::create_dir_all(mountpoint)?;
        let before = std::fs::metadata(mountpoint)?.dev();
        let mut log = mountpoint.as_os_str().to_owned();
        log.push(".log");
        let log = PathBuf::from(log);
        let start = Instant::now();
        let child = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .process_group(0)
            .spawn()
            .map_err(|error| Error::new(format!("{}: {error}", program.display())))?;
        let mut server = Self {
            child,
            mountpoint: mountpoint.to_owned(),
            ready: Duration::ZERO,
            stopped: false,
        };
        loop {
            if std::fs::metadata(mountpoint).is_ok_and(|found| found.dev() != before) {
                server.ready = start.elapsed();
                return Ok(server);
            }
            let gone = server.child.try_wait()?;
            if gone.is_some() || start.elapsed() > PATIENCE {
                let how = gone.map_or("mounted nothing".to_owned(), |status| status.to_string());
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(Error::new(format!("{}: {how}: {}", program.display(), said.trim())));
            }
            std::thread::sleep(PAUSE);
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Unmounts, and waits until it has ended.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.stopped, true) {
            return Ok(());
        }
        let unmounted = unmount(&self.mountpoint);
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if unmounted.is_err() || start.elapsed() > PATIENCE {
                self.child.kill()?;
                self.child.wait()?;
                let what = format!("the server of {} was killed", self.mountpoint.display());
                return Err(unmounted
                    .err()
                    .unwrap_or_else(|| Error::new("it did not end"))
                    .during(what));
            }
            std::thread::sleep(PAUSE);
        }
        unmounted
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("bench: {error}");
        }
    }
}

/// Unmounts; what is still in use goes when it no longer is.
fn unmount(mountpoint: &Path) -> Result<()> {
    let run = |words: &[&str]| {
        let output = Command::new("umount").args(words).arg(mountpoint).output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::new(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        }
    };
    run(&[]).or_else(|_| run(&["--lazy"]))
}

/// Unmounts what a run that was killed left mounted below its directory; the servers end by that.
pub(crate) fn unmount_below(directory: &Path) -> Result<()> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    for place in mounts.lines().rev().filter_map(|line| line.split(' ').nth(1)) {
        let place = Path::new(place);
        if place.starts_with(directory) {
            unmount(place)?;
        }
    }
    Ok(())
}
