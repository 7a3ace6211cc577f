//! Sessions: what is open stays, what is dead is buried, and who was buried changes nothing.

use crate::audit::{audit, dump};
use crate::world::*;
use base::{Scheduler, block_on};
use fs::schema::Parsed;
use fs::*;
use std::pin::Pin;
use std::time::Duration;

/// Keys that belong to sessions and not to files.
fn of_sessions(key: &Parsed) -> bool {
    matches!(
        key,
        Parsed::Session { .. }
            | Parsed::Heartbeat { .. }
            | Parsed::Held { .. }
            | Parsed::Op { .. }
            | Parsed::Lease { .. }
            | Parsed::Lock { .. }
    )
}

fn belongs_to(key: &Parsed, id: u64) -> bool {
    matches!(
        key,
        Parsed::Session { session }
            | Parsed::Heartbeat { session }
            | Parsed::Held { session, .. }
            | Parsed::Op { session, .. }
            | Parsed::Lease { session, .. }
            | Parsed::Lock { session, .. } if *session == id
    )
}

async fn of(volume: &Volume, id: u64) -> Vec<Parsed> {
    keys(volume).await.into_iter().filter(|key| belongs_to(key, id)).collect()
}

async fn two() -> (Bench, Volume, Session, Session) {
    let bench = Bench::sim(1, unbounded);
    let volume = bench.volume().await;
    let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
    (bench, volume, a, b)
}

#[test]
fn a_file_that_another_session_unlinks_stays_until_it_is_released() {
    block_on(async {
        for len in [0, 100, 3_000_000] {
            let (_, volume, a, b) = two().await;
            let before = a.usage().await.unwrap();
            let ino = file(&a, ROOT, b"f", &pattern(1, len)).await;
            let handle = a.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            b.setxattr(&root(), ino, b"user.x", b"y", XattrMode::Any).await.unwrap();
            b.unlink(&root(), ROOT, b"f").await.unwrap();
            settle(&b).await;
            assert_eq!(a.getattr(ino).await.unwrap().nlink, 0);
            assert_eq!(a.read(handle, 0, len).await.unwrap(), pattern(1, len));
            a.write(&root(), handle, len as u64, b"more").await.unwrap();
            assert_eq!(a.read(handle, len as u64, 9).await.unwrap(), &b"more"[..]);
            assert_eq!(b.link(&root(), ino, ROOT, b"g").await.unwrap_err().kind(), Kind::NotFound);
            a.release(handle).await.unwrap();
            settle(&a).await;
            assert_eq!(a.usage().await.unwrap(), before);
            assert_eq!(a.getattr(ino).await.unwrap_err().kind(), Kind::NotFound);
            audit(&volume, true).await;
            let left = keys(&volume).await;
            let of_ino = |key: &&Parsed| {
                matches!(key, Parsed::Inode { ino: of } | Parsed::Xattr { ino: of, .. }
                    | Parsed::Garbage { ino: of } | Parsed::Lease { ino: of, .. } if *of == ino)
            };
            assert_eq!(left.iter().find(of_ino), None);
        }
    });
}

#[test]
fn a_file_stays_until_the_last_of_several_sessions_releases_it() {
    for seed in 0..60 {
        println!("seed {seed}");
        block_on(async {
            let bench = Bench::sim(seed, unbounded);
            let volume = bench.volume().await;
            let mut sessions = Vec::new();
            for _ in 0..3 {
                sessions.push(shared_session(&volume).await);
            }
            let ino = file(&sessions[0], ROOT, b"f", &pattern(1, 100_000)).await;
            let mut scheduler = Scheduler::new(seed, bench.clock.clone());
            let mut tasks = Vec::new();
            for session in &sessions {
                let handle = session.open(&root(), ino, OpenFlags::READ).await.unwrap();
                let session = session.clone();
                tasks.push(spawn(&mut scheduler, async move {
                    let bytes = session.read(handle, 0, 100_000).await.unwrap();
                    assert_eq!(bytes, pattern(1, 100_000));
                    session.release(handle).await.unwrap();
                }));
            }
            sessions[0].unlink(&root(), ROOT, b"f").await.unwrap();
            bench.stir();
            scheduler.run().unwrap();
            bench.calm();
            tasks.into_iter().for_each(Out::take);
            // Whoever was the last has collected it: nobody has to look for it later.
            let gone = sessions[1].getattr(ino).await.unwrap_err();
            assert_eq!(gone.kind(), Kind::NotFound);
            settle(&sessions[2]).await;
            audit(&volume, true).await;
            assert_eq!(sessions[2].usage().await.unwrap(), (0, 1));
        });
    }
}

