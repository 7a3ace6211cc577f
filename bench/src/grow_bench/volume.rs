//! A volume of its own, mounted by the program that users run.

use crate::cpu::Cpus;
use crate::error::{Error, Result};
use crate::process::{self, Memory};
use crate::programs::Programs;
use crate::server::Server;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The daemon's own work that takes longer than this is not waited for.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// A mounted volume. When it is dropped it is unmounted.
#[derive(Debug)]
pub(crate) struct Volume<'a> {
    /// Nothing while it is mounted anew.
    server: Option<Server>,
    root: PathBuf,
    store: PathBuf,
    programs: &'a Programs,
    cpus: &'a Cpus,
}

impl<'a> Volume<'a> {
    pub(crate) fn mount(dir: &Path, programs: &'a Programs, cpus: &'a Cpus) -> Result<Self> {
        std::fs::create_dir(dir)?;
        let (root, store) = (dir.join("mnt"), dir.join("store"));
        let mut volume = Self { server: None, root, store, programs, cpus };
        volume.start()?;
        Ok(volume)
    }

    fn start(&mut self) -> Result<()> {
        // Not on one CPU: it is pinned when it is there.
        self.cpus.own(false)?;
        let words: [&OsStr; 3] = ["mount".as_ref(), self.store.as_ref(), self.root.as_ref()];
        self.server = Some(Server::start(&self.programs.seamount, words, &self.root)?);
        Ok(())
    }

    fn server(&self) -> Result<&Server> {
        self.server.as_ref().ok_or_else(|| Error::new("the volume is not mounted"))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A directory of the filesystem that the store is on.
    pub(crate) fn beside(&self) -> &Path {
        self.root.parent().unwrap_or(&self.root)
    }

    /// Unmounts it, and mounts it again: then neither the kernel nor the daemon knows anything of it.
    /// `between` runs while it is not mounted. Says how long mounting took.
    pub(crate) fn remount(&mut self, between: impl FnOnce() -> Result<()>) -> Result<Duration> {
        if let Some(server) = self.server.take() {
            server.stop()?;
        }
        between()?;
        self.start()?;
        Ok(self.server()?.ready)
    }

    /// The daemon and this thread on one CPU, or wherever the scheduler puts them.
    pub(crate) fn pin(&self, pinned: bool) -> Result<()> {
        self.cpus.own(pinned)?;
        self.cpus.other(self.server()?.id(), pinned)
    }

    /// Waits until the daemon has nothing more to do.
    pub(crate) fn settle(&self) -> Result<()> {
        process::settle_of(&self.server()?.id().to_string(), SETTLE_MAX)?;
        Ok(())
    }

    /// Resident memory of the daemon.
    pub(crate) fn memory(&self) -> Result<Memory> {
        Memory::of(&self.server()?.id().to_string())
    }

    /// Where the store is, to be looked at while nothing is mounted.
    pub(crate) fn store(&self) -> PathBuf {
        self.store.clone()
    }

    pub(crate) fn stop(mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), Server::stop)
    }
}
