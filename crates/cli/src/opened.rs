//! A store that this process has open: its engine, the sessions that it has in the store's volumes, and
//! what it has mounted.

use crate::config::home_of;
use crate::error::{CliError, Failure, Result};
use crate::store::{Found, StoreUrl};
use base::checksum::hash64;
use base::exec::block_on;
use base::sync::Mutex;
use base::{OsRandom, SystemClock, SystemDisk, SystemThreads};
use fs::{Atime, Session, SessionOptions, Volume, World};
use home::{Home, LocalHome};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The directory of a store in which whole files are.
const FILES: &str = "files";

/// An open store.
#[derive(Debug)]
pub struct OpenStore {
    url: StoreUrl,
    /// The store's directory: names in it are reached through this, whatever its path becomes.
    dir: OwnedFd,
    engine: kv_local::Local,
    world: World,
    /// Whether it was made just now.
    pub is_new: bool,
    volumes: Mutex<BTreeMap<String, Slot>>,
    mounts: Mutex<BTreeMap<String, Mounted>>,
    /// Threads that work beside the mounts.
    threads: Mutex<Vec<JoinHandle<()>>>,
    closing: AtomicBool,
}

/// A volume that is in use.
#[derive(Debug)]
enum Slot {
    /// With a session that several may share.
    Shared { session: Session, users: usize },
    /// By one who can share it with nobody.
    Alone,
}

/// A volume that is mounted.
#[derive(Debug, Clone)]
pub struct Mounted {
    /// The mount.
    pub mount: fuse::Mount,
    /// Its session.
    pub session: Session,
    /// When it was mounted, in seconds since 1970.
    pub since: i64,
    /// It outlives its daemon.
    pub supervised: bool,
}

/// How a session is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHow {
    /// When reading changes access times.
    pub atime: Atime,
    /// Another process can take over from this one.
    pub survives: bool,
    /// Whole files are kept beside the store.
    pub local: bool,
    /// This process takes over from another.
    pub takes_over: bool,
    /// Handles are numbered from here on.
    pub handles_from: u64,
    /// What the one before had open.
    pub open_before: Vec<(fs::Ino, fs::Way)>,
}

impl Default for SessionHow {
    fn default() -> Self {
        Self {
            atime: Atime::Relative,
            survives: false,
            local: true,
            takes_over: false,
            handles_from: 0,
            open_before: Vec::new(),
        }
    }
}

/// What came of trying to open a store.
#[derive(Debug)]
pub enum Opening {
    /// It is open.
    Opened(Arc<OpenStore>),
    /// Another process has it; in words.
    InUse(CliError),
}

impl OpenStore {
    /// Opens a store; makes it when `may_make` and there is none.
    pub fn open(url: &StoreUrl, memory_bytes: Option<u64>, may_make: bool) -> Result<Opening> {
        let is_new = match url.inspect()? {
            Found::Store => false,
            Found::SomethingElse(what) => return Err(url.something_else(&what)),
            Found::Missing | Found::Empty if !may_make => {
                url.must_exist()?;
                false
            }
            Found::Missing | Found::Empty => true,
        };
        let place = url.dir().display();
        let failed = |error: std::io::Error| CliError::io(format!("cannot open {place}"), &error);
        if is_new {
            make_dir(url)?;
        }
        // Once, and not through a link: what is used is what was looked at, whatever becomes of the path.
        let how = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(url.dir(), how, Mode::empty())
            .map_err(|errno| failed(errno.into()))?;
        match url.inspect_open(&dir)? {
            Found::SomethingElse(what) => return Err(url.something_else(&what)),
            Found::Missing | Found::Empty if !is_new => {
                return Err(failed(std::io::ErrorKind::NotFound.into()));
            }
            _ => {}
        }
        if is_new {
            for_its_owner(&dir).map_err(failed)?;
        }
        let disk = SystemDisk::within(dir.try_clone().map_err(failed)?, url.dir());
        let mut options = kv_local::Options::default();
        if let Some(bytes) = memory_bytes {
            options.memory_bytes = usize::try_from(bytes).unwrap_or(options.memory_bytes);
        }
        let opened =
            kv_local::Local::open(Arc::new(disk), Some(&SystemThreads), &OsRandom::new(), options);
        let engine =
            match opened {
                Ok(engine) => engine,
                Err(error) => {
                    let error = CliError::from(error).about(place);
                    return match error.kind {
                        Failure::InUse => Ok(Opening::InUse(error)),
                        Failure::NoPermission => Err(error
                            .hint("the store belongs to another user: become that user, or root")),
                        _ => Err(error),
                    };
                }
            };
        let home = LocalHome::within(dir.as_fd(), FILES, url.dir()).map_err(failed)?;
        Ok(Opening::Opened(Self::on(engine, url, dir, is_new, Some(Arc::new(home)))))
    }