#[test]
fn a_removed_directory_that_is_open_stays_empty_until_it_is_released() {
    block_on(async {
        let (_, volume, a, b) = two().await;
        let ino = dir(&a, b"d").await;
        let handle = a.opendir(&root(), ino).await.unwrap();
        b.rmdir(&root(), ROOT, b"d").await.unwrap();
        settle(&b).await;
        let listed = a.readdir(handle, 0, 10).await.unwrap();
        assert_eq!(
            listed.iter().map(|entry| &entry.name[..]).collect::<Vec<_>>(),
            [b".", &b".."[..]]
        );
        assert_eq!(a.getattr(ino).await.unwrap().nlink, 0);
        for session in [&a, &b] {
            let made = session.mknod(&root(), ino, b"n", mode::FILE, 0).await;
            assert_eq!(made.unwrap_err().kind(), Kind::NotFound);
            let made = session.mkdir(&root(), ino, b"n", 0o755).await;
            assert_eq!(made.unwrap_err().kind(), Kind::NotFound);
        }
        a.releasedir(handle).await.unwrap();
        settle(&a).await;
        assert_eq!(a.getattr(ino).await.unwrap_err().kind(), Kind::NotFound);
        assert_eq!(a.usage().await.unwrap().1, 1);
        audit(&volume, true).await;
    });
}

#[test]
fn a_file_without_a_name_goes_with_its_handle_unless_it_is_linked() {
    block_on(async {
        let bench = Bench::sim(1, unbounded);
        let volume = bench.volume().await;
        for options in [shared(), SessionOptions { sharing: Sharing::Private, ..shared() }] {
            let a = Session::start(&volume, options).await.unwrap();
            let start = a.usage().await.unwrap();
            let flags = OpenFlags::READ_WRITE;
            let (attr, lost) = a.tmpfile(&root(), ROOT, 0o600, flags).await.unwrap();
            assert_eq!((attr.nlink, attr.mode & 0o777), (0, 0o600));
            a.write(&root(), lost, 0, &pattern(1, 100_000)).await.unwrap();
            let (kept, handle) = a.tmpfile(&root(), ROOT, 0o600, flags).await.unwrap();
            a.write(&root(), handle, 0, b"kept").await.unwrap();
            settle(&a).await;
            assert_eq!(a.link(&root(), kept.ino, ROOT, b"kept").await.unwrap().nlink, 1);
            a.release(lost).await.unwrap();
            a.release(handle).await.unwrap();
            settle(&a).await;
            assert_eq!(a.getattr(attr.ino).await.unwrap_err().kind(), Kind::NotFound);
            assert_eq!(contents(&a, kept.ino).await, b"kept");
            audit(&volume, true).await;
            a.unlink(&root(), ROOT, b"kept").await.unwrap();
            settle(&a).await;
            assert_eq!(a.usage().await.unwrap(), start);
            audit(&volume, true).await;
            a.stop().await.unwrap();
        }
    });
}

#[test]
fn a_linked_file_that_had_no_name_can_be_unlinked_while_it_is_open() {
    block_on(async {
        let (_, volume, a, b) = two().await;
        let (attr, handle) = a.tmpfile(&root(), ROOT, 0o600, OpenFlags::READ_WRITE).await.unwrap();
        a.write(&root(), handle, 0, b"kept").await.unwrap();
        a.link(&root(), attr.ino, ROOT, b"n").await.unwrap();
        b.unlink(&root(), ROOT, b"n").await.unwrap();
        settle(&b).await;
        assert_eq!(a.read(handle, 0, 9).await.unwrap(), &b"kept"[..]);
        // It has lost its last name: it gets none again.
        assert_eq!(a.link(&root(), attr.ino, ROOT, b"m").await.unwrap_err().kind(), Kind::NotFound);
        a.release(handle).await.unwrap();
        settle(&a).await;
        assert_eq!(a.usage().await.unwrap(), (0, 1));
        audit(&volume, true).await;
    });
}

type Told = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// What a session has open, for the operations of one that has died.
#[derive(Clone, Copy)]
struct Open {
    ino: Ino,
    handle: Handle,
    dir: Ino,
}

type Operation = fn(Session, Open) -> Told;

