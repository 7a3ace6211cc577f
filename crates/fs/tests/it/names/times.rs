//! Access times, and when directories changed.

use super::*;

/// When the file was read, as told after each of: a first read, one a minute later, one a day later.
async fn reads(atime: Atime) -> Vec<bool> {
    let bench = Bench::mem();
    let volume = bench.volume().await;
    let session = Session::start(&volume, SessionOptions { atime, ..SessionOptions::default() })
        .await
        .unwrap();
    let ino = file(&session, ROOT, b"f", b"x").await;
    let handle = session.open(&root(), ino, OpenFlags::READ).await.unwrap();
    let mut changed = Vec::new();
    for wait in [5, 60, 24 * 3600] {
        bench.clock.advance(Duration::from_secs(wait));
        let before = session.getattr(ino).await.unwrap();
        session.read(handle, 0, 1).await.unwrap();
        let after = session.getattr(ino).await.unwrap();
        assert_eq!((after.mtime, after.ctime), (before.mtime, before.ctime));
        changed.push(after.atime != before.atime);
        if after.atime != before.atime {
            assert_eq!(after.atime, session_now(&bench));
        }
        // What is told stays true when it has been written.
        settle(&session).await;
        assert_eq!(session.getattr(ino).await.unwrap().atime, after.atime);
    }
    session.release(handle).await.unwrap();
    changed
}

fn session_now(bench: &Bench) -> Time {
    let (secs, nanos) = bench.world.clock.wall();
    Time { secs, nanos }
}

#[test]
fn reading_changes_the_access_time_as_the_session_was_told() {
    block_on(async {
        assert_eq!(reads(Atime::Strict).await, [true, true, true]);
        assert_eq!(reads(Atime::Relative).await, [true, false, true]);
        assert_eq!(reads(Atime::Off).await, [false, false, false]);
    });
}

#[test]
fn a_change_makes_the_next_read_count() {
    block_on(async {
        let (bench, session) = session().await;
        for len in [10, 100_000] {
            let ino = file(&session, ROOT, b"f", &pattern(1, len)).await;
            let handle = session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            for _ in 0..3 {
                bench.clock.advance(Duration::from_secs(10));
                session.write(&root(), handle, 0, b"y").await.unwrap();
                bench.clock.advance(Duration::from_secs(10));
                session.read(handle, 0, 1).await.unwrap();
                let attr = session.getattr(ino).await.unwrap();
                assert_eq!(attr.atime, session_now(&bench));
                assert!(attr.atime > attr.mtime);
            }
            session.release(handle).await.unwrap();
            session.unlink(&root(), ROOT, b"f").await.unwrap();
        }
    });
}

#[test]
fn listing_and_following_a_link_are_reads_and_others_see_them() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
        let link = a.symlink(&root(), ROOT, b"l", b"x").await.unwrap().ino;
        let d = dir(&a, b"d").await;
        bench.clock.advance(Duration::from_secs(10));
        let now = session_now(&bench);
        a.readlink(link).await.unwrap();
        names_of(&a, d).await;
        for ino in [link, d] {
            assert_eq!(a.getattr(ino).await.unwrap().atime, now);
            assert!(b.getattr(ino).await.unwrap().atime < now, "reading commits nothing");
        }
        settle(&a).await;
        for ino in [link, d] {
            assert_eq!(b.getattr(ino).await.unwrap().atime, now);
        }
        // What a caller sets is not undone by what waited.
        bench.clock.advance(Duration::from_secs(100_000));
        a.readlink(link).await.unwrap();
        let to = SetTime::To(Time { secs: 7, nanos: 0 });
        let times = SetAttr { atime: Some(to), ..SetAttr::default() };
        a.setattr(&root(), link, &times, None).await.unwrap();
        settle(&a).await;
        assert_eq!(b.getattr(link).await.unwrap().atime.secs, 7);
    });
}

#[test]
fn directories_say_when_their_names_changed() {
    block_on(async {
        let (bench, session) = session().await;
        let (one, two) = (dir(&session, b"one").await, dir(&session, b"two").await);
        let mut last = session_now(&bench);
        let mut moved = async |changed: &[Ino], same: &[Ino]| {
            for ino in changed {
                let attr = session.getattr(*ino).await.unwrap();
                assert_eq!((attr.mtime, attr.ctime), (session_now(&bench), session_now(&bench)));
            }
            for ino in same {
                assert!(session.getattr(*ino).await.unwrap().mtime <= last);
            }
            last = session_now(&bench);
            bench.clock.advance(Duration::from_secs(1));
        };
        moved(&[one, two, ROOT], &[]).await;
        let ino = file(&session, one, b"f", b"").await;
        moved(&[one], &[two, ROOT]).await;
        session.rename(&root(), one, b"f", two, b"f", PLAIN).await.unwrap();
        moved(&[one, two], &[ROOT]).await;
        session.link(&root(), ino, one, b"g").await.unwrap();
        moved(&[one], &[two, ROOT]).await;
        session.unlink(&root(), two, b"f").await.unwrap();
        moved(&[two], &[one, ROOT]).await;
        session.rmdir(&root(), ROOT, b"two").await.unwrap();
        moved(&[ROOT], &[one]).await;
        assert_eq!(kind(session.unlink(&root(), one, b"none").await), Kind::NotFound);
        moved(&[], &[one, ROOT]).await;
    });
}
