//! The conformance suite on the engines of this crate.

use base::SimClock;
use kv::conformance::{Harness, Probe, assert_ready_at_once, run_all};
use kv::mem::Mem;
use kv::sim::{Faults, Sim, bounds_like_etcd, bounds_like_foundationdb, bounds_tight};
use kv::{Capabilities, Engine};
use std::sync::Arc;
use std::time::Duration;

struct OnMem;

impl Harness for OnMem {
    fn fresh(&self) -> Arc<dyn Engine> {
        Arc::new(Mem::new())
    }

    fn fresh_probed(&self) -> Option<(Arc<dyn Engine>, Probe)> {
        let mem = Mem::new();
        let probed = mem.clone();
        let held = move || {
            let (snapshots, commits) = probed.held();
            snapshots + commits
        };
        Some((Arc::new(mem), Box::new(held)))
    }
}

/// The reference engine behind the injector, with other bounds and no faults.
struct Bounded {
    clock: SimClock,
    bounds: fn(&Capabilities) -> Capabilities,
}

fn bounded(bounds: fn(&Capabilities) -> Capabilities) -> Bounded {
    Bounded { clock: SimClock::new(), bounds }
}

impl Harness for Bounded {
    fn fresh(&self) -> Arc<dyn Engine> {
        let mem = Mem::new();
        let bounds = (self.bounds)(mem.capabilities());
        let clock = self.clock.clone();
        Arc::new(Sim::with_bounds(Arc::new(mem), clock, 1, Faults::NONE, bounds))
    }

    fn wait(&self, duration: Duration) {
        self.clock.advance(duration);
    }
}

mod mem {
    kv::conformance_tests!(|| super::OnMem);
}

mod slow {
    kv::conformance_tests!(|| crate::slow::OnSlow);
}

#[test]
fn the_injector_without_faults_is_the_engine_itself() {
    run_all(&bounded(Clone::clone));
}

mod sim_like_foundationdb {
    kv::conformance_tests!(|| super::bounded(super::bounds_like_foundationdb));
}

mod sim_like_etcd {
    kv::conformance_tests!(|| super::bounded(super::bounds_like_etcd));
}

mod sim_tight {
    kv::conformance_tests!(|| super::bounded(super::bounds_tight));
}

#[test]
fn what_is_in_memory_is_ready_at_once() {
    assert_ready_at_once(Arc::new(Mem::new()));
    assert_ready_at_once(bounded(bounds_tight).fresh());
}
