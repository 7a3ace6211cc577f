//! From a command to a store: in this process when the store is free, through its daemon when not.

use crate::control::client::{Asked, Link};
use crate::control::protocol::Request;
use crate::error::{CliError, Failure, Result};
use crate::opened::{OpenStore, Opening};
use crate::progress::{Bar, Unit};
use crate::store::StoreUrl;
use crate::work::{self, Asker};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long a store may be locked with nobody listening: while a daemon starts or ends, or another
/// command is at work.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(30);

/// Somebody at a terminal, or a program: a bar, files to write and to read, and Ctrl-C.
pub struct Person {
    bar: Bar,
    out: Option<Mutex<Box<dyn Write + Send>>>,
    from: Option<Mutex<Box<dyn Read + Send>>>,
    interrupted: Option<Arc<AtomicBool>>,
}

impl Person {
    /// Somebody who is shown a bar when the work is long.
    pub fn new(title: &'static str, unit: Unit, quiet: bool) -> Self {
        Self { bar: Bar::new(title, unit, quiet), out: None, from: None, interrupted: None }
    }

    /// Takes bytes to this place.
    #[must_use]
    pub fn writing(mut self, to: impl Write + Send + 'static) -> Self {
        self.out = Some(Mutex::new(Box::new(to)));
        self
    }

    /// Gives bytes from this place.
    #[must_use]
    pub fn reading(mut self, from: impl Read + Send + 'static) -> Self {
        self.from = Some(Mutex::new(Box::new(from)));
        self
    }

    /// Ends the work in good order at the first Ctrl-C, and this process at the second.
    pub fn ready(mut self) -> Result<Arc<dyn Asker + Send>> {
        self.interrupted = Some(interrupted()?);
        Ok(Arc::new(self))
    }

    /// Leaves signals to others.
    pub fn without_signals(self) -> Arc<dyn Asker + Send> {
        Arc::new(self)
    }
}

impl Asker for Person {
    fn advance(&self, done: u64, total: Option<u64>) {
        self.bar.advance(done, total);
    }

    fn goes_on(&self) -> bool {
        self.interrupted.as_ref().is_none_or(|flag| !flag.load(Ordering::Acquire))
    }

    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(out) = &self.out else { return Err(io::ErrorKind::Unsupported.into()) };
        out.lock().map_err(|_| io::ErrorKind::BrokenPipe)?.write_all(bytes)
    }

    fn get(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(from) = &self.from else { return Err(io::ErrorKind::Unsupported.into()) };
        from.lock().map_err(|_| io::ErrorKind::BrokenPipe)?.read(buffer)
    }
}

/// True from the first Ctrl-C or SIGTERM on; the second one ends the process. Not for a daemon, which
/// has a way of its own.
pub fn interrupted() -> Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(Arc::clone(flag));
    }
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
            .map_err(|error| CliError::io("cannot listen to signals", &error))?;
    }
    Ok(Arc::clone(flag))
}

/// A file that is made anew, and removed again unless it is kept.
pub struct NewFile {
    file: File,
    path: std::path::PathBuf,
    kept: bool,
}

impl NewFile {
    /// Makes it; an error when there is something of this name.
    pub fn create(path: &std::path::Path) -> Result<Self> {
        let file = File::options().write(true).create_new(true).open(path).map_err(|error| {
            let made = CliError::io(format!("cannot make {}", path.display()), &error);
            match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    made.hint("choose another name, or remove it first")
                }
                _ => made,
            }
        })?;
        Ok(Self { file, path: path.to_owned(), kept: false })
    }

    /// What to write to.
    pub fn writer(&self) -> Result<File> {
        self.file.try_clone().map_err(|error| CliError::io("cannot write", &error))
    }

    /// Keeps it, safe from a loss of power.
    pub fn keep(mut self) -> Result<()> {
        let synced = self.file.sync_all();
        synced.map_err(|error| {
            CliError::io(format!("cannot sync {}", self.path.display()), &error)
        })?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Does a request on a store, wherever the store is open.
pub fn perform<T: DeserializeOwned>(
    store: &StoreUrl,
    memory_bytes: Option<u64>,
    may_make: bool,
    request: &Request,
    asker: &Arc<dyn Asker + Send>,
) -> Result<T> {
    let value = reach(store, memory_bytes, may_make, request, asker)?;
    serde_json::from_value(value).map_err(|error| {
        CliError::new(
            Failure::Unsupported,
            format!("the daemon's answer is not understood: {error}"),
        )
        .hint("the program and the daemon are of different versions: mount again")
    })
}

fn reach(
    store: &StoreUrl,
    memory_bytes: Option<u64>,
    may_make: bool,
    request: &Request,
    asker: &Arc<dyn Asker + Send>,
) -> Result<serde_json::Value> {
    if !may_make {
        store.must_exist()?;
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(link) = Link::connect(store)? {
            match link.ask(request, asker)? {
                Asked::Answer(value) => return Ok(value),
                // What was read already cannot be read again.
                Asked::Gone if matches!(request, Request::Load { .. }) => {
                    let words = format!("the daemon of {} ended just now", store.dir().display());
                    return Err(CliError::in_use(words).hint("try again"));
                }
                Asked::Gone => {}
            }
        }
        match OpenStore::open(store, memory_bytes, may_make)? {
            Opening::Opened(opened) => {
                let done = work::run(&opened, request, &**asker);
                let closed = opened.close();
                return done.and_then(|value| closed.map(|()| value));
            }
            Opening::InUse(error) if Instant::now() > deadline => {
                return Err(error.hint("end that process, or wait until it is done"));
            }
            Opening::InUse(_) => std::thread::sleep(PAUSE),
        }
    }
}
