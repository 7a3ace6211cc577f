//! Locks: ranges, whole files, waiting, and who frees them.

use crate::audit::audit;
use crate::world::*;
use base::{Scheduler, block_on};
use fs::schema::Parsed;
use fs::*;
use std::time::Duration;

fn lock(kind: LockKind, start: u64, end: u64) -> Lock {
    Lock { kind, start, end, pid: 42 }
}

fn read(start: u64, end: u64) -> Lock {
    lock(LockKind::Read, start, end)
}

fn write(start: u64, end: u64) -> Lock {
    lock(LockKind::Write, start, end)
}

fn unlock(start: u64, end: u64) -> Lock {
    lock(LockKind::Unlock, start, end)
}

const ALL: u64 = u64::MAX;

struct Desk {
    bench: Bench,
    volume: Volume,
    a: Session,
    b: Session,
    at_a: Handle,
    at_b: Handle,
    ino: Ino,
}

async fn desk(seed: u64) -> Desk {
    let bench = Bench::sim(seed, unbounded);
    let volume = bench.volume().await;
    let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
    let ino = file(&a, ROOT, b"f", b"x").await;
    let at_a = a.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
    let at_b = b.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
    Desk { bench, volume, a, b, at_a, at_b, ino }
}

impl Desk {
    /// What of the first hundred bytes another owner could lock, for reading and for writing.
    async fn free(&self, owner: u64) -> (Vec<u64>, Vec<u64>) {
        let mut free = (Vec::new(), Vec::new());
        for at in (0..100).step_by(10) {
            if self.b.getlk(self.at_b, owner, read(at, at + 10)).await.unwrap().is_none() {
                free.0.push(at);
            }
            if self.b.getlk(self.at_b, owner, write(at, at + 10)).await.unwrap().is_none() {
                free.1.push(at);
            }
        }
        free
    }

    async fn locks(&self) -> usize {
        keys(&self.volume).await.iter().filter(|key| matches!(key, Parsed::Lock { .. })).count()
    }
}

fn tens(ranges: &[(u64, u64)]) -> Vec<u64> {
    ranges.iter().flat_map(|&(start, end)| (start..end).step_by(10)).collect()
}

#[test]
fn ranges_are_split_joined_upgraded_and_freed() {
    block_on(async {
        let desk = desk(1).await;
        let a = &desk.a;
        let set = |lock| a.setlk(desk.at_a, 1, lock, false);
        set(write(20, 80)).await.unwrap();
        let outside = tens(&[(0, 20), (80, 100)]);
        assert_eq!(desk.free(1).await, (outside.clone(), outside.clone()));
        // Its middle becomes shared, then free.
        set(read(40, 60)).await.unwrap();
        let readable = tens(&[(0, 20), (40, 60), (80, 100)]);
        assert_eq!(desk.free(1).await, (readable.clone(), outside.clone()));
        set(unlock(40, 50)).await.unwrap();
        let writable = tens(&[(0, 20), (40, 50), (80, 100)]);
        assert_eq!(desk.free(1).await, (readable, writable));
        // Over all of it, to no end.
        set(read(0, ALL)).await.unwrap();
        assert_eq!(desk.free(1).await, (tens(&[(0, 100)]), vec![]));
        let found = desk.b.getlk(desk.at_b, 1, write(1 << 40, ALL)).await.unwrap();
        assert_eq!(found, Some(read(0, ALL)));
        set(unlock(0, ALL)).await.unwrap();
        assert_eq!(desk.free(1).await.1.len(), 10);
        assert_eq!(desk.locks().await, 0);
        for bad in [write(5, 5), write(6, 5)] {
            assert_eq!(set(bad).await.unwrap_err().kind(), Kind::Invalid);
        }
    });
}

#[test]
fn shared_locks_go_together_and_exclusive_ones_do_not() {
    block_on(async {
        let desk = desk(1).await;
        let (a, b) = (&desk.a, &desk.b);
        a.setlk(desk.at_a, 1, read(0, 50), false).await.unwrap();
        b.setlk(desk.at_b, 1, read(0, 50), false).await.unwrap();
        // Neither can make it its own while the other has it.
        let refused = a.setlk(desk.at_a, 1, write(10, 20), false).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::WouldBlock);
        let found = a.getlk(desk.at_a, 1, write(10, 20)).await.unwrap();
        assert_eq!(found, Some(read(0, 50)), "what is in the way is told");
        b.setlk(desk.at_b, 1, unlock(0, 30), false).await.unwrap();
        a.setlk(desk.at_a, 1, write(10, 20), false).await.unwrap();
        // Owners of one session are as foreign to each other.
        let other = a.setlk(desk.at_a, 2, read(10, 20), false).await.unwrap_err();
        assert_eq!(other.kind(), Kind::WouldBlock);
        a.setlk(desk.at_a, 1, read(10, 20), false).await.unwrap();
        a.setlk(desk.at_a, 2, read(10, 20), false).await.unwrap();
        // Ranges that touch do not meet.
        b.setlk(desk.at_b, 7, write(50, 60), false).await.unwrap();
        a.setlk(desk.at_a, 7, write(60, 70), false).await.unwrap();
    });
}

