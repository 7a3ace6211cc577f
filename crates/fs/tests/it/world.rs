//! Stores, volumes and sessions for tests.

use base::{Clock, Random, SeededRandom, SimClock};
use fs::{FormatOptions, Session, SessionOptions, Sharing, Volume, World};
use kv::mem::Mem;
use kv::sim::{Faults, Sim};
use kv::{Capabilities, Engine, Retry, Store};
use std::sync::Arc;
use std::time::Duration;

/// A store with a clock that stands still, unless it is moved.
pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) clock: SimClock,
    pub(crate) sim: Option<Sim>,
}

impl Bench {
    /// On the reference engine.
    pub(crate) fn mem() -> Self {
        Self::on(Arc::new(Mem::new()), SimClock::new(), None)
    }

    /// On the reference engine with the fault injector around it, calm until told otherwise.
    pub(crate) fn sim(seed: u64, bounds: fn(&Capabilities) -> Capabilities) -> Self {
        let clock = SimClock::new();
        let mem = Mem::new();
        let bounds = bounds(mem.capabilities());
        let sim = Sim::with_bounds(Arc::new(mem), clock.clone(), seed, Faults::NONE, bounds);
        Self::on(Arc::new(sim.clone()), clock, Some(sim))
    }

    pub(crate) fn on(engine: Arc<dyn Engine>, clock: SimClock, sim: Option<Sim>) -> Self {
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(7));
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let store =
            Store::new(engine, Arc::clone(&shared), Arc::clone(&random)).with_retry(Retry {
                attempts_max: 200,
                deadline: Duration::from_secs(3600),
                ..Retry::default()
            });
        Self { world: World { store, clock: shared, random }, clock, sim }
    }

    pub(crate) async fn volume(&self) -> Volume {
        self.volume_with(&FormatOptions { chunk_bytes: 1 << 20, ..FormatOptions::default() }).await
    }

    pub(crate) async fn volume_with(&self, options: &FormatOptions) -> Volume {
        Volume::format(&self.world, "test", options).await.unwrap()
    }
}

pub(crate) fn shared() -> SessionOptions {
    SessionOptions { sharing: Sharing::Shared, ..SessionOptions::default() }
}

pub(crate) async fn private_session(volume: &Volume) -> Session {
    Session::start(volume, SessionOptions::default()).await.unwrap()
}

pub(crate) async fn shared_session(volume: &Volume) -> Session {
    Session::start(volume, shared()).await.unwrap()
}

/// Background work until there is none left.
pub(crate) async fn settle(session: &Session) {
    while !session.maintain().await.unwrap().is_quiet() {}
}

/// Every key of the store, for finding what was left behind.
pub(crate) async fn keys(volume: &Volume) -> Vec<fs::schema::Parsed> {
    let mut txn = volume.world().store.begin().await.unwrap();
    let mut next = Some(kv::Query::new(volume.keys().all()));
    let mut keys = Vec::new();
    while let Some(query) = next {
        let page = txn.range(&query, kv::Read::Snapshot).await.unwrap();
        keys.extend(page.iter().map(|(key, _)| volume.keys().parse(key).expect("a known key")));
        next = if page.more { query.behind(&page) } else { None };
    }
    keys
}
