//! The daemon of a store: mounts volumes of it, answers commands, and ends when its last mount is gone
//! or when it is told to.

use crate::control::protocol::{FormatRequest, MountRequest, Request};
use crate::control::server::{Handler, Server};
use crate::error::{CliError, Failure, Result};
use crate::opened::{InUse, Mounted, OpenStore, SessionHow};
use crate::store::unescape_path;
use crate::supervisor::{Served, Supervised, Supervisor, TakenOver};
use crate::work::{self, Asker};
use base::exec::block_on;
use fs::{Atime, Volume};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long programs that use a mount have after the first signal.
const GRACE: Duration = Duration::from_secs(10);
/// Handles of one daemon that another could take over: the next one's begin behind them.
const HANDLES_BITS: u32 = 40;
/// How long a volume that was unmounted may take to be ready for the next mount.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// How often those who wait for an unmount are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// As many descriptors as this process may have: files that are open here are opened faster.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::debug!(%error, "the limit of descriptors stays as it is");
    }
}

/// What became of a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountReply {
    /// Where the volume is mounted.
    pub mountpoint: String,
    /// The store.
    pub store: String,
    /// Its directory.
    pub store_path: String,
    /// The volume.
    pub volume: String,
    /// The process that serves it.
    pub pid: u32,
    /// The store was made just now.
    pub store_is_new: bool,
    /// The volume was made just now.
    pub volume_is_new: bool,
    /// A daemon that was there already has taken it on.
    pub joined: bool,
}

/// What the daemon's main thread waits for.
enum Event {
    Signal(i32),
    Unmounted,
}

/// How far a daemon is in its life.
#[derive(Debug, Default)]
struct Life {
    mounting: usize,
    ending: bool,
}

/// A daemon.
pub struct Daemon {
    store: Arc<OpenStore>,
    supervisor: Mutex<Option<Supervisor>>,
    life: Mutex<Life>,
    /// Told whenever a mount is gone.
    changed: Condvar,
    events: Mutex<Sender<Event>>,
}

impl Daemon {
    /// Mounts a volume of an open store and serves it until it is unmounted or a signal comes. `ready` is
    /// called when programs can use the mount.
    pub fn run(
        store: Arc<OpenStore>,
        served: &Served,
        first: &MountRequest,
        ready: impl FnOnce(&MountReply) -> Result<()>,
    ) -> Result<()> {
        let supervisor = Supervisor::start(served);
        if let Err(error) = &supervisor {
            tracing::warn!(%error, "no supervisor: if this daemon is killed, its mount stays behind");
        }
        Self::live(store, supervisor.ok(), true, |daemon| {
            let reply = daemon.mount(first)?;
            let server = daemon.open_desk()?;
            ready(&reply)?;
            tracing::info!(
                store = reply.store,
                volume = reply.volume,
                mountpoint = reply.mountpoint,
                "mounted"
            );
            Ok(server)
        })
    }

    /// Serves the mounts of a daemon that died.
    pub fn take_over(store: Arc<OpenStore>, taken: TakenOver) -> Result<()> {
        let TakenOver { generation, mounts, supervisor, .. } = taken;
        Self::live(store, Some(supervisor), false, |daemon| {
            for (mount, descriptors) in mounts {
                daemon.resume(&mount, descriptors, generation)?;
                let MountRequest { volume, mountpoint, .. } = &mount.request;
                tracing::warn!(
                    volume,
                    mountpoint,
                    generation,
                    "taken over from a daemon that died"
                );
            }
            let server = daemon.open_desk()?;
            if let Some(supervisor) = lock(&daemon.supervisor).as_ref() {
                supervisor.ready();
            }
            daemon.tell(Event::Unmounted);
            Ok(server)
        })
    }

    fn open_desk(self: &Arc<Self>) -> Result<Server> {
        Server::start(self.store.dir(), Arc::new(Desk(Arc::clone(self))))
    }