#[test]
fn a_lock_needs_a_handle_that_is_open_for_it() {
    block_on(async {
        let desk = desk(1).await;
        let (a, ino) = (&desk.a, desk.ino);
        let reader = a.open(&root(), ino, OpenFlags::READ).await.unwrap();
        let writer = OpenFlags { read: false, ..OpenFlags::READ_WRITE };
        let writer = a.open(&root(), ino, writer).await.unwrap();
        let kind = |result: Result<()>| result.err().map(|error| error.kind());
        assert_eq!(kind(a.setlk(reader, 1, write(0, 1), false).await), Some(Kind::BadHandle));
        assert_eq!(kind(a.setlk(writer, 1, read(0, 1), false).await), Some(Kind::BadHandle));
        assert_eq!(kind(a.setlk(reader, 1, read(0, 1), false).await), None);
        assert_eq!(kind(a.setlk(writer, 1, write(0, 1), false).await), None);
        // flock asks for no mode.
        assert_eq!(kind(a.flock(reader, 1, LockKind::Write, false).await), None);
    });
}

#[test]
fn locks_of_files_and_of_ranges_know_nothing_of_each_other() {
    block_on(async {
        let desk = desk(1).await;
        let (a, b) = (&desk.a, &desk.b);
        a.flock(desk.at_a, 1, LockKind::Write, false).await.unwrap();
        b.setlk(desk.at_b, 1, write(0, ALL), false).await.unwrap();
        assert_eq!(
            a.getlk(desk.at_a, 9, write(0, 1)).await.unwrap().unwrap().kind,
            LockKind::Write
        );
        let refused = b.flock(desk.at_b, 2, LockKind::Read, false).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::WouldBlock);
        // Freeing the ranges frees no file, and the other way round.
        a.unlock_all(desk.at_a, 1).await.unwrap();
        assert!(b.flock(desk.at_b, 2, LockKind::Read, false).await.is_err());
        b.flock(desk.at_b, 1, LockKind::Unlock, false).await.unwrap();
        assert!(a.setlk(desk.at_a, 2, read(0, 1), false).await.is_err());
        // A file lock changes its kind in place.
        a.flock(desk.at_a, 1, LockKind::Read, false).await.unwrap();
        b.flock(desk.at_b, 2, LockKind::Read, false).await.unwrap();
        assert!(a.flock(desk.at_a, 1, LockKind::Write, false).await.is_err());
        b.flock(desk.at_b, 2, LockKind::Unlock, false).await.unwrap();
        a.flock(desk.at_a, 1, LockKind::Write, false).await.unwrap();
    });
}

#[test]
fn unlock_all_frees_one_owner_only() {
    block_on(async {
        let desk = desk(1).await;
        let a = &desk.a;
        for at in [0, 20, 40] {
            a.setlk(desk.at_a, 1, write(at, at + 10), false).await.unwrap();
            a.setlk(desk.at_a, 2, write(at + 10, at + 20), false).await.unwrap();
        }
        a.unlock_all(desk.at_a, 1).await.unwrap();
        assert_eq!(desk.free(1).await.1, tens(&[(0, 10), (20, 30), (40, 50), (60, 100)]));
        assert_eq!(desk.locks().await, 1);
    });
}

