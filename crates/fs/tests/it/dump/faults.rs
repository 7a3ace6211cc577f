//! Engines that fail: what is loaded in the end is right, and what is not in the end is not there.

use super::*;
use crate::audit::audit;
use base::block_on;
use fs::dump::{Source, loading_name};
use kv::sim::{Faults, bounds_like_etcd, bounds_tight};
use std::io;

/// A stream of a volume that takes some transactions on a narrow engine.
async fn stream() -> Vec<u8> {
    let session = little(&Bench::mem()).await;
    file(&session, ROOT, b"large", &pattern(1, 150_000)).await;
    for number in 0..150 {
        file(&session, ROOT, format!("many {number}").as_bytes(), &pattern(2, 40)).await;
    }
    dumped(&session).await
}

/// The volume is whole, and so is the store.
async fn is_whole(world: &World, stream: &[u8]) {
    let volume = Volume::open(world, "new").await.unwrap();
    audit(&volume, true).await;
    let copy = private_session(&volume).await;
    assert!(dumped(&copy).await == *stream);
    assert_eq!(Volume::list(world).await.unwrap(), ["new"]);
}

/// Keys of a store that holds nothing but the volume, and no session.
async fn keys_when_loaded(
    bounds: fn(&kv::Capabilities) -> kv::Capabilities,
    stream: &[u8],
) -> usize {
    let bench = Bench::sim(1, bounds);
    load(&bench.world, "new", &mut &*stream, &NoProgress).await.unwrap();
    all_keys(&bench.world).await
}

#[test]
fn a_commit_that_nobody_is_told_of_counts_once() {
    let stream = block_on(stream());
    let keys = block_on(keys_when_loaded(bounds_tight, &stream));
    for happens in [true, false] {
        for number in 1.. {
            let bench = Bench::sim(1, bounds_tight);
            let (world, probe) = bench.probed();
            probe.unknown(&[(number, happens)]);
            let (through, from) = (world.clone(), stream.clone());
            // The second try waits before it begins.
            run(&bench.clock, async move {
                load(&through, "new", &mut &from[..], &NoProgress).await.unwrap();
            });
            if probe.counts().commits < number {
                assert!(number > 10);
                break;
            }
            assert_eq!(block_on(all_keys(&world)), keys);
            block_on(is_whole(&world, &stream));
        }
    }
}

#[test]
fn a_load_that_was_killed_leaves_no_volume_and_the_next_one_removes_the_rest() {
    block_on(async {
        let stream = stream().await;
        let keys = keys_when_loaded(bounds_tight, &stream).await;
        for commits in 0.. {
            let bench = Bench::sim(1, bounds_tight);
            let (world, probe) = bench.probed();
            probe.cut_after(commits);
            let told = load(&world, "new", &mut &stream[..], &NoProgress).await;
            if told.is_ok() {
                assert!(commits > 10);
                break;
            }
            // Nobody can take it for a volume.
            let there = Volume::open(&bench.world, "new").await.map(drop);
            assert_eq!(there.unwrap_err().kind(), Kind::NotFound);
            if commits > 1 {
                let half = Volume::open(&bench.world, &loading_name("new")).await.map(drop);
                assert_eq!(half.unwrap_err().kind(), Kind::Format);
            }
            load(&bench.world, "new", &mut &stream[..], &NoProgress).await.unwrap();
            assert_eq!(all_keys(&bench.world).await, keys, "after {commits} commits");
            is_whole(&bench.world, &stream).await;
        }
    });
}

#[test]
fn the_removal_of_the_rest_may_be_killed_too() {
    block_on(async {
        let stream = stream().await;
        let keys = keys_when_loaded(bounds_like_etcd, &stream).await;
        for commits in 0.. {
            let bench = Bench::sim(1, bounds_like_etcd);
            let (world, probe) = bench.probed();
            // Almost all of it, without its end.
            let cut = &stream[..stream.len() - 1];
            probe.cut_after(3);
            load(&world, "new", &mut &*cut, &NoProgress).await.unwrap_err();
            probe.cut_after(commits);
            let told = load(&world, "new", &mut &stream[..], &NoProgress).await;
            if told.is_ok() {
                assert!(commits > 4);
                break;
            }
            load(&bench.world, "new", &mut &stream[..], &NoProgress).await.unwrap();
            assert_eq!(all_keys(&bench.world).await, keys, "after {commits} commits");
            is_whole(&bench.world, &stream).await;
        }
    });
}

#[test]
fn faults_of_all_kinds_change_nothing() {
    let stream = block_on(stream());
    for seed in 0..20 {
        println!("seed {seed}");
        let bounds = if seed % 2 == 0 { bounds_tight } else { unbounded };
        let bench = Bench::sim(seed, bounds);
        bench.sim.as_ref().unwrap().set_faults(Faults::ALL);
        let (world, from) = (bench.world.clone(), stream.clone());
        let again = run(&bench.clock, async move {
            load(&world, "new", &mut &from[..], &NoProgress).await.unwrap();
            let session = private_session(&Volume::open(&world, "new").await.unwrap()).await;
            dumped(&session).await
        });
        assert!(again == stream);
        bench.calm();
        block_on(is_whole(&bench.world, &stream));
    }
}

