//! The short way of a change: random operations on the embedded engine, which can be looked at, asked as a mount asks
//! and compared with the reference model, with and without a home, left alone and jostled by other commits.
//! `SEAMOUNT_SEEDS=from..to` says which seeds.

use crate::audit::audit;
use crate::world::{Kernel, format, run};
use base::exec::yield_now;
use base::{Clock, Random, SeededRandom, SimClock, SimDisk, SystemThreads};
use fs::model::mounted::{Way, Ways};
use fs::model::{Jostled, Mix, Mounted, compare, race};
use fs::{
    Atime, Caller, Check, FormatOptions, NoProgress, OpenFlags, ROOT, Session, SessionOptions,
    Sharing, Volume, World,
};
use home::SimHome;
use std::sync::Arc;

/// What is done the short way, of what random operations do.
const SHORT: [&str; 10] = [
    "Create", "Link", "Lookup", "Mkdir", "Rename", "Rmdir", "SetAttr", "Symlink", "Unlink", "Write",
];

pub(crate) type Seeds = std::ops::Range<u64>;
pub(crate) const SEEDS: Seeds = 0..200;
/// Races are short, and what is to be met is rare.
const RACES: Seeds = 0..1500;
const THREADED: Seeds = 0..100;

/// These, unless others are named: the second says so, and then nothing is counted.
pub(crate) fn seeds(usual: Seeds) -> (Seeds, bool) {
    let given = std::env::var("SEAMOUNT_SEEDS").ok();
    let range = given.as_deref().and_then(|seeds| seeds.split_once(".."));
    let named = range.map(|(from, to)| from.parse().unwrap()..to.parse().unwrap());
    (named.clone().unwrap_or(usual), named.is_some())
}

pub(crate) struct Bench {
    pub(crate) clock: SimClock,
    pub(crate) crowd: Jostled,
    pub(crate) volume: Volume,
    pub(crate) session: Session,
}

/// A private session on the embedded engine, with nothing between but a crowd that is not there yet.
pub(crate) fn bench(random: &SeededRandom) -> Bench {
    // Layers so small that a run folds and merges.
    let memory_bytes = 40_000 + random.below(400_000) as usize;
    let engine = kv_local::Options { memory_bytes, level_scale: 1 << 14 };
    let disk = Arc::new(SimDisk::new());
    bench_on(kv_local::Local::open(disk, None, &SeededRandom::new(1), engine).unwrap(), random)
}

fn bench_on(local: kv_local::Local, random: &SeededRandom) -> Bench {
    let clock = SimClock::new();
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let numbers: Arc<dyn Random> = Arc::new(random.fork());
    let crowd = Jostled::new(Arc::new(local), random.next_u64());
    let store = kv::Store::new(Arc::new(crowd.clone()), Arc::clone(&shared), Arc::clone(&numbers));
    let home: Option<Arc<dyn home::Home>> = random.one_in(2).then(|| {
        let home = SimHome::new(Arc::new(SimDisk::new()), Arc::clone(&shared), 1);
        Arc::new(home.with_descriptors().unwrap()) as Arc<dyn home::Home>
    });
    let world = World { store, clock: shared, random: numbers, home };
    let inline_bytes_max = [None, Some(512), Some(4096), Some(0)][random.below(4) as usize];
    let format = FormatOptions { inline_bytes_max, ..format() };
    let options = SessionOptions {
        sharing: Sharing::Private,
        atime: [Atime::Strict, Atime::Relative, Atime::Off][random.below(3) as usize],
        survives: random.one_in(3),
        ..SessionOptions::default()
    };
    let (volume, session) = run(&clock, async move {
        let volume = Volume::format(&world, "test", &format).await.unwrap();
        let session = Session::start(&volume, options).await.unwrap();
        session.set_registrar(Some(Arc::new(Kernel::default())));
        session.settle(false).await.unwrap();
        (volume, session)
    });
    Bench { clock, crowd, volume, session }
}