/// Every operation that changes something.
const CHANGES: &[(&str, Operation)] = &[
    ("create", |a, _| {
        Box::pin(
            async move { a.create(&root(), ROOT, b"n", 0o644, OpenFlags::READ).await.map(|_| ()) },
        )
    }),
    ("open", |a, open| {
        Box::pin(async move {
            let other = a.lookup(&root(), ROOT, b"other").await?.ino;
            assert_ne!(other, open.ino);
            a.open(&root(), other, OpenFlags::READ).await.map(|_| ())
        })
    }),
    ("opendir", |a, open| Box::pin(async move { a.opendir(&root(), open.dir).await.map(|_| ()) })),
    ("release", |a, open| Box::pin(async move { a.release(open.handle).await })),
    ("mkdir", |a, _| Box::pin(async move { a.mkdir(&root(), ROOT, b"n", 0).await.map(|_| ()) })),
    ("mknod", |a, _| {
        Box::pin(async move { a.mknod(&root(), ROOT, b"n", mode::FIFO, 0).await.map(|_| ()) })
    }),
    ("symlink", |a, _| {
        Box::pin(async move { a.symlink(&root(), ROOT, b"n", b"to").await.map(|_| ()) })
    }),
    ("tmpfile", |a, _| {
        Box::pin(async move { a.tmpfile(&root(), ROOT, 0o600, OpenFlags::READ).await.map(|_| ()) })
    }),
    ("link", |a, open| {
        Box::pin(async move { a.link(&root(), open.ino, ROOT, b"n").await.map(|_| ()) })
    }),
    ("unlink", |a, _| Box::pin(async move { a.unlink(&root(), ROOT, b"other").await })),
    ("rmdir", |a, _| Box::pin(async move { a.rmdir(&root(), ROOT, b"d").await })),
    ("rename", |a, _| {
        Box::pin(
            async move { a.rename(&root(), ROOT, b"f", ROOT, b"g", RenameFlags::default()).await },
        )
    }),
    ("setattr", |a, open| {
        Box::pin(async move {
            let set = SetAttr { mode: Some(0), size: Some(1), ..SetAttr::default() };
            a.setattr(&root(), open.ino, &set, None).await.map(|_| ())
        })
    }),
    ("write", |a, open| {
        Box::pin(async move { a.write(&root(), open.handle, 3, b"xyz").await.map(|_| ()) })
    }),
    ("write in parts", |a, open| {
        Box::pin(async move {
            a.write(&root(), open.handle, 3, &pattern(9, 3_000_000)).await.map(|_| ())
        })
    }),
    ("copy_range", |a, open| {
        Box::pin(async move {
            a.copy_range(&root(), open.handle, 0, open.handle, 500, 10).await.map(|_| ())
        })
    }),
    ("fallocate", |a, open| {
        Box::pin(
            async move { a.fallocate(&root(), open.handle, Fallocate::PunchHole, 0, 100).await },
        )
    }),
    ("setxattr", |a, open| {
        Box::pin(
            async move { a.setxattr(&root(), open.ino, b"user.n", b"v", XattrMode::Any).await },
        )
    }),
    ("removexattr", |a, open| {
        Box::pin(async move { a.removexattr(&root(), open.ino, b"user.x").await })
    }),
    ("setlk", |a, open| {
        Box::pin(async move {
            let lock = Lock { kind: LockKind::Write, start: 0, end: 9, pid: 1 };
            a.setlk(open.handle, 1, lock, true).await
        })
    }),
    ("flock", |a, open| {
        Box::pin(async move { a.flock(open.handle, 1, LockKind::Read, true).await })
    }),
    ("unlock_all", |a, open| Box::pin(async move { a.unlock_all(open.handle, 1).await })),
    ("beat", |a, _| Box::pin(async move { a.beat().await })),
    ("maintain", |a, _| Box::pin(async move { a.maintain().await.map(|_| ()) })),
    ("stop", |a, _| Box::pin(async move { a.stop().await })),
];

