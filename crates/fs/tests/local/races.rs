//! Writers, readers and who removes against settling and lending, on schedules from many seeds.

use crate::world::*;
use base::{Clock, Random, Scheduler, SeededRandom, SimClock, SimDisk};
use fs::*;
use home::SimHome;
use kv::sim::{Faults, Sim};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SEEDS: u64 = 60;
const RECORD: usize = 700;
const RECORDS: usize = 14;

/// A bench on an engine whose calls take their time, so that what runs beside each other overlaps.
pub(crate) fn slow(seed: u64) -> Bench {
    println!("seed {seed}");
    let clock = SimClock::new();
    let disk = SimDisk::new();
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(seed));
    let home = SimHome::new(Arc::new(disk.clone()), Arc::clone(&shared), 1);
    let home = Arc::new(home.with_descriptors().unwrap());
    let mem = kv::mem::Mem::new();
    let bounds = kv::Engine::capabilities(&mem).clone();
    let faults = Faults { delay: 2, delay_max: Duration::from_millis(2), ..Faults::NONE };
    let sim = Sim::with_bounds(Arc::new(mem), clock.clone(), seed, faults, bounds);
    let store = kv::Store::new(Arc::new(sim), Arc::clone(&shared), Arc::clone(&random));
    let store = store.with_retry(kv::Retry {
        attempts_max: 1000,
        deadline: Duration::from_secs(36_000),
        ..kv::Retry::default()
    });
    let world = World { store, clock: shared, random, home: Some(home) };
    let of = world.clone();
    let (volume, session) = run(&clock, async move {
        let volume = Volume::format(&of, "test", &format()).await.unwrap();
        let session = begin(&volume, options()).await;
        (volume, session)
    });
    Bench { clock, disk, world, volume, session }
}

fn record(number: usize) -> Vec<u8> {
    vec![number as u8 + 1; RECORD]
}

/// Settles as long as others work.
pub(crate) async fn tend(bench: Bench, working: Arc<AtomicUsize>) {
    let mut turn = 0;
    while working.load(Ordering::Acquire) > 0 {
        turn += 1;
        bench.session.settle(turn % 3 == 0).await.unwrap();
        if turn % 5 == 0 {
            bench.session.maintain().await.unwrap();
        }
        bench.world.clock.sleep(Duration::from_millis(3)).await;
    }
}