#[test]
fn an_engine_that_is_gone_is_told_of() {
    block_on(async {
        let bench = Bench::sim(1, unbounded);
        let session = little(&bench).await;
        let stream = dumped(&session).await;
        let gone = Faults { unavailable: 1, ..Faults::NONE };
        let world = bench.one_try();
        bench.sim.as_ref().unwrap().set_faults(gone);
        let clock = bench.clock.clone();
        let (told, other) = run(&clock, async move {
            let mut out = Vec::new();
            let told = dump(&session, &mut out, &NoProgress).await;
            (told, load(&world, "new", &mut &stream[..], &NoProgress).await)
        });
        assert_eq!(told.unwrap_err().kind(), Kind::Io);
        assert_eq!(other.unwrap_err().kind(), Kind::Io);
    });
}

/// Gives a few bytes each time, and does something before one of them.
struct Midway<'a> {
    from: &'a [u8],
    calls: usize,
    at: usize,
    what: Box<dyn FnMut() + Send + 'a>,
}

impl Source for Midway<'_> {
    fn get(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.calls == self.at {
            (self.what)();
        }
        self.calls += 1;
        let count = into.len().min(400);
        io::Read::read(&mut self.from, &mut into[..count])
    }
}

#[test]
fn of_two_loads_of_one_name_the_later_one_is_whole() {
    block_on(async {
        let stream = stream().await;
        let (calls, keys) = (stream.len() / 400, keys_when_loaded(bounds_tight, &stream).await);
        for at in (0..=calls + 1).step_by(11).chain([calls + 1]) {
            for ends in [true, false] {
                println!("at call {at}, {ends}");
                let bench = Bench::sim(1, bounds_tight);
                let len = if ends { stream.len() } else { stream.len() - 1 };
                let (world, second) = (&bench.world, &stream[..len]);
                let what = Box::new(move || {
                    let told = block_on(load(world, "new", &mut &*second, &NoProgress));
                    assert_eq!(told.is_ok(), ends);
                });
                let mut first = Midway { from: &stream, calls: 0, at, what };
                let told = load(world, "new", &mut first, &NoProgress).await;
                // At the first call the other one comes and goes before this one has begun.
                let before = at == 0 && !ends;
                assert_eq!(told.is_ok(), before, "{told:?}");
                drop(first);
                if ends || before {
                    assert_eq!(all_keys(world).await, keys);
                    is_whole(world, &stream).await;
                } else {
                    assert_eq!(all_keys(world).await, 0);
                }
            }
        }
    });
}

/// More keys than one transaction removes.
async fn long_stream() -> Vec<u8> {
    let session = private_session(&Bench::mem().volume().await).await;
    for number in 0..600 {
        file(&session, ROOT, format!("{number}").as_bytes(), b"x").await;
    }
    dumped(&session).await
}

#[test]
fn a_load_does_not_end_after_another_one_began_to_remove_it() {
    block_on(async {
        let stream = long_stream().await;
        let calls = stream.len() / 400;
        for at in [calls / 2, calls, calls + 1] {
            for commits in 1..6 {
                println!("at call {at}, {commits} commits");
                let bench = Bench::mem();
                let (world, probe) = bench.probed();
                let from = &stream;
                let what = Box::new(move || {
                    probe.cut_after(commits);
                    block_on(load(&world, "new", &mut &from[..], &NoProgress)).unwrap_err();
                });
                let mut first = Midway { from, calls: 0, at, what };
                let told = load(&bench.world, "new", &mut first, &NoProgress).await;
                assert_eq!(told.unwrap_err().kind(), Kind::Stale);
                load(&bench.world, "new", &mut &stream[..], &NoProgress).await.unwrap();
                is_whole(&bench.world, &stream).await;
            }
        }
    });
}

#[test]
fn of_two_loads_at_once_one_is_whole() {
    let stream = block_on(stream());
    for seed in 0..60 {
        println!("seed {seed}");
        let bench = Bench::sim(seed, bounds_tight);
        let mut scheduler = base::Scheduler::new(seed, bench.clock.clone());
        let task = |wait: u64| {
            let (world, from, clock) = (bench.world.clone(), stream.clone(), bench.clock.clone());
            async move {
                base::Clock::sleep(&clock, Duration::from_millis(wait)).await;
                load(&world, "new", &mut &from[..], &NoProgress).await
            }
        };
        let one = spawn(&mut scheduler, task(0));
        let other = spawn(&mut scheduler, task(seed * 2));
        bench.stir();
        scheduler.run().unwrap();
        bench.calm();
        let told = [one.take(), other.take()];
        assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 1, "{told:?}");
        block_on(is_whole(&bench.world, &stream));
    }
}