#[test]
fn a_session_that_was_buried_and_wakes_up_changes_nothing() {
    for (name, change) in CHANGES {
        println!("{name}");
        let bench = Bench::sim(1, kv::sim::bounds_like_etcd);
        let (volume, a, open) = block_on(async {
            let volume = bench.volume().await;
            let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
            let ino = file(&a, ROOT, b"f", &pattern(1, 1000)).await;
            file(&a, ROOT, b"other", b"other").await;
            let (doomed, kept) =
                a.create(&root(), ROOT, b"doomed", 0o600, OpenFlags::READ_WRITE).await.unwrap();
            a.write(&root(), kept, 0, &pattern(2, 200_000)).await.unwrap();
            a.setxattr(&root(), ino, b"user.x", b"y", XattrMode::Any).await.unwrap();
            let handle = a.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            let lock = Lock { kind: LockKind::Write, start: 5, end: 6, pid: 1 };
            a.setlk(handle, 1, lock, false).await.unwrap();
            a.flock(handle, 1, LockKind::Read, false).await.unwrap();
            let open = Open { ino, handle, dir: dir(&a, b"d").await };
            a.unlink(&root(), ROOT, b"doomed").await.unwrap();
            assert_eq!(b.usage().await.unwrap().1, 5);

            outlive(&bench, &b).await;
            assert_eq!(b.counts().reaped_sessions, 1);
            assert_eq!(of(&volume, a.id()).await, []);
            // What only the dead had open has been collected.
            assert_eq!(b.getattr(doomed.ino).await.unwrap_err().kind(), Kind::NotFound);
            assert_eq!(b.usage().await.unwrap(), (8192, 4));
            audit(&volume, true).await;
            (volume, a, open)
        });
        let before = block_on(dump(&volume));
        assert!(!a.is_ended(), "it does not know yet");
        let told = run(&bench.clock, change(a.clone(), open)).unwrap_err();
        assert_eq!(told.kind(), Kind::Stale, "{told:?}");
        assert!(a.is_ended());
        assert!(block_on(dump(&volume)) == before, "it has changed something");
        // And from now on at once, reading too.
        let told = run(&bench.clock, change(a.clone(), open)).unwrap_err();
        assert_eq!(told.kind(), if *name == "release" { Kind::BadHandle } else { Kind::Stale });
        assert_eq!(block_on(a.getattr(ROOT)).unwrap_err().kind(), Kind::Stale);
        assert!(block_on(dump(&volume)) == before, "it has changed something");
    }
}

#[test]
fn only_the_judges_own_clock_counts() {
    block_on(async {
        let (bench, volume, a, b) = two().await;
        // However long it has been silent: nobody has watched it for that long.
        bench.clock.advance(Duration::from_secs(100_000));
        assert_eq!(b.judge_peers().await.unwrap(), 0);
        bench.clock.advance(Duration::from_secs(59));
        assert_eq!(b.judge_peers().await.unwrap(), 0);
        a.beat().await.unwrap();
        bench.clock.advance(Duration::from_secs(59));
        assert_eq!(b.judge_peers().await.unwrap(), 0);
        bench.clock.advance(Duration::from_secs(59));
        assert_eq!(b.judge_peers().await.unwrap(), 0);
        bench.clock.advance(Duration::from_secs(1));
        assert_eq!(b.judge_peers().await.unwrap(), 1);
        assert_eq!(a.beat().await.unwrap_err().kind(), Kind::Stale);
        settle(&b).await;
        audit(&volume, true).await;
    });
}

#[test]
fn a_slow_session_that_makes_progress_is_never_ended() {
    for seed in 0..20 {
        println!("seed {seed}");
        let bench = Bench::sim(seed, unbounded);
        let (a, b) = block_on(async {
            let volume = bench.volume().await;
            (shared_session(&volume).await, shared_session(&volume).await)
        });
        let mut scheduler = Scheduler::new(seed, bench.clock.clone());
        let clock = bench.world.clock.clone();
        let (slow, judge) = (a.clone(), b.clone());
        let beats = spawn(&mut scheduler, async move {
            for _ in 0..60 {
                slow.beat().await?;
                // Late for its own plan, early enough for others.
                clock.sleep(Duration::from_secs(50)).await;
            }
            Ok::<_, Error>(())
        });
        let clock = bench.world.clock.clone();
        let ended = spawn(&mut scheduler, async move {
            let mut ended = 0;
            for _ in 0..400 {
                ended += judge.maintain().await.unwrap().ended;
                clock.sleep(Duration::from_secs(7)).await;
            }
            ended
        });
        bench.stir();
        scheduler.run().unwrap();
        assert_eq!((beats.take().is_ok(), ended.take()), (true, 0));
        assert!(!a.is_ended());
    }
}

