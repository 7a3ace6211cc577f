//! What a life runs on: a simulated disk, and in some lives a home on it, in a directory of its own.

use super::Story;
use base::disk::Cut;
use base::{SimClock, SimDisk};
use fs::Registrar;
use home::SimHome;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The directory of the home. The store is in the root of the disk.
const HOME: &str = "home";

/// A machine. One loss of power takes what was not synced of the store and of the home.
#[derive(Debug)]
pub struct Machine {
    /// The disk, with the store in its root.
    pub disk: SimDisk,
    /// The time.
    pub clock: SimClock,
    /// Where files of the home are.
    pub home: Option<Arc<SimHome>>,
}

impl Machine {
    /// A new one, with nothing on it.
    pub fn new(story: &Story) -> Result<Self, String> {
        let (disk, clock) = (SimDisk::new(), SimClock::new());
        disk.set_clock(&clock);
        let home = match story.home {
            true => {
                let files = Arc::new(disk.directory(HOME));
                let home = SimHome::new(files, Arc::new(clock.clone()), 1);
                let home = home.with_descriptors().map_err(|error| error.to_string())?;
                Some(Arc::new(home))
            }
            false => None,
        };
        Ok(Self { disk, clock, home })
    }

    /// What is found when power comes back.
    #[must_use]
    pub fn after(&self, cut: Cut, seed: u64) -> Self {
        let disk = self.disk.reboot(cut, seed);
        let home = self.home.as_ref().map(|home| home.reborn(Arc::new(disk.directory(HOME))));
        Self { disk, clock: self.clock.clone(), home: home.map(Arc::new) }
    }

    /// What another process finds when this one has died. It is a copy: changes of it are its own.
    #[must_use]
    pub fn next_process(&self) -> Self {
        let disk = self.disk.reboot(Cut::Kept, 0);
        let home = self.home.as_ref().map(|home| home.on_copy(Arc::new(disk.directory(HOME))));
        Self { disk, clock: self.clock.clone(), home: home.map(Arc::new) }
    }

    /// The same, with a home of which nothing may be changed.
    #[must_use]
    pub fn read_only(&self) -> Self {
        let mut copy = self.next_process();
        copy.home = copy.home.map(|home| Arc::new(home.sharing().read_only()));
        copy
    }

    /// The directory of the home, for who damages it.
    pub fn files(&self) -> SimDisk {
        self.disk.directory(HOME)
    }
}

/// A kernel that uses every file by itself.
#[derive(Debug, Default)]
pub(super) struct Kernel(AtomicU32);

impl Registrar for Kernel {
    fn register(&self, _: u64, _: BorrowedFd<'_>) -> Option<u32> {
        Some(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn unregister(&self, _: u64, _: u32) {}
}
