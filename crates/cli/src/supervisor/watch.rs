//! The supervisor's life: it listens to its daemon, and when that dies it starts the next one.

use super::channel::{Channel, DESCRIPTORS_MAX};
use super::{Begin, Served, Supervised, VERB_TAKE_OVER, Word, spawn};
use crate::error::{CliError, Result};
use crate::store::unescape_path;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long the kernel may take to see that a daemon is gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many deaths within [`DEATHS_WITHIN`] are too many: something kills every daemon at once.
const DEATHS_MAX: usize = 40;
const DEATHS_WITHIN: Duration = Duration::from_secs(10);
/// So many daemons may fail one after the other before one has taken over.
const FAILURES_MAX: u32 = 6;
/// The pause after the first failure; it doubles with each.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// What is kept of a daemon.
#[derive(Default)]
struct Kept {
    served: Option<Served>,
    mounts: Vec<(Supervised, Vec<OwnedFd>)>,
    /// Where something is about to be mounted, and its source.
    expected: Vec<(String, String)>,
    /// A daemon has taken over since the last death.
    ready: bool,
}

/// How a daemon ended.
enum End {
    InGoodOrder,
    Died,
}

impl Kept {
    /// Listens until the daemon has ended.
    fn listen(&mut self, channel: &Channel) -> End {
        loop {
            match channel.receive() {
                Ok(Some((Word::Serves(served), _))) => self.served = Some(served),
                Ok(Some((Word::Expect { mountpoint, source }, _))) => {
                    self.expected.retain(|(known, _)| *known != mountpoint);
                    self.expected.push((mountpoint, source));
                }
                Ok(Some((Word::Add(mount), descriptors))) => {
                    self.expected.retain(|(known, _)| *known != mount.request.mountpoint);
                    // One that was taken over is told of again.
                    self.mounts.retain(|(known, _)| known.id != mount.id);
                    self.mounts.push((mount, descriptors));
                }
                Ok(Some((Word::More { id }, more))) => {
                    if let Some((_, kept)) =
                        self.mounts.iter_mut().find(|(known, _)| known.id == id)
                    {
                        kept.extend(more);
                    }
                }
                Ok(Some((Word::Remove { id }, _))) => {
                    self.mounts.retain(|(known, _)| known.id != id)
                }
                Ok(Some((Word::Ready, _))) => self.ready = true,
                Ok(Some((Word::Exit, _))) => return End::InGoodOrder,
                Ok(None) | Err(_) => return End::Died,
            }
        }
    }

    /// Starts a daemon that takes everything over.
    fn hand_over(&self, served: &Served, generation: u64) -> io::Result<(Channel, Child)> {
        let (channel, theirs) = Channel::pair()?;
        let child = spawn(VERB_TAKE_OVER, &served.store, theirs)?;
        let mounts = self.mounts.len();
        let handed = channel
            .send(&Begin { served: served.clone(), generation, mounts }, &[])
            .and_then(|()| {
                for (mount, descriptors) in &self.mounts {
                    let all: Vec<BorrowedFd<'_>> = descriptors.iter().map(OwnedFd::as_fd).collect();
                    let mut pieces = all.chunks(DESCRIPTORS_MAX);
                    let first = pieces.next().unwrap_or_default();
                    channel.send(&Word::Add(mount.clone()), first)?;
                    for piece in pieces {
                        channel.send(&Word::More { id: mount.id }, piece)?;
                    }
                }
                channel.send(&Word::Ready, &[])
            });
        // Should it have died already, then listening to it will tell.
        drop(handed);
        Ok((channel, child))
    }

    /// Clears away those mounts that nobody will serve again.
    fn clear(&mut self, all: bool) {
        for (mountpoint, source) in std::mem::take(&mut self.expected) {
            if let Some(path) = unescape_path(&mountpoint) {
                clear_expected(&path, &source);
            }
        }
        let (gone, stay) = std::mem::take(&mut self.mounts)
            .into_iter()
            .partition(|(mount, _)| all || !mount.stays);
        self.mounts = stay;
        let gone: Vec<(Supervised, Vec<OwnedFd>)> = gone;
        for (mount, descriptors) in gone.into_iter().rev() {
            // With the last descriptor the kernel stops waiting.
            drop(descriptors);
            if let Some(path) = unescape_path(&mount.request.mountpoint) {
                clear(mount.id, &mount.device, &path);
            }
        }
    }
}

/// The supervisor's life.
pub fn watch() -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // Whoever ends everything at once ends the daemon too, and then there is work to do.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(|error| CliError::io("cannot listen to signals", &error))?;
    }
    let mut channel =
        Channel::from_stdin().map_err(|error| CliError::io("cannot hear the daemon", &error))?;
    let mut kept = Kept { ready: true, ..Kept::default() };
    let mut daemon: Option<Child> = None;
    let mut deaths = VecDeque::new();
    let (mut generation, mut failures) = (0, 0);
    loop {
        let ended = kept.listen(&channel);
        if let Some(mut child) = daemon.take() {
            let _ = child.wait();
        }
        if matches!(ended, End::InGoodOrder) {
            return Ok(());
        }
        failures = if std::mem::take(&mut kept.ready) { 0 } else { failures + 1 };
        kept.clear(false);
        let (Some(served), false) = (kept.served.clone(), kept.mounts.is_empty()) else {
            return Ok(());
        };
        if failures > 0 {
            std::thread::sleep(FAILURE_PAUSE * (1 << failures.min(FAILURES_MAX)));
        }
        if failures >= FAILURES_MAX || are_too_many(&mut deaths, Instant::now()) {
            break;
        }
        generation += 1;
        match kept.hand_over(&served, generation) {
            Ok(next) => (channel, daemon) = (next.0, Some(next.1)),
            Err(_) => break,
        }
    }
    kept.clear(true);
    Ok(())
}

/// Notes a death; true when there were too many of late.
fn are_too_many(deaths: &mut VecDeque<Instant>, now: Instant) -> bool {
    deaths.push_back(now);
    while deaths.front().is_some_and(|first| now.saturating_duration_since(*first) > DEATHS_WITHIN)
    {
        deaths.pop_front();
    }
    deaths.len() > DEATHS_MAX
}

/// Takes away what a daemon had mounted and could not tell of.
fn clear_expected(path: &Path, source: &str) {
    let Ok(mounts) = fuse::mounted() else { return };
    let is_it = |entry: &&fuse::MountEntry| entry.mountpoint == path && entry.source == source;
    if let Some(entry) = mounts.iter().rev().find(is_it) {
        clear(entry.id, &entry.device, path);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_deaths_in_a_short_time_are_too_many() {
        let (mut deaths, mut now) = (VecDeque::new(), Instant::now());
        for _ in 0..10 * DEATHS_MAX {
            now += DEATHS_WITHIN / (DEATHS_MAX as u32 - 1);
            assert!(!are_too_many(&mut deaths, now));
        }
        let killed = (0..=DEATHS_MAX).any(|_| are_too_many(&mut deaths, now));
        assert!(killed);
    }
}
