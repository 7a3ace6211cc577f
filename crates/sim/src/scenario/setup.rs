//! What a seed decides before anything runs: which engine, with which bounds, which faults.

use base::{Random, SeededRandom, SimClock, SimDisk};
use kv::mem::Mem;
use kv::sim::{Faults, Sim, bounds_like_etcd, bounds_like_foundationdb, bounds_tight};
use kv::{Capabilities, Engine};
use kv_local::{Local, Options};
use std::sync::Arc;
use std::time::Duration;

/// The engines under the fault injector. A further one is a variant here, a place in
/// [`Inner::ALL`], and an arm in `Inner::open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inner {
    /// The reference engine.
    Mem,
    /// The embedded engine on a simulated disk, doing the work of its threads in place. Its layers
    /// are so small that a run folds and merges many times.
    Local,
}

impl Inner {
    /// Those that a seed chooses from.
    pub const ALL: &[Inner] = &[Inner::Mem, Inner::Local];

    /// A new, empty engine. `seed` is for one that has choices of its own.
    pub fn open(self, seed: u64) -> Result<Arc<dyn Engine>, String> {
        match self {
            Inner::Mem => Ok(Arc::new(Mem::new())),
            Inner::Local => {
                let random = SeededRandom::new(seed);
                let options = Options {
                    memory_bytes: 40_000 + random.below(200_000) as usize,
                    level_scale: 1 << 14,
                };
                let local = Local::open(Arc::new(SimDisk::new()), None, &random, options);
                Ok(Arc::new(local.map_err(|error| error.to_string())?))
            }
        }
    }
}

/// Whose bounds the engine is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// Its own.
    Own,
    /// Those of an engine like FoundationDB.
    FoundationDb,
    /// Those of an engine like etcd.
    Etcd,
    /// The tightest of all.
    Tight,
}

impl Bounds {
    const ALL: &[Bounds] = &[Bounds::Own, Bounds::FoundationDb, Bounds::Etcd, Bounds::Tight];

    fn of(self, own: &Capabilities) -> Capabilities {
        match self {
            Bounds::Own => own.clone(),
            Bounds::FoundationDb => bounds_like_foundationdb(own),
            Bounds::Etcd => bounds_like_etcd(own),
            Bounds::Tight => bounds_tight(own),
        }
    }
}

/// What a seed has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The engine.
    pub inner: Inner,
    /// Its bounds.
    pub bounds: Bounds,
    /// What goes wrong, and how often.
    pub faults: Faults,
}

impl Setup {
    /// Draws all choices.
    pub fn draw(random: &SeededRandom) -> Self {
        Self {
            inner: *pick(random, Inner::ALL),
            bounds: *pick(random, Bounds::ALL),
            faults: match random.below(4) {
                0 => Faults::NONE,
                1 => Faults::ALL,
                _ => some_faults(random),
            },
        }
    }

    /// A new, empty engine like this, on `clock`.
    pub fn open(&self, clock: &SimClock, seed: u64) -> Result<Sim, String> {
        let inner = self.inner.open(seed)?;
        let bounds = self.bounds.of(inner.capabilities());
        Ok(Sim::with_bounds(inner, clock.clone(), seed, self.faults, bounds))
    }
}

fn pick<'a, T>(random: &SeededRandom, of: &'a [T]) -> &'a T {
    &of[random.below(of.len() as u64) as usize]
}

/// Each fault is there or not, often or rarely: together they hide what one alone would show.
fn some_faults(random: &SeededRandom) -> Faults {
    let often = || match random.one_in(2) {
        true => 0,
        false => 2 + random.below(60),
    };
    Faults {
        conflict: often(),
        delay: often(),
        delay_max: Duration::from_micros(random.below(200_000)),
        unavailable: often(),
        unknown_committed: often(),
        unknown_lost: often(),
        watch: often(),
    }
}
