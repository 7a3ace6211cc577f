//! The daemon that the supervisor starts when the one before has died.

use crate::background;
use crate::config::{LogFormat, Settings};
use crate::daemon::Daemon;
use crate::error::{CliError, Result};
use crate::logging;
use crate::opened::{OpenStore, Opening};
use crate::store::{StoreUrl, escape, unescape_path};
use crate::supervisor::{self, Served};
use rustix::fs::{Mode, OFlags};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// How long the one before may take to let go of the store.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// What the next daemon must know.
pub fn served(store: &StoreUrl, settings: &Settings) -> Served {
    let log_file = settings.log_file.as_deref().map(|path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        escape(path.as_os_str().as_bytes())
    });
    Served {
        store: escape(store.dir().as_os_str().as_bytes()),
        memory: settings.memory,
        log_level: settings.log_level.map(|level| level.to_string().to_lowercase()),
        log_is_json: settings.log_format == Some(LogFormat::Json),
        log_file,
    }
}

/// Takes over and serves.
pub fn run() -> Result<()> {
    let taken = supervisor::take_over()?;
    let served = taken.served.clone();
    let strange = || CliError::usage("the supervisor names no path");
    let mut settings = Settings {
        memory: served.memory,
        log_format: served.log_is_json.then_some(LogFormat::Json),
        ..Settings::default()
    };
    if let Some(level) = &served.log_level {
        settings.set("log_level", level).map_err(CliError::usage)?;
    }
    if let Some(path) = &served.log_file {
        settings.log_file = Some(unescape_path(path).ok_or_else(strange)?);
    }
    background::detach()?;
    let url = StoreUrl::local(&unescape_path(&served.store).ok_or_else(strange)?)?;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let place = url.dir().display();
    let dir = rustix::fs::open(url.dir(), flags, Mode::empty())
        .map_err(|errno| CliError::io(format!("cannot open {place}"), &errno.into()))?;
    background::prepare_to_leave(&dir, settings.log_file.as_deref())?.leave()?;
    logging::start(&settings, tracing::Level::INFO)?;
    let deadline = Instant::now() + PATIENCE;
    let store = loop {
        match OpenStore::open(&url, settings.memory, false)? {
            Opening::Opened(store) => break store,
            Opening::InUse(error) if Instant::now() > deadline => return Err(error),
            Opening::InUse(_) => std::thread::sleep(PAUSE),
        }
    };
    Daemon::take_over(store, taken)
}
