//! A second process that keeps what a daemon cannot: the descriptors of its mounts. When the daemon dies it
//! starts another one, which takes them over, and the programs that use the mounts only wait. Mounts that
//! cannot be taken over it clears away.

mod channel;
mod watch;

pub use watch::watch;

use crate::control::protocol::MountRequest;
use crate::error::{CliError, Failure, Result};
use crate::store::escape;
use channel::{Channel, DESCRIPTORS_MAX};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The hidden verbs: the supervisor, and a daemon that takes over.
pub const VERB: &str = "supervisor";
/// See [`VERB`].
pub const VERB_TAKE_OVER: &str = "take-over";

/// What a daemon must know to serve a store as the one before did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The store's directory, escaped as in a URL.
    pub store: String,
    /// Memory of the engine.
    pub memory: Option<u64>,
    /// How much is logged.
    pub log_level: Option<String>,
    /// Whether the log is JSON.
    pub log_is_json: bool,
    /// Where it goes, escaped; the store's own when absent.
    pub log_file: Option<String>,
}

/// A mount, as the supervisor knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervised {
    /// The kernel's number for it.
    pub id: u64,
    /// Its device, as the kernel's table has it.
    pub device: String,
    /// How it was asked for.
    pub request: MountRequest,
    /// Since when there is a mount, in seconds since 1970.
    pub since: i64,
    /// Another daemon can take it over.
    pub stays: bool,
}

/// What a daemon says to its supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    /// How the store is served.
    Serves(Served),
    /// There will be a mount in a moment, or not: the mountpoint, escaped, and the source.
    Expect { mountpoint: String, source: String },
    /// There is this mount; its descriptors are beside the word. Nothing else is expected.
    Add(Supervised),
    /// There are more descriptors of it.
    More { id: u64 },
    /// It is gone.
    Remove { id: u64 },
    /// Everything was taken over.
    Ready,
    /// The daemon ends in good order.
    Exit,
}

/// What the supervisor says to a daemon that takes over. The mounts follow, as [`Word`]s.
#[derive(Debug, Serialize, Deserialize)]
struct Begin {
    served: Served,
    /// How many daemons there were before.
    generation: u64,
    mounts: usize,
}

/// What a daemon takes over.
#[derive(Debug)]
pub struct TakenOver {
    /// How the store is served.
    pub served: Served,
    /// How many daemons there were before.
    pub generation: u64,
    /// The mounts.
    pub mounts: Vec<(Supervised, Vec<OwnedFd>)>,
    /// The supervisor, which goes on.
    pub supervisor: Supervisor,
}

/// The daemon's hold on its supervisor.
#[derive(Debug)]
pub struct Supervisor {
    channel: Channel,
    /// The process, when this one has started it.
    child: Option<Child>,
}

impl Supervisor {
    /// Starts one. It has a process group of its own, so that Ctrl-C in the daemon's terminal is not for
    /// it.
    pub fn start(served: &Served) -> Result<Self> {
        let failed = |error| CliError::io("cannot start the supervisor", &error);
        let (channel, theirs) = Channel::pair().map_err(failed)?;
        let child = spawn(VERB, &served.store, theirs).map_err(failed)?;
        channel.send(&Word::Serves(served.clone()), &[]).map_err(failed)?;
        Ok(Self { channel, child: Some(child) })
    }

    /// Tells it what is about to be mounted: should this process die before it can tell more, then that is
    /// cleared away.
    pub fn expect(&self, options: &fuse::MountOptions) {
        let mountpoint = escape(options.mountpoint.as_os_str().as_bytes());
        self.say(&Word::Expect { mountpoint, source: options.source.clone() });
    }

    /// Tells it of a mount, and gives it the descriptors when another daemon could take it over. Returns
    /// the mount's number, by which it is told of its end.
    pub fn add(
        &self,
        mount: &fuse::Mount,
        request: &MountRequest,
        since: i64,
        stays: bool,
    ) -> Option<u64> {
        let mounts = fuse::mounted().ok()?;
        let (mountpoint, source) = (mount.mountpoint(), &mount.options().source);
        let is_ours =
            |entry: &&fuse::MountEntry| entry.mountpoint == mountpoint && entry.source == *source;
        let entry = mounts.iter().rev().find(is_ours)?;
        let mountpoint = escape(mountpoint.as_os_str().as_bytes());
        let request = MountRequest { mountpoint, ..request.clone() };
        let id = entry.id;
        let word = Supervised { id, device: entry.device.clone(), request, since, stays };
        let descriptors = if stays { mount.descriptors() } else { Vec::new() };
        let mut pieces = descriptors.chunks(DESCRIPTORS_MAX);
        self.say_with(&Word::Add(word), pieces.next().unwrap_or_default());
        for piece in pieces {
            self.say_with(&Word::More { id }, piece);
        }
        Some(id)
    }

    /// Tells it that a mount is gone.
    pub fn remove(&self, id: u64) {
        self.say(&Word::Remove { id });
    }

    /// Tells it that everything was taken over.
    pub fn ready(&self) {
        self.say(&Word::Ready);
    }

    /// Ends it.
    pub fn end(self) {
        self.say(&Word::Exit);
        drop(self.channel);
        if let Some(mut child) = self.child {
            let _ = child.wait();
        }
    }

    fn say(&self, word: &Word) {
        self.say_with(word, &[]);
    }

    fn say_with(&self, word: &Word, descriptors: &[std::os::fd::BorrowedFd<'_>]) {
        if let Err(error) = self.channel.send(word, descriptors) {
            tracing::warn!(%error, "the supervisor is gone: if this daemon dies, its mounts die with it");
        }
    }
}

/// Starts this program again, with one end of a channel as its standard input.
fn spawn(verb: &str, store: &str, end: OwnedFd) -> std::io::Result<Child> {
    Command::new(crate::background::own_program())
        .arg0("seamount")
        .arg(verb)
        // For those who look at the list of processes.
        .arg(store)
        .stdin(Stdio::from(end))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .spawn()
}

/// In a daemon that the supervisor has started: what it is to take over.
pub fn take_over() -> Result<TakenOver> {
    let strange = || CliError::new(Failure::Usage, "this is started by the supervisor alone");
    let failed = |error| CliError::io("cannot hear the supervisor", &error);
    let channel = Channel::from_stdin().map_err(failed)?;
    let (begin, _) = channel.receive::<Begin>().map_err(failed)?.ok_or_else(strange)?;
    let mut mounts: Vec<(Supervised, Vec<OwnedFd>)> = Vec::new();
    loop {
        match channel.receive::<Word>().map_err(failed)?.ok_or_else(strange)? {
            (Word::Add(mount), descriptors) => mounts.push((mount, descriptors)),
            (Word::More { .. }, more) => {
                let (_, descriptors) = mounts.last_mut().ok_or_else(strange)?;
                descriptors.extend(more);
            }
            (Word::Ready, _) => break,
            _ => return Err(strange()),
        }
    }
    if mounts.len() != begin.mounts {
        return Err(strange());
    }
    let Begin { served, generation, .. } = begin;
    Ok(TakenOver { served, generation, mounts, supervisor: Supervisor { channel, child: None } })
}