    fn on(
        engine: kv_local::Local,
        url: &StoreUrl,
        dir: OwnedFd,
        is_new: bool,
        home: Option<Arc<dyn Home>>,
    ) -> Arc<Self> {
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(OsRandom::new()));
        let store = kv::Store::new(Arc::new(engine.clone()), clock.clone(), random.clone());
        Arc::new(Self {
            url: url.clone(),
            dir,
            engine,
            world: World { store, clock, random, home },
            is_new,
            volumes: Mutex::default(),
            mounts: Mutex::default(),
            threads: Mutex::default(),
            closing: AtomicBool::new(false),
        })
    }

    /// Opens what is left of a damaged store and says what is not. Nothing is written to its directory:
    /// the daemon's log and socket go to one of their own.
    pub fn recover(url: &StoreUrl, memory_bytes: Option<u64>) -> Result<(Arc<Self>, Vec<String>)> {
        let home = home_of("XDG_STATE_HOME", ".local/state").ok_or_else(|| {
            CliError::usage("there is no home directory for the log of a recovery").hint("set HOME")
        })?;
        let name = hash64(0, url.dir().as_os_str().as_bytes());
        let beside = home.join(format!("seamount/recover-{name:016x}"));
        let failed = |error| CliError::io(format!("cannot make {}", beside.display()), &error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&beside).map_err(failed)?;
        let dir = rustix::fs::open(
            &beside,
            OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| failed(errno.into()))?;
        let mut options = kv_local::Options::default();
        if let Some(bytes) = memory_bytes {
            options.memory_bytes = usize::try_from(bytes).unwrap_or(options.memory_bytes);
        }
        let (engine, notes) =
            kv_local::Local::recover_dir(url.dir(), options).map_err(|error| {
                let in_use = error.kind() == kv::ErrorKind::Unavailable;
                let error = CliError::from(error).about(url.dir().display());
                if in_use {
                    error.hint("unmount it first, or end the process that uses it")
                } else {
                    error
                }
            })?;
        let files = rustix::fs::open(url.dir(), OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(std::io::Error::from)
            .and_then(|store| LocalHome::within_read_only(store.as_fd(), FILES, url.dir()));
        let home = files.ok().map(|home| Arc::new(home) as Arc<dyn Home>);
        Ok((Self::on(engine, url, dir, false, home), notes))
    }

    /// Where it is.
    pub fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// Its directory.
    pub fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// What the core needs.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// What the engine is made of now.
    pub fn engine_stats(&self) -> kv_local::Stats {
        self.engine.stats()
    }

    /// The engine's name.
    pub fn engine_name(&self) -> &'static str {
        self.world.store.capabilities().name
    }

    /// Uses a volume: with the session that this process has in it, or with a new one.
    pub fn use_volume(self: &Arc<Self>, name: &str) -> Result<InUse> {
        let mut volumes = self.volumes.lock();
        match volumes.get_mut(name) {
            Some(Slot::Shared { session, users }) => {
                *users += 1;
                Ok(self.in_use(name, session.clone()))
            }
            Some(Slot::Alone) => Err(self.worked_on(name)),
            None => self.begin(&mut volumes, name, SessionHow::default()),
        }
    }

    /// Uses a volume that nobody uses: for a mount, which says how its session is to be. Others may
    /// join it.
    pub fn begin_volume(self: &Arc<Self>, name: &str, how: SessionHow) -> Result<InUse> {
        let mut volumes = self.volumes.lock();
        if volumes.contains_key(name) {
            return Err(self.worked_on(name));
        }
        self.begin(&mut volumes, name, how)
    }

    fn begin(
        self: &Arc<Self>,
        volumes: &mut BTreeMap<String, Slot>,
        name: &str,
        how: SessionHow,
    ) -> Result<InUse> {
        let session = self.start_session(name, how)?;
        volumes.insert(name.to_owned(), Slot::Shared { session: session.clone(), users: 1 });
        Ok(self.in_use(name, session))
    }

    /// Runs `work` on a volume that nobody uses, and keeps others from it meanwhile.
    pub fn alone<T>(&self, name: &str, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut volumes = self.volumes.lock();
        if let Some(mounted) = self.mounts.lock().get(name) {
            let place = mounted.mount.mountpoint().display();
            let words = format!("cannot {what} volume \"{name}\": it is mounted at {place}");
            return Err(
                CliError::in_use(words).hint(format!("unmount it first: seamount umount {place}"))
            );
        }
        if volumes.contains_key(name) {
            return Err(self.worked_on(name));
        }
        volumes.insert(name.to_owned(), Slot::Alone);
        drop(volumes);
        let done = work();
        self.volumes.lock().remove(name);
        done
    }

    fn worked_on(&self, name: &str) -> CliError {
        let words = format!("volume \"{name}\" of {} is being worked on", self.url.dir().display());
        CliError::in_use(words).hint("try again when that is done")
    }

    fn in_use(self: &Arc<Self>, name: &str, session: Session) -> InUse {
        InUse { store: Arc::clone(self), name: name.to_owned(), session }
    }

    /// A volume, without a session in it: for reading it as a whole.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        block_on(Volume::open(&self.world, name)).map_err(|error| self.about(name, error))
    }

    fn about(&self, name: &str, error: fs::Error) -> CliError {
        let kind = error.kind();
        let made = CliError::from(error)
            .about(format!("volume \"{name}\" of {}", self.url.dir().display()));
        match kind {
            fs::Kind::NotFound => made.hint(format!(
                "see which there are with `seamount status {}`",
                self.url.dir().display()
            )),
            _ => made,
        }
    }

    fn start_session(&self, name: &str, how: SessionHow) -> Result<Session> {
        let about = |error: fs::Error| self.about(name, error);
        let volume = self.volume(name)?;
        let options = SessionOptions {
            atime: how.atime,
            survives: how.survives,
            local: how.local,
            takes_over: how.takes_over,
            handles_from: how.handles_from,
            open_before: how.open_before,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid: std::process::id(),
            ..SessionOptions::default()
        };
        let session = block_on(Session::start(&volume, options)).map_err(about)?;
        let running = session.clone();
        spawn("session", move || block_on(running.run()))?;
        let tending = session.clone();
        spawn("session-files", move || {
            base::thread::stand_back();
            tending.tend();
        })?;
        let ready = session.clone();
        spawn("session-pool", move || ready.keep_ready())?;
        // On a private store there is nobody who could end it.
        if self.world.store.capabilities().shared {
            let watching = session.clone();
            spawn("session-watch", move || block_on(watching.watch_self()))?;
        }
        Ok(session)
    }

    fn leave(&self, name: &str) {
        let mut volumes = self.volumes.lock();
        let Some(Slot::Shared { session, users }) = volumes.get_mut(name) else { return };
        *users -= 1;
        if *users > 0 {
            return;
        }
        let session = session.clone();
        // The next session of this volume begins after this one's end.
        volumes.insert(name.to_owned(), Slot::Alone);
        drop(volumes);
        stop(name, &session);
        self.volumes.lock().remove(name);
    }

    /// Runs work beside the mounts. It has to end soon when the store [is closed](Self::is_closing).
    pub fn in_background(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        threads.push(spawned.map_err(|error| CliError::io("cannot start a thread", &error))?);
        Ok(())
    }

    /// Whether the store is about to be closed.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// What is mounted.
    pub fn mounts(&self) -> Vec<(String, Mounted)> {
        let mounts = self.mounts.lock();
        mounts.iter().map(|(name, mounted)| (name.clone(), mounted.clone())).collect()
    }

    /// What is mounted of a volume.
    pub fn mount_of(&self, name: &str) -> Option<Mounted> {
        self.mounts.lock().get(name).cloned()
    }

    /// Notes a mount.
    pub fn add_mount(&self, name: &str, mounted: Mounted) {
        self.mounts.lock().insert(name.to_owned(), mounted);
    }

    /// Forgets a mount; returns how many are left.
    pub fn remove_mount(&self, name: &str) -> usize {
        let mut mounts = self.mounts.lock();
        mounts.remove(name);
        mounts.len()
    }

    /// Ends every session that is left and closes the engine: everything is synced.
    pub fn close(&self) -> Result<()> {
        self.closing.store(true, Ordering::Release);
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A panic has been printed already.
            let _ = thread.join();
        }
        let left = std::mem::take(&mut *self.volumes.lock());
        for (name, slot) in left {
            if let Slot::Shared { session, .. } = slot {
                stop(&name, &session);
            }
        }
        self.engine
            .clone()
            .close()
            .map_err(|error| CliError::from(error).about(self.url.dir().display()))
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    spawned.map(drop).map_err(|error| CliError::io("cannot start a thread", &error))
}

