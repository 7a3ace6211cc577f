//! Stores, volumes and sessions for tests.

use crate::probe::Probe;
use base::sync::Mutex;
use base::{Clock, Random, Scheduler, SeededRandom, SimClock};
use fs::{Caller, FormatOptions, Handle, Ino, OpenFlags, ROOT};
use fs::{Session, SessionOptions, Sharing, Volume, World};
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
        Self { world: World { store, clock: shared, random, home: None }, clock, sim }
    }

    /// The same store through `engine`, for another process of the same world.
    pub(crate) fn through(&self, engine: Arc<dyn Engine>) -> World {
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(11));
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let store = Store::new(engine, Arc::clone(&clock), random).with_retry(Retry {
            attempts_max: 200,
            deadline: Duration::from_secs(3600),
            ..Retry::default()
        });
        World { store, clock, random: Arc::clone(&self.world.random), home: None }
    }

    /// The same store through a probe.
    pub(crate) fn probed(&self) -> (World, Probe) {
        let probe = Probe::new(Arc::clone(self.world.store.engine()));
        (self.through(Arc::new(probe.clone())), probe)
    }

    /// The same store, where nothing is tried a second time: a conflict is an error.
    pub(crate) fn one_try(&self) -> World {
        let store = self.world.store.clone();
        let store = store.with_retry(Retry { attempts_max: 1, ..Retry::default() });
        World { store, ..self.world.clone() }
    }

    /// Lets calls take their time, so that transactions overlap.
    pub(crate) fn stir(&self) {
        let delay_max = Duration::from_millis(5);
        self.sim.as_ref().unwrap().set_faults(Faults { delay: 2, delay_max, ..Faults::NONE });
    }

    /// No more delays.
    pub(crate) fn calm(&self) {
        self.sim.as_ref().unwrap().set_faults(Faults::NONE);
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

/// What a spawned task returned.
pub(crate) struct Out<T>(Arc<Mutex<Option<T>>>);

impl<T> Out<T> {
    pub(crate) fn take(self) -> T {
        self.0.lock().take().expect("the task is done")
    }
}

/// Adds a task whose result is wanted.
pub(crate) fn spawn<T: Send + 'static>(
    scheduler: &mut Scheduler,
    task: impl Future<Output = T> + Send + 'static,
) -> Out<T> {
    let out = Arc::new(Mutex::new(None));
    let into = Arc::clone(&out);
    scheduler.spawn(async move {
        let value = task.await;
        *into.lock() = Some(value);
    });
    Out(out)
}

/// Runs one future on a clock that moves when nothing else can.
pub(crate) fn run<T: Send + 'static>(
    clock: &SimClock,
    task: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut scheduler = Scheduler::new(0, clock.clone());
    let out = spawn(&mut scheduler, task);
    scheduler.run().unwrap();
    out.take()
}

/// The bounds of the engine itself.
pub(crate) fn unbounded(of: &Capabilities) -> Capabilities {
    of.clone()
}

pub(crate) fn root() -> Caller {
    Caller::root()
}

/// Bytes that differ from place to place and from tag to tag, none of them zero.
pub(crate) fn pattern(tag: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + usize::from(tag) * 57) as u8 | 1).collect()
}

/// A file with these bytes, closed again.
pub(crate) async fn file(session: &Session, parent: Ino, name: &[u8], bytes: &[u8]) -> Ino {
    let made = session.create(&root(), parent, name, 0o644, OpenFlags::READ_WRITE).await;
    let (attr, handle) = made.unwrap();
    write_all(session, handle, 0, bytes).await;
    session.release(handle).await.unwrap();
    attr.ino
}

/// A directory in the root.
pub(crate) async fn dir(session: &Session, name: &[u8]) -> Ino {
    session.mkdir(&root(), ROOT, name, 0o755).await.unwrap().ino
}

pub(crate) async fn write_all(session: &Session, handle: Handle, at: u64, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let written = session.write(&root(), handle, at + done as u64, &bytes[done..]).await;
        done += written.unwrap();
    }
}

/// All bytes of a file.
pub(crate) async fn contents(session: &Session, ino: Ino) -> Vec<u8> {
    let handle = session.open(&root(), ino, OpenFlags::READ).await.unwrap();
    let mut bytes = Vec::new();
    loop {
        let piece = session.read(handle, bytes.len() as u64, 1 << 22).await.unwrap();
        if piece.is_empty() {
            break;
        }
        bytes.extend_from_slice(&piece);
    }
    session.release(handle).await.unwrap();
    bytes
}

/// The names of a directory, without the dots.
pub(crate) async fn names_of(session: &Session, ino: Ino) -> Vec<Vec<u8>> {
    let handle = session.opendir(&root(), ino).await.unwrap();
    let entries = session.readdir(handle, 0, usize::MAX).await.unwrap();
    session.releasedir(handle).await.unwrap();
    entries.into_iter().skip(2).map(|entry| entry.name.to_vec()).collect()
}

/// Lets `judge` see that nobody but itself, of those who do not beat meanwhile, is alive.
pub(crate) async fn outlive(bench: &Bench, judge: &Session) {
    judge.maintain().await.unwrap();
    bench.clock.advance(Duration::from_secs(61));
    judge.maintain().await.unwrap();
    settle(judge).await;
}

/// Does all of `inner` after `outer` was polled so many times, each call to the store being one poll;
/// then the rest of `outer`. `None` when `outer` had come to its end before.
pub(crate) fn in_the_midst_of<T: Send + 'static>(
    bench: &Bench,
    polls: usize,
    outer: impl Future<Output = T> + Send + 'static,
    inner: impl FnOnce(),
) -> Option<T> {
    let mut outer = Box::pin(outer);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let slow = Faults { delay: 1, delay_max: Duration::from_millis(1), ..Faults::NONE };
    bench.sim.as_ref().unwrap().set_faults(slow);
    for _ in 0..polls {
        if outer.as_mut().poll(&mut context).is_ready() {
            bench.calm();
            return None;
        }
        bench.clock.advance_to_next();
    }
    bench.calm();
    inner();
    Some(run(&bench.clock, outer))
}
