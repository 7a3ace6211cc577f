//! What everybody is told of a file: size and times, at every time.

use crate::world::*;
use fs::*;

fn at(secs: i64) -> Time {
    Time { secs, nanos: 5 }
}

fn mtime(secs: i64) -> SetAttr {
    SetAttr { mtime: Some(SetTime::To(at(secs))), ..SetAttr::default() }
}

/// What each way of asking says of size and time; all must say the same.
async fn told(bench: &Bench, ino: Ino, name: &str) -> (u64, Time, Time) {
    let session = &bench.session;
    let attr = session.getattr(ino).await.unwrap();
    let found = session.lookup(&root(), ROOT, name.as_bytes()).await.unwrap();
    let dir = session.opendir(&root(), ROOT).await.unwrap();
    let listed = session.readdirplus(dir, 0, usize::MAX).await.unwrap();
    session.releasedir(dir).await.unwrap();
    let listed = listed.into_iter().find(|(entry, _)| entry.ino == ino);
    let (_, listed) = listed.expect("it is listed");
    let say = |attr: Attr| (attr.size, attr.mtime, attr.ctime);
    assert_eq!(say(attr), say(found), "{name}");
    assert_eq!(say(attr), say(listed), "{name}");
    say(attr)
}

#[test]
fn every_reader_is_told_the_same_while_open_closed_settled_and_after_a_crash() {
    on_bench(|mut bench| async move {
        for len in [0, 10, INLINE, 20_000] {
            for crash in [false, true] {
                let name = format!("{len} {crash}");
                bench.tick();
                let (ino, handle) = bench.make(&name, &pattern(1, len)).await;
                let made = told(&bench, ino, &name).await;
                assert_eq!(made.0, len as u64);
                bench.tick();
                write(&bench.session, handle, len as u64, b"more").await;
                let written = told(&bench, ino, &name).await;
                assert_eq!(written.0, len as u64 + 4);
                assert!(written.1 > made.1, "the time moved");
                bench.tick();
                bench.session.release(handle).await.unwrap();
                assert_eq!(told(&bench, ino, &name).await, written);
                if crash {
                    bench.die().await;
                    assert_eq!(told(&bench, ino, &name).await, written, "{name}");
                }
                bench.settle().await;
                assert_eq!(told(&bench, ino, &name).await, written, "{name}");
                bench.restart().await;
                assert_eq!(told(&bench, ino, &name).await, written, "{name}");
                // Opened and closed without a change, for reading and for writing.
                for flags in [OpenFlags::READ, OpenFlags::READ_WRITE] {
                    bench.tick();
                    let handle = bench.session.open(&root(), ino, flags).await.unwrap();
                    assert_eq!(told(&bench, ino, &name).await, written, "{name}");
                    read(&bench.session, handle).await;
                    bench.session.release(handle).await.unwrap();
                    assert_eq!(told(&bench, ino, &name).await, written, "{name}");
                    bench.settle().await;
                    assert_eq!(told(&bench, ino, &name).await, written, "{name}");
                }
                // Written in place: the size stays, the time moves.
                let handle = bench.open(ino).await;
                bench.tick();
                write(&bench.session, handle, 0, b"less").await;
                let again = told(&bench, ino, &name).await;
                assert!(again.0 == written.0 && again.1 > written.1, "{name}");
                if crash {
                    bench.die().await;
                    assert_eq!(told(&bench, ino, &name).await, again, "{name}");
                } else {
                    bench.session.release(handle).await.unwrap();
                }
                bench.settle().await;
                assert_eq!(told(&bench, ino, &name).await, again, "{name}");
            }
        }
        bench.audit().await;
    });
}

#[test]
fn a_time_that_is_set_stays_until_the_next_write() {
    on_bench(|mut bench| async move {
        for len in [0, 10, 20_000] {
            // 1 is what a file has that nobody has written to.
            for secs in [1, 2, 1_000_000_000, 4_000_000_000] {
                let name = format!("{len} {secs}");
                let (ino, handle) = bench.make(&name, &pattern(1, len)).await;
                bench.tick();
                bench.session.setattr(&root(), ino, &mtime(secs), Some(handle)).await.unwrap();
                let set = told(&bench, ino, &name).await;
                assert_eq!(set.1, at(secs), "{name}");
                bench.tick();
                bench.session.release(handle).await.unwrap();
                assert_eq!(told(&bench, ino, &name).await, set, "closed: {name}");
                bench.die().await;
                assert_eq!(told(&bench, ino, &name).await, set, "after a crash: {name}");
                bench.settle().await;
                assert_eq!(told(&bench, ino, &name).await, set, "settled: {name}");
                // Of one that is settled.
                bench.session.setattr(&root(), ino, &mtime(secs + 1), None).await.unwrap();
                let set = told(&bench, ino, &name).await;
                assert_eq!(set.1, at(secs + 1), "{name}");
                let handle = bench.open(ino).await;
                assert_eq!(told(&bench, ino, &name).await, set, "opened: {name}");
                bench.tick();
                write(&bench.session, handle, 0, b"x").await;
                let written = told(&bench, ino, &name).await;
                if secs < 2_000_000_000 {
                    assert!(written.1 > set.1, "written: {name}");
                }
                bench.session.release(handle).await.unwrap();
                bench.settle().await;
                assert_eq!(told(&bench, ino, &name).await, written, "settled: {name}");
                assert_eq!(bench.contents(ino).await.len(), len.max(1));
            }
        }
        bench.audit().await;
    });
}

#[test]
fn mode_owner_and_names_change_without_the_bytes() {
    on_bench(|bench| async move {
        for len in [10, 20_000] {
            for open in [false, true] {
                let name = format!("{len} {open}");
                let (ino, handle) = bench.make(&name, &pattern(1, len)).await;
                if !open {
                    bench.session.release(handle).await.unwrap();
                    bench.settle().await;
                }
                let before = told(&bench, ino, &name).await;
                bench.tick();
                let set = SetAttr { mode: Some(0o600), uid: Some(7), ..SetAttr::default() };
                bench.session.setattr(&root(), ino, &set, None).await.unwrap();
                let after = told(&bench, ino, &name).await;
                assert_eq!((after.0, after.1), (before.0, before.1), "{name}");
                assert!(after.2 > before.2, "{name}");
                bench.tick();
                let link = format!("link {name}");
                bench.session.link(&root(), ino, ROOT, link.as_bytes()).await.unwrap();
                let linked = told(&bench, ino, &name).await;
                assert!(linked.1 == after.1 && linked.2 > after.2, "{name}");
                if open {
                    bench.session.release(handle).await.unwrap();
                }
                bench.settle().await;
                assert_eq!(told(&bench, ino, &name).await, linked, "{name}");
                assert_eq!(bench.contents(ino).await, pattern(1, len));
            }
        }
        bench.audit().await;
    });
}