    /// A daemon's life, from what it does first to its end.
    fn live(
        store: Arc<OpenStore>,
        supervisor: Option<Supervisor>,
        is_first: bool,
        begin: impl FnOnce(&Arc<Self>) -> Result<Server>,
    ) -> Result<()> {
        raise_descriptors();
        let (sender, events) = channel();
        listen_to_signals(sender.clone())?;
        let daemon = Arc::new(Self {
            store,
            supervisor: Mutex::new(supervisor),
            life: Mutex::default(),
            changed: Condvar::new(),
            events: Mutex::new(sender),
        });
        let outcome = match begin(&daemon) {
            Ok(server) => {
                // Nobody but systemd wants to know, and it may not be there.
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
                daemon.wait(&events);
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
                server.end();
                Ok(())
            }
            // The supervisor tries again, with what is kept for that.
            Err(error) if !is_first => return Err(error),
            Err(error) => {
                lock(&daemon.life).ending = true;
                daemon.unmount_all();
                Err(error)
            }
        };
        let closed = daemon.store.close();
        let supervisor = lock(&daemon.supervisor).take();
        if let Some(supervisor) = supervisor {
            supervisor.end();
        }
        if outcome.is_ok() {
            tracing::info!("ended");
        }
        outcome.and(closed)
    }

    /// Waits until there is no reason to stay.
    fn wait(&self, events: &Receiver<Event>) {
        loop {
            match events.recv() {
                Ok(Event::Unmounted) if self.is_over() => return,
                Ok(Event::Unmounted) => {}
                Ok(Event::Signal(signal)) => {
                    tracing::info!(signal, "told to end");
                    return self.leave(events);
                }
                Err(_) => return,
            }
        }
    }

