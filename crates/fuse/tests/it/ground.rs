//! A volume on a temporary store, mounted.

use base::{Clock, OsRandom, Random, SystemClock, block_on};
use fs::{FormatOptions, Session, SessionOptions, Volume, World};
use fuse::{Mount, MountOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Unmounted and removed when it is dropped.
pub(crate) struct Ground {
    pub(crate) mount: Mount,
    pub(crate) session: Session,
    _dir: tempfile::TempDir,
}

/// What the core needs, on a store that nobody keeps.
pub(crate) fn world(store: Arc<dyn kv::Engine>) -> World {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let random: Arc<dyn Random> = Arc::new(OsRandom::new());
    let store = kv::Store::new(store, Arc::clone(&clock), Arc::clone(&random));
    World { store, clock, random, home: None }
}

impl Ground {
    /// On the embedded engine.
    pub(crate) fn private() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = kv_local::Local::open_dir(&dir.path().join("store"), Default::default());
        let world = world(Arc::new(engine.unwrap()));
        let volume = block_on(Volume::format(&world, "v", &FormatOptions::default())).unwrap();
        Self::mount(&volume, SessionOptions::default(), dir, |_| {})
    }

    /// One client of a volume.
    pub(crate) fn mount(
        volume: &Volume,
        options: SessionOptions,
        dir: tempfile::TempDir,
        choose: impl FnOnce(&mut MountOptions),
    ) -> Self {
        let session = block_on(Session::start(volume, options)).unwrap();
        let at = dir.path().join("mnt");
        std::fs::create_dir(&at).unwrap();
        let mut options = MountOptions::new(at, "test");
        options.transport = Some(match std::env::var_os(crate::uring::ASKED) {
            None => fuse::Transport::Device,
            Some(_) => fuse::Transport::Uring,
        });
        choose(&mut options);
        let mount = fuse::mount(&session, &options).unwrap();
        Self { mount, session, _dir: dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.mount.mountpoint()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if self.mount.unmount(false).is_err() {
            let _ = self.mount.unmount(true);
        }
        self.mount.wait();
        block_on(self.session.stop()).unwrap();
    }
}
