//! The conformance suite on the embedded engine: on a real directory with its threads, and on a
//! simulated disk, where layers are so small that most cases fold and merge.

use crate::life::small;
use base::sync::Mutex;
use base::{SeededRandom, SimDisk};
use kv::Engine;
use kv::conformance::{Harness, Probe, assert_ready_at_once};
use kv_local::{Local, Options};
use std::sync::Arc;
use tempfile::TempDir;

#[derive(Default)]
struct OnDirectory {
    dirs: Mutex<Vec<TempDir>>,
}

impl OnDirectory {
    fn open(&self) -> Local {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { memory_bytes: 16 << 20, level_scale: 16 };
        let local = Local::open_dir(dir.path(), options).unwrap();
        self.dirs.lock().push(dir);
        local
    }
}

impl Harness for OnDirectory {
    fn fresh(&self) -> Arc<dyn Engine> {
        Arc::new(self.open())
    }

    fn fresh_probed(&self) -> Option<(Arc<dyn Engine>, Probe)> {
        let local = self.open();
        let probed = local.clone();
        Some((Arc::new(local), Box::new(move || probed.stats().snapshots as usize)))
    }
}

struct InPlace;

impl Harness for InPlace {
    fn fresh(&self) -> Arc<dyn Engine> {
        let disk = Arc::new(SimDisk::new());
        Arc::new(Local::open(disk, None, &SeededRandom::new(1), small()).unwrap())
    }
}

mod directory {
    kv::conformance_tests!(super::OnDirectory::default);
}

mod in_place {
    kv::conformance_tests!(|| super::InPlace);
}

#[test]
fn what_is_on_a_local_disk_is_ready_at_once() {
    assert_ready_at_once(OnDirectory::default().fresh());
    assert_ready_at_once(InPlace.fresh());
}