async fn sound(volume: Volume) {
    audit(&volume, false).await;
    let report = Check::new(&volume).deep(true).run(&NoProgress).await.unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// One seed; which ways it went, and how often somebody came between.
fn compared(seed: u64, one_in: u64) -> Result<(Ways, u64), String> {
    let random = SeededRandom::new(seed);
    let bench = bench(&random);
    let mounted = Mounted::new(bench.session);
    let steps = 40 + random.below(150) as usize;
    let plan = compare::Plan::of(mounted.session(), steps, Mix::draw(&random)).mounted();
    bench.crowd.jostle(one_in);
    let (told, outcome) = compare::simulate(&mounted, &bench.clock, random.next_u64(), &plan);
    bench.crowd.jostle(0);
    if let Err(error) = outcome {
        let tail: Vec<&str> = told.lines().rev().take(25).collect();
        for line in tail.iter().rev() {
            println!("{}", line.chars().take(300).collect::<String>());
        }
        return Err(error);
    }
    run(&bench.clock, sound(bench.volume));
    Ok((mounted.ways(), bench.crowd.lost()))
}

/// All seeds. `least` is how often each kind that has a short way must have gone it, and how often it must not.
fn all_compared(one_in: impl Fn(u64) -> u64, least: Way) -> u64 {
    let (mut ways, mut lost, mut failed) = (Ways::new(), 0, Vec::new());
    let (seeds, named) = seeds(SEEDS);
    for seed in seeds.clone() {
        match compared(seed, one_in(seed)) {
            Ok((more, times)) => {
                lost += times;
                for (name, Way { short, long }) in more {
                    let way = ways.entry(name).or_default();
                    (way.short, way.long) = (way.short + short, way.long + long);
                }
            }
            Err(error) => {
                println!("seed {seed}: {error}");
                failed.push(seed);
            }
        }
    }
    for (name, Way { short, long }) in ways.iter().filter(|(_, way)| way.short > 0) {
        println!("{name}: {short} the short way, {long} by a transaction");
    }
    println!("seeds {seeds:?}: {lost} tries that were not alone");
    assert!(failed.is_empty(), "seeds {failed:?}");
    // A proof of what was never done is none.
    for name in SHORT {
        let way = ways.get(name).copied().unwrap_or_default();
        let enough = way.short >= least.short && way.long >= least.long;
        assert!(enough || named, "{name}: {way:?}");
    }
    lost
}

#[test]
fn random_operations_the_short_way_answer_as_the_model_does() {
    let lost = all_compared(|_| 0, Way { short: 40, long: 10 });
    assert_eq!(lost, 0);
}

#[test]
fn random_operations_that_are_jostled_answer_as_the_model_does() {
    let lost = all_compared(|seed| [8, 25, 70][(seed % 3) as usize], Way { short: 20, long: 50 });
    assert!(lost >= 50 || seeds(SEEDS).1, "{lost}");
}

/// The set-group bit of a file that its group may not run goes too, when the writer is not of the group.
#[test]
fn a_write_takes_the_bits_that_a_transaction_takes() {
    let mut short = 0;
    for (mode, left) in [(0o4600, 0o600), (0o2710, 0o710), (0o2600, 0o600), (0o600, 0o600)] {
        for seed in 0..8 {
            let Bench { clock, session, .. } = bench(&SeededRandom::new(seed));
            let (attr, changes) = run(&clock, async move {
                let (root, writer) = (Caller::root(), Caller::user(1001, 1001));
                let writer = Caller { checked_here: false, ..writer };
                let flags = OpenFlags::READ_WRITE;
                let made = session.create(&root, ROOT, b"file", mode, flags).await;
                let (attr, handle) = made.unwrap();
                let before = session.counts().short_changes;
                session.write(&writer, handle, 0, b"bytes").await.unwrap();
                let changes = session.counts().short_changes - before;
                (session.getattr(attr.ino).await.unwrap(), changes)
            });
            assert_eq!(attr.mode & 0o7777, left, "{mode:o}");
            assert!(changes == 0 || mode == left, "{mode:o} cannot go the short way");
            short += changes;
        }
    }
    assert!(short > 0, "what has no bits goes it");
}

/// What a session does by itself while others race: files without a name come and go, so that there are jobs and
/// garbage, and all that the background does is done.
async fn beside(session: Session) {
    let root = Caller::root();
    for round in 0..4_usize {
        let made = session.tmpfile(&root, ROOT, 0o600, OpenFlags::READ_WRITE).await;
        let (_, handle) = made.unwrap();
        session.write(&root, handle, 0, &vec![7; 1 + round * 40_000]).await.unwrap();
        yield_now().await;
        session.release(handle).await.unwrap();
        session.settle(round % 2 == 0).await.unwrap();
        yield_now().await;
        session.maintain().await.unwrap();
    }
}

#[test]
fn races_of_the_short_way_have_a_serial_order() {
    let (mut short, mut lost, mut failed) = (0, 0, Vec::new());
    let (seeds, named) = seeds(RACES);
    for seed in seeds.clone() {
        let random = SeededRandom::new(seed);
        let bench = bench(&random);
        let many = 2 + random.below(2) as usize;
        let sessions = vec![Mounted::new(bench.session.clone()); many];
        let plan = race::Plan::draw(&random);
        let one_in = 2 + random.below(30);
        let task = Box::pin(beside(bench.session.clone()));
        let (told, outcome) = race::run_jostled(
            &sessions,
            &bench.clock,
            random.next_u64(),
            &plan,
            &bench.crowd,
            one_in,
            task,
        );
        if let Err(error) = outcome {
            println!("{told}seed {seed}: {error}");
            failed.push(seed);
            continue;
        }
        run(&bench.clock, sound(bench.volume));
        (short, lost) = (short + bench.session.counts().short_changes, lost + bench.crowd.lost());
    }
    println!("seeds {seeds:?}: {short} changes the short way, {lost} tries that were not alone");
    assert!(failed.is_empty(), "seeds {failed:?}");
    assert!(short >= 1000 && lost >= 200 || named, "{short}, {lost}");
}

/// On a directory of the host, with the engine's own threads.
#[test]
fn races_on_threads_have_a_serial_order() {
    let (mut short, mut failed) = (0, Vec::new());
    let (seeds, named) = seeds(THREADED);
    for seed in seeds.clone() {
        let random = SeededRandom::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let options = kv_local::Options { memory_bytes: 1 << 20, level_scale: 1 << 14 };
        let bench = bench_on(kv_local::Local::open_dir(dir.path(), options).unwrap(), &random);
        let sessions = vec![Mounted::new(bench.session.clone()); 3];
        let plan = race::Plan { ops: 6, names: 3 };
        let race_of = random.next_u64();
        let (told, outcome) =
            race::run_on_threads(&sessions, &bench.clock, race_of, &plan, &SystemThreads);
        if let Err(error) = outcome {
            println!("{told}seed {seed}: {error}");
            failed.push(seed);
            continue;
        }
        run(&bench.clock, sound(bench.volume));
        short += bench.session.counts().short_changes;
    }
    println!("seeds {seeds:?}: {short} changes the short way");
    assert!(failed.is_empty(), "seeds {failed:?}");
    assert!(short >= 50 || named, "{short}");
}
