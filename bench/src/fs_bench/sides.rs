//! The directories that are measured in, each with who serves it.

use crate::error::Result;
use crate::programs::Programs;
use crate::server::Server;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// First the measured one, then those that it is compared with.
#[derive(Debug)]
pub(crate) struct Sides {
    places: Vec<(String, PathBuf)>,
    servers: Vec<Server>,
}

pub(crate) const SEAMOUNT: &str = "seamount";
pub(crate) const NATIVE: &str = "native";
pub(crate) const MEM: &str = "mem";
pub(crate) const PASS: &str = "pass";

impl Sides {
    /// Makes a directory of each kind in `dir`. Servers run on the CPUs of the calling thread.
    pub(crate) fn start(
        programs: &Programs,
        dir: &Path,
        also: &[(String, PathBuf)],
    ) -> Result<Self> {
        let places = [SEAMOUNT, NATIVE, MEM, PASS].map(|name| (name.to_owned(), dir.join(name)));
        let mut sides = Self { places: Vec::from(places), servers: Vec::new() };
        std::fs::create_dir_all(dir.join(NATIVE))?;
        let behind = dir.join("behind-pass");
        std::fs::create_dir(&behind)?;
        let store = dir.join("store");
        let mut start = |program: &Path, words: &[&OsStr], name: &str| -> Result<()> {
            let server = Server::start(program, words.iter().copied(), &dir.join(name))?;
            sides.servers.push(server);
            Ok(())
        };
        let place = |name: &str| dir.join(name).into_os_string();
        start(&programs.mem, &[&place(MEM)], MEM)?;
        start(&programs.pass, &[behind.as_os_str(), &place(PASS)], PASS)?;
        let words: [&OsStr; 3] = ["mount".as_ref(), store.as_os_str(), &place(SEAMOUNT)];
        start(&programs.seamount, &words, SEAMOUNT)?;
        sides.places.extend(also.iter().cloned());
        Ok(sides)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().map(|(_, place)| place.as_path())
    }

    /// Ends all servers; fails if one of them did not end as it should.
    pub(crate) fn stop(mut self) -> Result<()> {
        let mut failed = Ok(());
        for server in self.servers.drain(..).rev() {
            failed = failed.and(server.stop());
        }
        failed
    }
}