#[test]
fn sessions_that_run_keep_each_other_alive_and_bury_the_dead() {
    for seed in 0..20 {
        println!("seed {seed}");
        let bench = Bench::sim(seed, unbounded);
        let (volume, sessions) = block_on(async {
            let volume = bench.volume().await;
            let mut sessions = Vec::new();
            for _ in 0..3 {
                sessions.push(shared_session(&volume).await);
            }
            (volume, sessions)
        });
        let mut scheduler = Scheduler::new(seed, bench.clock.clone());
        for session in &sessions[..2] {
            let session = session.clone();
            scheduler.spawn(async move { session.run().await });
        }
        let (clock, last) = (bench.world.clock.clone(), sessions.clone());
        scheduler.spawn(async move {
            clock.sleep(Duration::from_secs(1000)).await;
            assert!(!last[0].is_ended() && !last[1].is_ended());
            assert_eq!(last[2].beat().await.unwrap_err().kind(), Kind::Stale);
            last[0].stop().await.unwrap();
            last[1].stop().await.unwrap();
        });
        bench.stir();
        scheduler.run().unwrap();
        bench.calm();
        block_on(async {
            let left = keys(&volume).await;
            let session =
                |key: &&Parsed| matches!(key, Parsed::Session { .. } | Parsed::Heartbeat { .. });
            assert_eq!(left.iter().find(session), None, "a session is left that was stopped");
            let after = shared_session(&volume).await;
            settle(&after).await;
            audit(&volume, true).await;
        });
    }
}

#[test]
fn a_heartbeat_conflicts_with_nothing_that_its_session_does() {
    for seed in 0..100 {
        println!("seed {seed}");
        block_on(async {
            let bench = Bench::sim(seed, unbounded);
            bench.volume().await;
            let volume = Volume::open(&bench.one_try(), "test").await.unwrap();
            let a = shared_session(&volume).await;
            let mut scheduler = Scheduler::new(seed, bench.clock.clone());
            let beating = a.clone();
            let beats = spawn(&mut scheduler, async move {
                for _ in 0..8 {
                    beating.beat().await?;
                }
                Ok::<_, Error>(())
            });
            let working = spawn(&mut scheduler, async move {
                let (attr, handle) =
                    a.create(&root(), ROOT, b"f", 0o644, OpenFlags::READ_WRITE).await?;
                a.write(&root(), handle, 0, b"x").await?;
                let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
                a.setattr(&root(), attr.ino, &set, None).await?;
                a.release(handle).await?;
                a.unlink(&root(), ROOT, b"f").await
            });
            bench.stir();
            scheduler.run().unwrap();
            beats.take().unwrap();
            working.take().unwrap();
        });
    }
}

#[test]
fn a_session_that_watches_itself_ends_as_soon_as_it_is_ended() {
    let bench = Bench::sim(3, unbounded);
    let (a, b) = block_on(async {
        let volume = bench.volume().await;
        (shared_session(&volume).await, shared_session(&volume).await)
    });
    let mut scheduler = Scheduler::new(3, bench.clock.clone());
    let watching = a.clone();
    let clock = bench.world.clock.clone();
    let noticed = spawn(&mut scheduler, async move {
        watching.watch_self().await;
        clock.now()
    });
    let clock = bench.world.clock.clone();
    let ended = spawn(&mut scheduler, async move {
        b.judge_peers().await.unwrap();
        clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(b.judge_peers().await.unwrap(), 1);
        clock.now()
    });
    scheduler.run().unwrap();
    assert_eq!(noticed.take(), ended.take());
    assert!(a.is_ended());
}

#[test]
fn a_session_that_watches_itself_stops_watching_when_it_stops() {
    let bench = Bench::sim(3, unbounded);
    let a = block_on(async { shared_session(&bench.volume().await).await });
    let mut scheduler = Scheduler::new(3, bench.clock.clone());
    let watching = a.clone();
    scheduler.spawn(async move { watching.watch_self().await });
    scheduler.spawn(async move { a.stop().await.unwrap() });
    scheduler.run().unwrap();
}