/// Lets B wait for a lock of A, while `free` is done to A. Returns when B got it.
fn waits_until(
    seed: u64,
    file_lock: bool,
    free: fn(Desk) -> std::pin::Pin<Box<dyn Future<Output = Desk> + Send>>,
) -> (Desk, Duration) {
    println!("seed {seed}");
    let desk = block_on(async {
        let desk = desk(seed).await;
        if file_lock {
            desk.a.flock(desk.at_a, 1, LockKind::Write, false).await.unwrap();
        } else {
            desk.a.setlk(desk.at_a, 1, write(0, 100), false).await.unwrap();
        }
        desk
    });
    let mut scheduler = Scheduler::new(seed, desk.bench.clock.clone());
    let (b, at_b, clock) = (desk.b.clone(), desk.at_b, desk.bench.world.clock.clone());
    let granted = spawn(&mut scheduler, async move {
        match file_lock {
            true => b.flock(at_b, 1, LockKind::Read, true).await.unwrap(),
            false => b.setlk(at_b, 1, read(50, 60), true).await.unwrap(),
        }
        clock.now()
    });
    if seed % 2 == 1 {
        desk.bench.stir();
    }
    let clock = desk.bench.world.clock.clone();
    let freed = spawn(&mut scheduler, async move {
        clock.sleep(Duration::from_secs(5)).await;
        free(desk).await
    });
    scheduler.run().unwrap();
    let desk = freed.take();
    desk.bench.calm();
    let granted = granted.take();
    assert!(granted >= Duration::from_secs(5));
    // Now it is B's.
    let again = block_on(async {
        let at_a = desk.a.open(&root(), desk.ino, OpenFlags::READ_WRITE).await.ok()?;
        Some(match file_lock {
            true => desk.a.flock(at_a, 9, LockKind::Write, false).await,
            false => desk.a.setlk(at_a, 9, write(55, 56), false).await,
        })
    });
    if let Some(again) = again {
        let kind = again.unwrap_err().kind();
        assert!(matches!(kind, Kind::WouldBlock | Kind::Stale), "{kind:?}");
    }
    (desk, granted)
}

#[test]
fn who_waits_gets_the_lock_when_it_is_freed() {
    for seed in 0..20 {
        let (_, granted) = waits_until(seed, seed % 3 == 0, |desk| {
            Box::pin(async move {
                desk.a.flock(desk.at_a, 1, LockKind::Unlock, false).await.unwrap();
                desk.a.setlk(desk.at_a, 1, unlock(0, 100), false).await.unwrap();
                desk
            })
        });
        assert!(granted < Duration::from_secs(6), "{granted:?}");
    }
}

#[test]
fn who_waits_gets_the_lock_when_it_is_only_shared_any_more() {
    for seed in 0..20 {
        waits_until(seed, seed % 3 == 0, |desk| {
            Box::pin(async move {
                // Of the two it has one; the other is new, and in nobody's way.
                desk.a.flock(desk.at_a, 1, LockKind::Read, false).await.unwrap();
                desk.a.setlk(desk.at_a, 1, read(0, 100), false).await.unwrap();
                desk
            })
        });
    }
}

#[test]
fn who_waits_gets_the_lock_when_the_last_handle_is_released() {
    for seed in 0..20 {
        let (_, granted) = waits_until(seed, seed % 3 == 0, |desk| {
            Box::pin(async move {
                desk.a.release(desk.at_a).await.unwrap();
                desk
            })
        });
        assert!(granted < Duration::from_secs(6), "{granted:?}");
    }
}

#[test]
fn who_waits_gets_the_lock_when_its_owner_stops() {
    for seed in 0..20 {
        let (_, granted) = waits_until(seed, seed % 3 == 0, |desk| {
            Box::pin(async move {
                desk.a.stop().await.unwrap();
                desk
            })
        });
        assert!(granted < Duration::from_secs(6), "{granted:?}");
    }
}

#[test]
fn who_waits_gets_the_lock_when_its_owner_dies_and_is_buried() {
    for seed in 0..20 {
        let (desk, _) = waits_until(seed, seed % 3 == 0, |desk| {
            Box::pin(async move {
                desk.b.maintain().await.unwrap();
                desk.bench.world.clock.sleep(Duration::from_secs(61)).await;
                assert_eq!(desk.b.maintain().await.unwrap().ended, 1);
                desk
            })
        });
        block_on(async {
            settle(&desk.b).await;
            audit(&desk.volume, true).await;
            assert_eq!(desk.locks().await, 1);
        });
    }
}

#[test]
fn a_lock_of_a_session_that_was_ended_is_in_nobodys_way() {
    block_on(async {
        let desk = desk(1).await;
        desk.a.setlk(desk.at_a, 1, write(0, 100), false).await.unwrap();
        desk.b.judge_peers().await.unwrap();
        desk.bench.clock.advance(Duration::from_secs(61));
        // Ended, and not yet buried.
        assert_eq!(desk.b.judge_peers().await.unwrap(), 1);
        assert_eq!(desk.locks().await, 1);
        assert_eq!(desk.b.getlk(desk.at_b, 1, write(0, 1)).await.unwrap(), None);
        desk.b.setlk(desk.at_b, 1, write(0, 1), false).await.unwrap();
        settle(&desk.b).await;
        assert_eq!(desk.locks().await, 1);
        audit(&desk.volume, true).await;
    });
}