fn stop(volume: &str, session: &Session) {
    if let Err(error) = block_on(session.stop()) {
        tracing::warn!(volume, %error, "the session did not end in good order");
    }
}

/// A volume in use; let go when this is dropped.
#[derive(Debug)]
pub struct InUse {
    store: Arc<OpenStore>,
    name: String,
    session: Session,
}

impl InUse {
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.store.leave(&self.name);
    }
}

/// Makes the directory of a new store, for its owner alone.
fn make_dir(url: &StoreUrl) -> Result<()> {
    let failed =
        |error| CliError::io(format!("cannot make the store {}", url.dir().display()), &error);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(url.dir()).map_err(failed)?;
    Ok(())
}

/// Takes everybody else's rights to a directory that is ours.
fn for_its_owner(dir: &OwnedFd) -> std::io::Result<()> {
    let stat = rustix::fs::fstat(dir)?;
    if stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 != 0 {
        rustix::fs::fchmod(dir, Mode::RWXU)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn open(dir: &std::path::Path) -> Arc<OpenStore> {
        let url = StoreUrl::local(dir).unwrap();
        match OpenStore::open(&url, None, true).unwrap() {
            Opening::Opened(store) => store,
            Opening::InUse(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_new_store_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("store")).unwrap();
        let store = open(&dir.path().join("store"));
        assert!(store.is_new);
        let mode = std::fs::metadata(dir.path().join("store")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        store.close().unwrap();
        assert!(!open(&dir.path().join("store")).is_new);
    }

    #[test]
    fn a_store_in_use_is_told_from_one_that_cannot_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let url = StoreUrl::local(dir.path()).unwrap();
        let second = OpenStore::open(&url, None, true).unwrap();
        assert!(matches!(second, Opening::InUse(error) if error.message.contains("process")));
        store.close().unwrap();
        let none = StoreUrl::local(&dir.path().join("none")).unwrap();
        assert_eq!(OpenStore::open(&none, None, false).unwrap_err().kind, Failure::NotFound);
    }

    #[test]
    fn users_of_a_volume_share_a_session_and_the_last_one_ends_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        block_on(Volume::format(store.world(), "v", &fs::FormatOptions::default())).unwrap();
        assert_eq!(store.use_volume("none").unwrap_err().kind, Failure::NotFound);
        let first = store.use_volume("v").unwrap();
        let second = store.use_volume("v").unwrap();
        assert_eq!(first.session().id(), second.session().id());
        assert_eq!(
            store.begin_volume("v", SessionHow::default()).unwrap_err().kind,
            Failure::InUse
        );
        assert_eq!(store.alone("v", "destroy", || Ok(())).unwrap_err().kind, Failure::InUse);
        let session = first.session().clone();
        drop(first);
        assert!(!session.is_ended());
        drop(second);
        assert!(session.is_ended());
        store.alone("v", "destroy", || Ok(())).unwrap();
        store.close().unwrap();
    }
}