#[test]
fn a_private_session_buries_what_dead_ones_have_left() {
    block_on(async {
        let bench = Bench::sim(1, unbounded);
        let volume = bench.volume().await;
        for number in 0..40 {
            let dead = shared_session(&volume).await;
            let name = format!("{number}");
            let flags = OpenFlags::READ_WRITE;
            let (_, handle) =
                dead.create(&root(), ROOT, name.as_bytes(), 0o644, flags).await.unwrap();
            dead.write(&root(), handle, 0, &pattern(1, 100)).await.unwrap();
            dead.flock(handle, 1, LockKind::Write, false).await.unwrap();
            if number % 2 == 0 {
                dead.unlink(&root(), ROOT, name.as_bytes()).await.unwrap();
            }
        }
        let private = SessionOptions { sharing: Sharing::Private, ..SessionOptions::default() };
        let session = Session::start(&volume, private).await.unwrap();
        let sessions = |keys: Vec<Parsed>| {
            keys.iter().filter(|key| matches!(key, Parsed::Session { .. })).count()
        };
        assert_eq!(sessions(keys(&volume).await), 1);
        settle(&session).await;
        assert_eq!(session.usage().await.unwrap(), (20 * 4096, 21));
        audit(&volume, true).await;
        let left: Vec<_> = keys(&volume).await.into_iter().filter(of_sessions).collect();
        assert!(left.iter().all(|key| belongs_to(key, session.id())), "{left:?}");
    });
}

#[test]
fn stopping_leaves_no_session_no_lease_and_no_lock() {
    block_on(async {
        let bench = Bench::sim(1, unbounded);
        let volume = bench.volume().await;
        for sharing in [Sharing::Shared, Sharing::Private] {
            let session = Session::start(&volume, SessionOptions { sharing, ..shared() });
            let session = session.await.unwrap();
            for number in 0..50 {
                let name = format!("{sharing:?} {number}");
                let flags = OpenFlags::READ_WRITE;
                let (_, handle) =
                    session.create(&root(), ROOT, name.as_bytes(), 0o644, flags).await.unwrap();
                session.flock(handle, 1, LockKind::Write, false).await.unwrap();
            }
            session.stop().await.unwrap();
            assert!(session.is_ended());
            assert_eq!(session.beat().await.unwrap_err().kind(), Kind::Stale);
            let left: Vec<_> = keys(&volume).await.into_iter().filter(of_sessions).collect();
            assert!(left.iter().all(|key| matches!(key, Parsed::Op { .. })), "{left:?}");
        }
        let last = shared_session(&volume).await;
        settle(&last).await;
        assert_eq!(last.usage().await.unwrap(), (0, 101));
        audit(&volume, true).await;
        let ops =
            |key: &&Parsed| matches!(key, Parsed::Op { session, .. } if *session != last.id());
        assert_eq!(keys(&volume).await.iter().find(ops), None);
    });
}

#[test]
fn stopping_while_the_heart_beats_leaves_no_session() {
    for seed in 0..60 {
        println!("seed {seed}");
        let bench = Bench::sim(seed, unbounded);
        let volume = block_on(bench.volume());
        let session = block_on(shared_session(&volume));
        let mut scheduler = Scheduler::new(seed, bench.clock.clone());
        let beating = session.clone();
        scheduler.spawn(async move { while beating.beat().await.is_ok() {} });
        scheduler.spawn(async move { session.stop().await.unwrap() });
        bench.stir();
        scheduler.run().unwrap();
        bench.calm();
        let left = block_on(keys(&volume));
        let session =
            |key: &&Parsed| matches!(key, Parsed::Session { .. } | Parsed::Heartbeat { .. });
        assert_eq!(left.iter().find(session), None);
    }
}

#[test]
fn a_full_table_of_handles_refuses_and_leaves_no_lease() {
    block_on(async {
        let (_, volume, a, b) = two().await;
        drop(a);
        let a = Session::start(&volume, SessionOptions { handles_max: 2, ..shared() });
        let a = a.await.unwrap();
        let flags = OpenFlags::READ_WRITE;
        let (attr, one) = a.create(&root(), ROOT, b"1", 0o644, flags).await.unwrap();
        let two = a.opendir(&root(), ROOT).await.unwrap();
        let full = |kind| assert_eq!(kind, Kind::TooManyOpen);
        full(a.create(&root(), ROOT, b"2", 0o644, flags).await.unwrap_err().kind());
        full(a.tmpfile(&root(), ROOT, 0o644, flags).await.unwrap_err().kind());
        full(a.open(&root(), attr.ino, flags).await.unwrap_err().kind());
        full(a.opendir(&root(), ROOT).await.unwrap_err().kind());
        a.release(one).await.unwrap();
        a.releasedir(two).await.unwrap();
        let leases = |key: &&Parsed| matches!(key, Parsed::Lease { .. } | Parsed::Held { .. });
        assert_eq!(keys(&volume).await.iter().find(leases), None);
        assert_eq!(a.counts().open_handles, 0);
        settle(&b).await;
        audit(&volume, true).await;
    });
}