pub(crate) struct Working(Arc<AtomicUsize>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

pub(crate) fn work(counter: &Arc<AtomicUsize>) -> Working {
    counter.fetch_add(1, Ordering::AcqRel);
    Working(Arc::clone(counter))
}

pub(crate) fn spawn(scheduler: &mut Scheduler, task: impl Future<Output = ()> + Send + 'static) {
    scheduler.spawn(task);
}

#[test]
fn what_is_appended_is_there_in_order_whoever_settles() {
    for seed in 0..SEEDS {
        let bench = slow(seed);
        let mut scheduler = Scheduler::new(seed, bench.clock.clone());
        let working = Arc::new(AtomicUsize::new(0));
        for writer in 0..3 {
            let beside = bench.clone();
            let (bench, guard) = (bench.clone(), work(&working));
            spawn(&mut scheduler, async move {
                let _guard = guard;
                let name = format!("log {writer}");
                let flags = OpenFlags { append: true, ..OpenFlags::READ_WRITE };
                let mut ino = 0;
                for number in 0..RECORDS {
                    let name = name.as_bytes();
                    let made = bench.session.create(&root(), ROOT, name, 0o644, flags).await;
                    let (attr, handle) = made.unwrap();
                    ino = attr.ino;
                    let written =
                        bench.session.write(&root(), handle, 0, &record(number)).await.unwrap();
                    assert_eq!(written, RECORD);
                    if number % 4 == 3 {
                        bench.session.fsync(handle).await.unwrap();
                    }
                    bench.session.release(handle).await.unwrap();
                    let size = bench.session.getattr(ino).await.unwrap().size;
                    assert_eq!(size as usize, (number + 1) * RECORD);
                }
                let right: Vec<u8> = (0..RECORDS).flat_map(record).collect();
                assert_eq!(bench.contents(ino).await, right, "{name}");
            });
            // Whoever reads meanwhile sees whole records, in order, and a size that only grows.
            let (bench, guard) = (beside, work(&working));
            spawn(&mut scheduler, async move {
                let _guard = guard;
                let name = format!("log {writer}");
                let mut least = 0;
                for _ in 0..20 {
                    bench.world.clock.sleep(Duration::from_millis(7)).await;
                    let found = bench.session.lookup(&root(), ROOT, name.as_bytes()).await;
                    let Ok(attr) = found else { continue };
                    assert!(attr.size as usize >= least, "{name} got shorter");
                    least = attr.size as usize;
                    let bytes = bench.contents(attr.ino).await;
                    assert!(bytes.len() >= least && bytes.len() % RECORD == 0, "{name}");
                    for (number, piece) in bytes.chunks(RECORD).enumerate() {
                        assert_eq!(piece, record(number), "{name}");
                    }
                    least = bytes.len();
                }
            });
        }
        let (tender, counter) = (bench.clone(), Arc::clone(&working));
        spawn(&mut scheduler, tend(tender, counter));
        scheduler.run().unwrap();
        let end = bench.clone();
        run(&bench.clock, async move {
            end.settle().await;
            end.audit().await;
        });
    }
}

#[test]
fn files_are_made_cut_copied_and_removed_whoever_settles() {
    for seed in 0..SEEDS {
        let bench = slow(seed);
        let mut scheduler = Scheduler::new(seed, bench.clock.clone());
        let working = Arc::new(AtomicUsize::new(0));
        for worker in 0..4_u8 {
            let (bench, guard) = (bench.clone(), work(&working));
            spawn(&mut scheduler, async move {
                let _guard = guard;
                let random = SeededRandom::new(seed * 10 + u64::from(worker));
                let draw = |below: u64| (random.next_u64() % below) as usize;
                for round in 0..25 {
                    // Two names for four workers: they meet.
                    let name = format!("f{}", draw(2));
                    let name = name.as_bytes();
                    let session = &bench.session;
                    let flags = OpenFlags { truncate: draw(2) == 0, ..OpenFlags::READ_WRITE };
                    let made = session.create(&root(), ROOT, name, 0o644, flags).await;
                    let Ok((attr, handle)) = made else { continue };
                    let tag = worker * 40 + round + 1;
                    match draw(6) {
                        0..=2 => {
                            let len = [100, 5000, 12_000][draw(3)];
                            session.write(&root(), handle, 0, &vec![tag; len]).await.unwrap();
                            // One write is whole, whoever writes beside it.
                            let got = session.read(handle, 0, 100).await.unwrap();
                            let first = got.first().copied().unwrap_or(tag);
                            assert!(got.iter().all(|byte| *byte == first), "a torn write");
                        }
                        3 => {
                            let size = Some([0, 50, 6000][draw(3)]);
                            let set = SetAttr { size, ..SetAttr::default() };
                            session.setattr(&root(), attr.ino, &set, None).await.unwrap();
                        }
                        4 => {
                            let what = Fallocate::Allocate { keep_size: false };
                            session.fallocate(&root(), handle, what, 0, 7000).await.unwrap();
                        }
                        _ => session.fsync(handle).await.unwrap(),
                    }
                    if draw(3) == 0 {
                        let _ = session.unlink(&root(), ROOT, name).await;
                    }
                    if draw(4) == 0 {
                        let (from, to) = (name, &b"f1"[..]);
                        let flags = RenameFlags::default();
                        let _ = session.rename(&root(), ROOT, from, ROOT, to, flags).await;
                    }
                    // What is open stays, whatever became of its name.
                    session.getattr(attr.ino).await.unwrap();
                    session.release(handle).await.unwrap();
                }
            });
        }
        let (tender, counter) = (bench.clone(), Arc::clone(&working));
        spawn(&mut scheduler, tend(tender, counter));
        scheduler.run().unwrap();
        let end = bench.clone();
        run(&bench.clock, async move {
            end.audit().await;
            end.session.maintain().await.unwrap();
            end.settle().await;
            end.audit().await;
            assert!(end.backings().await.values().all(|record| record.ino == 0));
        });
    }
}
