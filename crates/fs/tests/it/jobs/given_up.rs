//! Calls that are given up half way.

use super::*;
use std::pin::pin;
use std::task::{Context, Waker};

/// Polls a future so many times, as time goes on, and drops it. True when it came to its end.
fn give_up_after<T>(bench: &Bench, polls: usize, future: impl Future<Output = T>) -> bool {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if future.as_mut().poll(&mut context).is_ready() {
            return true;
        }
        bench.clock.advance_to_next();
    }
    false
}

/// Drops a call at every point where it waits. Then the session goes on, and stops; nothing may be
/// left over that nothing refers to.
fn give_up_everywhere(call: fn(Session, Ino, Handle) -> Work) {
    for sharing in [Sharing::Shared, Sharing::Private] {
        for polls in 0.. {
            println!("{sharing:?}, given up after {polls}");
            let bench = Bench::sim(1, bounds_tight);
            let volume = block_on(bench.volume());
            let options = SessionOptions { sharing, ..shared() };
            let session = block_on(Session::start(&volume, options.clone())).unwrap();
            let (ino, handle) = block_on(async {
                let ino = file(&session, ROOT, b"f", &pattern(1, 1000)).await;
                (ino, session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap())
            });
            let slow = kv::sim::Faults {
                delay: 1,
                delay_max: std::time::Duration::from_millis(1),
                ..kv::sim::Faults::NONE
            };
            bench.sim.as_ref().unwrap().set_faults(slow);
            let done = give_up_after(&bench, polls, call(session.clone(), ino, handle));
            bench.calm();
            block_on(async {
                settle(&session).await;
                // Unless they are live, of which the session cannot know.
                for name in names_of(&session, ROOT).await {
                    session.unlink(&root(), ROOT, &name).await.unwrap();
                }
                let _ = session.release(handle).await;
                session.stop().await.unwrap();
                let next = Session::start(&volume, options).await.unwrap();
                settle(&next).await;
                audit(&volume, true).await;
                assert_eq!(next.usage().await.unwrap(), (0, 1));
            });
            if done {
                break;
            }
        }
    }
}

#[test]
fn a_create_that_is_given_up_leaves_nothing_behind() {
    give_up_everywhere(|session, _, _| {
        Box::pin(async move {
            session.create(&root(), ROOT, b"n", 0o644, OpenFlags::READ).await.map(|_| ())
        })
    });
}

#[test]
fn an_open_that_is_given_up_leaves_nothing_behind() {
    give_up_everywhere(|session, _, _| {
        Box::pin(async move {
            let other = session.mknod(&root(), ROOT, b"n", mode::FILE | 0o644, 0).await?.ino;
            session.open(&root(), other, OpenFlags::READ).await.map(|_| ())
        })
    });
}

#[test]
fn a_release_that_is_given_up_leaves_nothing_behind() {
    give_up_everywhere(|session, _, handle| Box::pin(async move { session.release(handle).await }));
}

#[test]
fn a_large_write_that_is_given_up_leaves_nothing_behind() {
    give_up_everywhere(|session, _, handle| {
        Box::pin(async move {
            session.write(&root(), handle, 10, &pattern(3, 400_000)).await.map(|_| ())
        })
    });
}

#[test]
fn the_blocks_of_a_large_write_that_was_given_up_go_while_its_session_lives() {
    for polls in 0.. {
        println!("given up after {polls}");
        let bench = Bench::sim(1, bounds_tight);
        let volume = block_on(bench.volume());
        let session = block_on(shared_session(&volume));
        let handle = block_on(async {
            let ino = file(&session, ROOT, b"f", &pattern(1, 1000)).await;
            session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap()
        });
        bench.stir();
        let bytes = pattern(3, 400_000);
        let done = give_up_after(&bench, polls, session.write(&root(), handle, 10, &bytes));
        bench.calm();
        block_on(async {
            settle(&session).await;
            audit(&volume, true).await;
        });
        if done {
            break;
        }
    }
}

/// Drops a call that holds a file open for a while; then another session removes all names. The file
/// must go although the session lives on.
fn given_up_keeps_nothing(call: fn(Session, Ino, Handle) -> Work) {
    for sharing in [Sharing::Shared, Sharing::Private] {
        for polls in 0.. {
            println!("{sharing:?}, given up after {polls}");
            let bench = Bench::sim(1, unbounded);
            let volume = block_on(bench.volume());
            let options = SessionOptions { sharing, ..shared() };
            let session = block_on(Session::start(&volume, options)).unwrap();
            let (ino, handle) = block_on(async {
                let ino = file(&session, ROOT, b"f", &pattern(1, 1000)).await;
                let kept = file(&session, ROOT, b"kept", b"x").await;
                (ino, session.open(&root(), kept, OpenFlags::READ_WRITE).await.unwrap())
            });
            let slow = kv::sim::Faults {
                delay: 1,
                delay_max: std::time::Duration::from_millis(1),
                ..kv::sim::Faults::NONE
            };
            bench.sim.as_ref().unwrap().set_faults(slow);
            let done = give_up_after(&bench, polls, call(session.clone(), ino, handle));
            bench.calm();
            block_on(async {
                let other = match sharing {
                    Sharing::Shared => shared_session(&volume).await,
                    _ => session.clone(),
                };
                for name in names_of(&other, ROOT).await {
                    other.unlink(&root(), ROOT, &name).await.unwrap();
                }
                let _ = session.release(handle).await;
                settle(&session).await;
                settle(&other).await;
                audit(&volume, true).await;
                assert_eq!(other.usage().await.unwrap(), (0, 1));
            });
            if done {
                break;
            }
        }
    }
}

#[test]
fn an_open_that_is_given_up_keeps_no_file() {
    given_up_keeps_nothing(|session, ino, _| {
        Box::pin(async move {
            let handle = session.open(&root(), ino, OpenFlags::READ).await?;
            session.release(handle).await
        })
    });
}

#[test]
fn a_create_that_is_given_up_keeps_no_file() {
    given_up_keeps_nothing(|session, _, _| {
        Box::pin(async move {
            let flags = OpenFlags { truncate: true, ..OpenFlags::READ_WRITE };
            for name in [b"f", b"n"] {
                let made = session.create(&root(), ROOT, name, 0o644, flags).await?;
                session.release(made.1).await?;
            }
            let (_, handle) = session.tmpfile(&root(), ROOT, 0o644, OpenFlags::READ).await?;
            session.release(handle).await
        })
    });
}

#[test]
fn a_release_that_is_given_up_keeps_no_file() {
    given_up_keeps_nothing(|session, _, handle| {
        Box::pin(async move {
            session
                .setlk(handle, 1, Lock { kind: LockKind::Write, start: 0, end: 1, pid: 1 }, true)
                .await?;
            session.release(handle).await
        })
    });
}
