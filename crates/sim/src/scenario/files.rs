//! The core: random operations compared with the reference model, and several sessions at once whose
//! answers a serial order must explain.

use super::setup::{Bounds, Setup};
use super::short;
use crate::seeds::Trial;
use base::{Random, Scheduler, SeededRandom, SimClock};
use fs::blob::block::Codec;
use fs::model::{Mix, compare, race};
use fs::{Atime, FormatOptions, Registrar, Session, SessionOptions, Sharing, Volume, World};
use kv::{Engine, Retry, Store};
use std::fmt::Write;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Runs one seed.
pub fn run(seed: u64) -> Trial {
    // Without the fault injector another way is gone.
    if short::is_for(seed) {
        return short::run(seed);
    }
    let random = SeededRandom::new(seed);
    let mut setup = Setup::draw(&random);
    // Values of an extended attribute must fit an engine's value, and the tightest has none of them.
    if setup.bounds == Bounds::Tight {
        setup.bounds = Bounds::Etcd;
    }
    let mut trace = format!("seed {seed}: {setup:?}\n");
    let failure = match random.below(3) {
        0 => raced(&setup, &random.fork(), &mut trace),
        _ => compared(&setup, &random.fork(), &mut trace),
    };
    Trial { trace, failure: failure.err() }
}

fn compared(setup: &Setup, random: &SeededRandom, trace: &mut String) -> Result<(), String> {
    let mut setup = setup.clone();
    // A large file takes thousands of calls in one transaction, and all of them have to succeed
    // within its lifetime.
    if setup.faults.unavailable != 0 {
        setup.faults.unavailable = setup.faults.unavailable.saturating_mul(100);
    }
    setup.faults.delay_max = setup.faults.delay_max.min(Duration::from_millis(1));
    let setup = &setup;
    let clock = SimClock::new();
    let sharing = if random.one_in(2) { Sharing::Shared } else { Sharing::Private };
    let engine = Arc::new(setup.open(&clock, random.next_u64())?);
    let sessions = start(engine, random, &clock, sharing, 1, trace)?;
    let session = sessions.first().ok_or("no session")?;
    let steps = 30 + random.below(120) as usize;
    let plan = compare::Plan::of(session, steps, Mix::draw(random));
    let _ = writeln!(trace, "{plan:?} {sharing:?}");
    let (told, outcome) = compare::simulate(session, &clock, random.next_u64(), &plan);
    trace.push_str(&told);
    outcome
}

fn raced(setup: &Setup, random: &SeededRandom, trace: &mut String) -> Result<(), String> {
    let clock = SimClock::new();
    let count = 2 + random.below(2) as usize;
    let engine = Arc::new(setup.open(&clock, random.next_u64())?);
    let sessions = start(engine, random, &clock, Sharing::Shared, count, trace)?;
    let plan = race::Plan::draw(random);
    let _ = writeln!(trace, "{plan:?} {count} sessions");
    let (told, outcome) = race::run(&sessions, &clock, random.next_u64(), &plan);
    trace.push_str(&told);
    outcome
}

/// A new volume on a new engine, and its sessions.
pub(super) fn start(
    engine: Arc<dyn Engine>,
    random: &SeededRandom,
    clock: &SimClock,
    sharing: Sharing,
    count: usize,
    trace: &mut String,
) -> Result<Vec<Session>, String> {
    let shared: Arc<SimClock> = Arc::new(clock.clone());
    let numbers: Arc<dyn Random> = Arc::new(random.fork());
    // Faults come so thick that the usual bounds would give up: here every operation has to end.
    let retry =
        Retry { attempts_max: 10_000, deadline: Duration::from_secs(100_000), ..Retry::default() };
    let store = Store::new(engine, shared.clone(), Arc::clone(&numbers)).with_retry(retry);
    // What lends files of a home is a session that has the store for itself.
    let home: Option<Arc<dyn home::Home>> = match sharing == Sharing::Private && random.one_in(2) {
        false => None,
        true => {
            let disk = Arc::new(base::SimDisk::new());
            let home = home::SimHome::new(disk, shared.clone(), 1);
            Some(Arc::new(home.with_descriptors().map_err(|error| error.to_string())?))
        }
    };
    let _ = writeln!(trace, "{} a home", if home.is_some() { "with" } else { "without" });
    let world = World { store, clock: shared, random: numbers, home };
    let format = draw_format(random);
    let options = SessionOptions {
        sharing,
        atime: *pick(random, &[Atime::Strict, Atime::Relative, Atime::Off]),
        // Nobody dies here: a session that waits for others must not be taken for dead.
        dead_after: Duration::from_secs(1_000_000),
        ..SessionOptions::default()
    };
    let _ = writeln!(trace, "{format:?} {:?}", options.atime);
    let made = Arc::new(Mutex::new(Err("it waits for something that never comes".to_owned())));
    let into = Arc::clone(&made);
    let mut scheduler = Scheduler::new(random.next_u64(), clock.clone());
    scheduler.spawn(async move {
        let sessions = make(&world, &format, &options, count).await;
        let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
        *into = sessions.map_err(|error| format!("the volume could not be made: {error:?}"));
    });
    let _ = scheduler.run();
    let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *made, Ok(Vec::new()))
}

async fn make(
    world: &World,
    format: &FormatOptions,
    options: &SessionOptions,
    count: usize,
) -> fs::Result<Vec<Session>> {
    let volume = Volume::format(world, "sim", format).await?;
    let mut sessions = Vec::new();
    for _ in 0..count {
        let session = Session::start(&volume, options.clone()).await?;
        session.set_registrar(Some(Arc::new(Kernel::default())));
        // Files are ready when the first is made.
        session.settle(false).await?;
        sessions.push(session);
    }
    Ok(sessions)
}

/// Stands in for a kernel that takes every file.
#[derive(Debug, Default)]
struct Kernel(AtomicU32);

impl Registrar for Kernel {
    fn register(&self, _: u64, _: BorrowedFd<'_>) -> Option<u32> {
        Some(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn unregister(&self, _: u64, _: u32) {}
}

fn draw_format(random: &SeededRandom) -> FormatOptions {
    let block_bytes = *pick(random, &[None, None, Some(1024), Some(4096), Some(16_384)]);
    FormatOptions {
        chunk_bytes: 1 << 20,
        block_bytes,
        inline_bytes_max: *pick(random, &[None, None, Some(0), Some(512)]),
        codec: *pick(random, &[Codec::None, Codec::Lz4, Codec::Zstd]),
        parity_group: *pick(random, &[0, 0, 0, 1, 3, 8]),
        ..FormatOptions::default()
    }
}

fn pick<'a, T>(random: &SeededRandom, of: &'a [T]) -> &'a T {
    &of[random.below(of.len() as u64) as usize]
}