#[test]
fn who_stops_waiting_has_no_lock() {
    let desk = block_on(desk(1));
    block_on(desk.a.setlk(desk.at_a, 1, write(0, 100), false)).unwrap();
    {
        let mut waiting = Box::pin(desk.b.setlk(desk.at_b, 1, write(0, 10), true));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
    }
    block_on(async {
        desk.a.setlk(desk.at_a, 1, unlock(0, 100), false).await.unwrap();
        assert_eq!(desk.locks().await, 0);
        desk.a.setlk(desk.at_a, 1, write(0, 100), false).await.unwrap();
    });
}

#[test]
fn locks_go_with_the_last_handle_of_their_session() {
    block_on(async {
        for sharing in [Sharing::Shared, Sharing::Private] {
            let bench = Bench::sim(1, unbounded);
            let volume = bench.volume().await;
            let a = Session::start(&volume, SessionOptions { sharing, ..shared() }).await.unwrap();
            let ino = file(&a, ROOT, b"f", b"x").await;
            let one = a.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            let two = a.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            for owner in 0..5 {
                a.setlk(one, owner, write(owner * 10, owner * 10 + 5), false).await.unwrap();
            }
            a.flock(two, 9, LockKind::Read, false).await.unwrap();
            let count = async || {
                let found = keys(&volume).await;
                found.iter().filter(|key| matches!(key, Parsed::Lock { .. })).count()
            };
            a.release(one).await.unwrap();
            assert_eq!(count().await, 6);
            a.release(two).await.unwrap();
            assert_eq!(count().await, 0);
            let held = |key: &&Parsed| matches!(key, Parsed::Held { .. } | Parsed::Lease { .. });
            assert_eq!(keys(&volume).await.iter().find(held), None);
        }
    });
}

#[test]
fn a_release_does_not_free_the_lock_of_who_opened_the_file_since() {
    for sharing in [Sharing::Shared, Sharing::Private] {
        for polls in 1.. {
            println!("{sharing:?}, after {polls} steps");
            let bench = Bench::sim(1, unbounded);
            let volume = block_on(bench.volume());
            let (a, first, ino) = block_on(async {
                let a = Session::start(&volume, SessionOptions { sharing, ..shared() });
                let a = a.await.unwrap();
                let ino = file(&a, ROOT, b"f", b"x").await;
                let first = a.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
                a.setlk(first, 1, write(0, 10), false).await.unwrap();
                (a, first, ino)
            });
            let closing = a.clone();
            let mut second = None;
            let closed =
                in_the_midst_of(&bench, polls, async move { closing.release(first).await }, || {
                    second = Some(block_on(async {
                        let handle = a.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
                        a.setlk(handle, 2, write(50, 60), true).await.unwrap();
                        handle
                    }));
                });
            let Some(closed) = closed else { break };
            closed.unwrap();
            let handle = second.unwrap();
            block_on(async {
                let found = a.getlk(handle, 3, write(50, 60)).await.unwrap();
                assert_eq!(found, Some(write(50, 60)));
                a.release(handle).await.unwrap();
                let locks =
                    |key: &&Parsed| matches!(key, Parsed::Lock { .. } | Parsed::Held { .. });
                assert_eq!(keys(&volume).await.iter().find(locks), None);
            });
        }
    }
}

#[test]
fn two_who_want_the_same_range_never_both_have_it() {
    for seed in 0..60 {
        println!("seed {seed}");
        let desk = block_on(desk(seed));
        let inside = std::sync::Arc::new(base::sync::Mutex::new(0));
        let mut scheduler = Scheduler::new(seed, desk.bench.clock.clone());
        let at = [(&desk.a, desk.at_a, 1), (&desk.b, desk.at_b, 1), (&desk.a, desk.at_a, 2)];
        for (session, handle, owner) in at {
            let (session, inside) = (session.clone(), inside.clone());
            let clock = desk.bench.world.clock.clone();
            scheduler.spawn(async move {
                for _ in 0..4 {
                    session.setlk(handle, owner, write(0, 10), true).await.unwrap();
                    {
                        let mut inside = inside.lock();
                        assert_eq!(*inside % 2, 0, "two are inside");
                        *inside += 1;
                    }
                    clock.sleep(Duration::from_millis(3)).await;
                    *inside.lock() += 1;
                    session.setlk(handle, owner, unlock(0, 10), false).await.unwrap();
                }
            });
        }
        desk.bench.stir();
        scheduler.run().unwrap();
        desk.bench.calm();
        assert_eq!(*inside.lock(), 24);
        assert_eq!(block_on(desk.locks()), 0);
    }
}
