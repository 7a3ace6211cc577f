//! A disk whose directory sync, once it has failed, fails for ever.
//!
//! A kernel that could not write names may forget that it should have. A later sync that succeeds
//! says nothing about them, so nobody may build on it until the store is opened again.

use base::disk::{Disk, File, Lock};
use base::sync::Mutex;
use std::io;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Latched {
    disk: Arc<dyn Disk>,
    failed: Mutex<bool>,
}

impl Latched {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, failed: Mutex::new(false) }
    }
}

impl Disk for Latched {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        // Held during the sync: nobody can succeed between a failure and its being known.
        let mut failed = self.failed.lock();
        if *failed {
            return Err(io::Error::other("an earlier sync of the directory failed"));
        }
        let outcome = self.disk.sync_dir();
        *failed = outcome.is_err();
        outcome
    }

    fn lock(&self, name: &str) -> io::Result<Lock> {
        self.disk.lock(name)
    }

    fn lock_shared(&self, name: &str) -> io::Result<Option<Lock>> {
        self.disk.lock_shared(name)
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}