    /// Unmounts everything, and gives programs that hold on to it some time.
    fn leave(&self, events: &Receiver<Event>) {
        lock(&self.life).ending = true;
        self.unmount_all();
        let deadline = Instant::now() + GRACE;
        while !self.store.mounts().is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            match events.recv_timeout(left) {
                Ok(Event::Unmounted) => {}
                Ok(Event::Signal(_)) => {
                    tracing::warn!("told again: programs that use the mount lose it now");
                    return;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    tracing::warn!("programs still use the mount, and lose it now");
                    return;
                }
            }
        }
    }

    fn unmount_all(&self) {
        for (volume, mounted) in self.store.mounts() {
            let place = mounted.mount.mountpoint().display();
            let Err(error) = mounted.mount.unmount(false).map_err(CliError::from) else { continue };
            if !mounted.mount.is_mounted() {
                continue;
            }
            tracing::warn!(volume, %place, %error, "in use: taken out of the tree, programs may finish");
            if let Err(error) = mounted.mount.unmount(true).map_err(CliError::from) {
                tracing::error!(volume, %place, %error, "cannot unmount");
            }
        }
    }

    /// Whether nothing is mounted and nothing will be.
    fn is_over(&self) -> bool {
        let mut life = lock(&self.life);
        life.ending |= life.mounting == 0 && self.store.mounts().is_empty();
        life.ending
    }

    /// Mounts a volume; makes it when the store has none of this name.
    fn mount(self: &Arc<Self>, asked: &MountRequest) -> Result<MountReply> {
        {
            let mut life = lock(&self.life);
            if life.ending {
                return Err(
                    CliError::in_use("the daemon of this store ends just now").hint("try again")
                );
            }
            life.mounting += 1;
        }
        let done = self.mount_now(asked);
        lock(&self.life).mounting -= 1;
        if done.is_err() {
            self.tell(Event::Unmounted);
        }
        done
    }

    fn mount_now(self: &Arc<Self>, asked: &MountRequest) -> Result<MountReply> {
        let volume = asked.volume.as_str();
        self.wait_for_end_of(volume);
        if let Some(mounted) = self.store.mount_of(volume) {
            let place = mounted.mount.mountpoint().display();
            let words = format!("volume \"{volume}\" is mounted already, at {place}");
            return Err(CliError::in_use(words)
                .hint(format!("use it there, or unmount it: seamount umount {place}")));
        }
        let mountpoint = unescape_path(&asked.mountpoint)
            .filter(|path| path.is_absolute())
            .ok_or_else(|| CliError::usage("the mountpoint is not an absolute path"))?;
        let volume_is_new = self.make_if_missing(asked)?;
        let how = SessionHow { survives: asked.supervised, ..session_how(asked) };
        let used = self.store.begin_volume(volume, how)?;
        let options = self.options(asked, mountpoint);
        if let Some(supervisor) = lock(&self.supervisor).as_ref() {
            supervisor.expect(&options);
        }
        let mount = fuse::mount(used.session(), &options)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let stays = asked.supervised && mount.can_be_resumed() && used.session().is_private();
        if asked.supervised && !mount.can_be_resumed() {
            tracing::warn!(
                transport = %mount.transport(),
                "the kernel cannot ask again what a daemon that died has not answered (Linux 6.9 can, where \
                 the device is the transport): the mount ends with its daemon"
            );
        }
        let id = lock(&self.supervisor)
            .as_ref()
            .and_then(|supervisor| supervisor.add(&mount, asked, since, stays));
        self.attend(volume, used, Attended { mount: mount.clone(), since, stays, id })?;
        Ok(MountReply {
            mountpoint: mount.mountpoint().to_string_lossy().into_owned(),
            store: self.store.url().to_string(),
            store_path: self.store.url().dir().to_string_lossy().into_owned(),
            volume: volume.to_owned(),
            pid: std::process::id(),
            store_is_new: self.store.is_new && volume_is_new,
            volume_is_new,
            joined: false,
        })
    }

    /// Goes on with a mount whose daemon has died.
    fn resume(
        self: &Arc<Self>,
        mount: &Supervised,
        descriptors: Vec<OwnedFd>,
        generation: u64,
    ) -> Result<()> {
        let asked = &mount.request;
        let mountpoint = unescape_path(&asked.mountpoint)
            .ok_or_else(|| CliError::usage("the mountpoint is not a path"))?;
        let old_handles = generation << HANDLES_BITS;
        let inherited = fuse::Inherited::of(descriptors)?;
        let how = SessionHow {
            open_before: inherited.open_files()?,
            survives: true,
            takes_over: true,
            handles_from: old_handles,
            ..session_how(asked)
        };
        let used = self.store.begin_volume(&asked.volume, how)?;
        let options = self.options(asked, mountpoint);
        let resumed = fuse::resume(used.session(), &options, inherited, old_handles)?;
        let (since, id) = (mount.since, Some(mount.id));
        self.attend(&asked.volume, used, Attended { mount: resumed, since, stays: true, id })
    }

    fn options(&self, asked: &MountRequest, mountpoint: PathBuf) -> fuse::MountOptions {
        let source = self.store.url().with_volume(&asked.volume);
        let mut options = mount_options(asked, mountpoint, source);
        // The free space is that of the disk below.
        options.backing = Some(self.store.url().dir().to_path_buf());
        options
    }

    /// Notes a mount, and waits for its end beside everything else.
    fn attend(self: &Arc<Self>, volume: &str, used: InUse, attended: Attended) -> Result<()> {
        let Attended { mount, since, stays, id } = attended;
        let mounted = Mounted {
            mount: mount.clone(),
            session: used.session().clone(),
            since,
            supervised: stays,
        };
        self.store.add_mount(volume, mounted);
        let (daemon, name, waited) = (Arc::clone(self), volume.to_owned(), mount.clone());
        let waiting = std::thread::Builder::new().name("mount-wait".to_owned()).spawn(move || {
            waited.wait();
            if let (Some(id), Some(supervisor)) = (id, lock(&daemon.supervisor).as_ref()) {
                supervisor.remove(id);
            }
            tracing::info!(volume = name, mountpoint = %waited.mountpoint().display(), "unmounted");
            // The session ends first: who sees the mount gone may use the volume.
            drop(used);
            let life = lock(&daemon.life);
            daemon.store.remove_mount(&name);
            drop(life);
            daemon.changed.notify_all();
            daemon.tell(Event::Unmounted);
        });
        if let Err(error) = waiting {
            self.store.remove_mount(volume);
            let _ = mount.unmount(true);
            return Err(CliError::io("cannot start a thread", &error));
        }
        Ok(())
    }

    /// Waits for what is still to be done for a volume that was unmounted just now.
    fn wait_for_end_of(&self, volume: &str) {
        let deadline = Instant::now() + END_PATIENCE;
        let mut life = lock(&self.life);
        while self.store.mount_of(volume).is_some_and(|mounted| !mounted.mount.is_mounted())
            && Instant::now() < deadline
        {
            let waited = self.changed.wait_timeout(life, LOOK_EVERY);
            life = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn make_if_missing(&self, asked: &MountRequest) -> Result<bool> {
        let world = self.store.world();
        let names = block_on(Volume::list(world))
            .map_err(|error| CliError::from(error).about(self.store.url().dir().display()))?;
        if names.contains(&asked.volume) {
            return Ok(false);
        }
        let how =
            FormatRequest { uid: asked.uid, gid: asked.gid, mode: 0o755, ..Default::default() };
        let options = work::format_options(&how)?;
        block_on(Volume::format(world, &asked.volume, &options)).map_err(|error| {
            CliError::from(error).about(format!("cannot make volume \"{}\"", asked.volume))
        })?;
        Ok(true)
    }

    /// Waits until a volume is not mounted. `None` when that was the last one: the end of the daemon is
    /// the answer then.
    fn wait_for(&self, volume: &str, asker: &dyn Asker) -> Option<Result<Value>> {
        let mut life = lock(&self.life);
        while self.store.mount_of(volume).is_some() && !life.ending {
            let waited = self.changed.wait_timeout(life, LOOK_EVERY);
            life = waited.unwrap_or_else(PoisonError::into_inner).0;
            // Whoever asked may be gone, and must not take up a place for ever.
            asker.advance(0, None);
            if !asker.goes_on() && !life.ending {
                return None;
            }
        }
        if !life.ending && (life.mounting > 0 || !self.store.mounts().is_empty()) {
            return Some(Ok(Value::Null));
        }
        drop(life);
        // The process ends soon, and with it the connection. Should a new mount come first, that is
        // an answer too.
        loop {
            std::thread::sleep(LOOK_EVERY);
            if !lock(&self.life).ending && !self.store.mounts().is_empty() {
                return Some(Ok(Value::Null));
            }
        }
    }

    fn tell(&self, event: Event) {
        // Nobody listens any more when the daemon ends.
        let _ = lock(&self.events).send(event);
    }
}

/// A mount that is to be looked after.
struct Attended {
    mount: fuse::Mount,
    /// When it was mounted, in seconds since 1970.
    since: i64,
    /// It outlives this process.
    stays: bool,
    /// The kernel's number for it, if the supervisor knows of it.
    id: Option<u64>,
}

/// Where commands come in.
struct Desk(Arc<Daemon>);

impl Handler for Desk {
    fn answer(&self, request: &Request, asker: &dyn Asker) -> Option<Result<Value>> {
        let daemon = &self.0;
        let is_ending = || lock(&daemon.life).ending;
        match request {
            Request::Wait { volume } => daemon.wait_for(volume, asker),
            _ if is_ending() => None,
            Request::Mount(asked) => {
                let mounted = daemon.mount(asked);
                if mounted.is_err() && is_ending() {
                    return None;
                }
                Some(mounted.and_then(|reply| {
                    tracing::info!(volume = reply.volume, mountpoint = reply.mountpoint, "mounted");
                    let reply = MountReply { joined: true, ..reply };
                    serde_json::to_value(reply)
                        .map_err(|error| CliError::new(Failure::Failed, error.to_string()))
                }))
            }
            request => Some(work::run(&daemon.store, request, asker)),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn mount_options(asked: &MountRequest, mountpoint: PathBuf, source: String) -> fuse::MountOptions {
    let mut options = fuse::MountOptions::new(mountpoint, source);
    options.read_only = asked.read_only;
    options.allow_other = asked.allow_other.unwrap_or(options.allow_other);
    options.suid = asked.suid.unwrap_or(options.suid);
    options.dev = asked.dev.unwrap_or(options.dev);
    options.exec = asked.exec.unwrap_or(options.exec);
    options.threads = asked.threads;
    options.transport = asked.transport.as_deref().and_then(fuse::Transport::of_name);
    options.survives = asked.supervised;
    options.passthrough = asked.passthrough;
    options.attr_ttl = asked.attr_ttl_ms.map(Duration::from_millis);
    options.entry_ttl = asked.entry_ttl_ms.map(Duration::from_millis);
    options.negative_ttl = asked.negative_ttl_ms.map(Duration::from_millis);
    options
}

fn session_how(asked: &MountRequest) -> SessionHow {
    let atime = match asked.atime.as_str() {
        "strict" => Atime::Strict,
        "off" => Atime::Off,
        _ => Atime::Relative,
    };
    SessionHow { atime, local: asked.local, ..SessionHow::default() }
}

fn listen_to_signals(events: Sender<Event>) -> Result<()> {
    let failed = |error| CliError::io("cannot listen to signals", &error);
    let mut signals =
        signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?;
    let body = move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(body).map_err(failed)?;
    Ok(())
}
