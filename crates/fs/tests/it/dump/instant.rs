//! A dump is the volume at one instant, whoever writes to it meanwhile; or there is none.

use super::*;
use crate::audit::audit;
use base::block_on;
use fs::dump::Sink;
use kv::sim::bounds_like_foundationdb;
use std::io;

/// Does something each time it is given bytes.
struct Busy<'a> {
    bytes: Vec<u8>,
    calls: usize,
    what: Box<dyn FnMut(usize) + Send + 'a>,
}

impl Sink for Busy<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        self.calls += 1;
        (self.what)(self.calls);
        Ok(())
    }
}

/// Files that are not given to the sink at once.
async fn some(bench: &Bench) -> Session {
    let session = private_session(&bench.volume().await).await;
    for number in 0..6 {
        let name = [b'a' + number];
        file(&session, ROOT, &name, &pattern(number, 200_000)).await;
        file(&session, ROOT, &[b'A' + number], &pattern(number, 100)).await;
    }
    dir(&session, b"dir").await;
    session
}

/// One thing that a user may do, by its number; `None` when there are no more.
async fn change(session: &Session, number: usize) -> Option<&'static str> {
    let name =
        |name: &'static [u8]| async move { session.lookup(&root(), ROOT, name).await.unwrap().ino };
    let write = |ino, bytes: Vec<u8>| async move {
        let handle = session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
        write_all(session, handle, 50, &bytes).await;
        session.release(handle).await.unwrap();
    };
    Some(match number {
        0 => {
            write(name(b"a").await, pattern(9, 10)).await;
            "bytes of a large file that was read"
        }
        1 => {
            write(name(b"f").await, pattern(9, 10)).await;
            "bytes of a large file that was not"
        }
        2 => {
            write(name(b"A").await, pattern(9, 10)).await;
            "bytes of a small file that was read"
        }
        3 => {
            write(name(b"F").await, pattern(9, 10)).await;
            "bytes of a small file that was not"
        }
        4 => {
            write(name(b"F").await, pattern(9, 100_000)).await;
            "a small file becomes a large one"
        }
        5 => {
            session.mkdir(&root(), ROOT, b"new", 0o755).await.unwrap();
            "a new directory"
        }
        6 => {
            session.unlink(&root(), ROOT, b"f").await.unwrap();
            "a file goes that was not read"
        }
        7 => {
            session.unlink(&root(), ROOT, b"a").await.unwrap();
            "a file goes that was read"
        }
        8 => {
            let dir = name(b"dir").await;
            session.rename(&root(), ROOT, b"b", dir, b"b", RenameFlags::default()).await.unwrap();
            "a file moves"
        }
        9 => {
            let ino = name(b"b").await;
            session.setxattr(&root(), ino, b"user.a", b"b", XattrMode::Any).await.unwrap();
            "an attribute"
        }
        10 => {
            let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
            session.setattr(&root(), name(b"c").await, &set, None).await.unwrap();
            "a mode"
        }
        11 => {
            let set = SetAttr { size: Some(0), ..SetAttr::default() };
            session.setattr(&root(), name(b"e").await, &set, None).await.unwrap();
            "a file is cut"
        }
        12 => {
            let ino = name(b"e").await;
            session.link(&root(), ino, ROOT, b"another").await.unwrap();
            "another name"
        }
        _ => return None,
    })
}

#[test]
fn a_snapshot_does_not_see_what_comes_later() {
    block_on(async {
        for bench in [Bench::mem(), local()] {
            let session = some(&bench).await;
            let wanted = dumped(&session).await;
            let what = Box::new(|calls| {
                bench.clock.advance(Duration::from_secs(9));
                for number in [0, 1, 2, 4, 5, 6, 7, 8, 10, 11] {
                    if calls == 1 {
                        block_on(change(&session, number)).unwrap();
                        block_on(settle(&session));
                    }
                }
            });
            let mut out = Busy { bytes: Vec::new(), calls: 0, what };
            dump(&session, &mut out, &NoProgress).await.unwrap();
            assert!(out.calls > 3);
            assert!(out.bytes == wanted);
            drop(out);
            assert!(dumped(&session).await != wanted);
        }
    });
}

#[test]
fn many_snapshots_are_one_when_nothing_changed() {
    block_on(async {
        let bench = Bench::sim(1, bounds_like_foundationdb);
        let session = some(&bench).await;
        let wanted = dumped(&session).await;
        let what = Box::new(|_| {
            bench.clock.advance(Duration::from_secs(6));
            // Nobody's business: a heartbeat, and who has read what.
            block_on(session.beat()).unwrap();
            let ino = block_on(session.lookup(&root(), ROOT, b"e")).unwrap().ino;
            block_on(contents(&session, ino));
            block_on(session.maintain()).unwrap();
        });
        let mut out = Busy { bytes: Vec::new(), calls: 0, what };
        dump(&session, &mut out, &NoProgress).await.unwrap();
        assert!(out.calls > 3);
        let copy = loaded(&Bench::mem().world, "copy", &out.bytes).await;
        audit(copy.volume(), true).await;
        drop(out);
        let atime = |tree: Tree| -> Tree {
            let still = |(path, mut seen): (Vec<u8>, Seen)| {
                seen.attr.atime = Time::default();
                (path, seen)
            };
            tree.into_iter().map(still).collect()
        };
        let before = loaded(&Bench::mem().world, "copy", &wanted).await;
        assert_same(&atime(plain_tree(&copy).await), &atime(plain_tree(&before).await));
    });
}

#[test]
fn many_snapshots_with_a_change_between_are_no_dump() {
    block_on(async {
        let mut whole = 0;
        for number in 0.. {
            let bench = Bench::sim(1, bounds_like_foundationdb);
            let session = some(&bench).await;
            let mut name = None;
            let what = Box::new(|calls| {
                bench.clock.advance(Duration::from_secs(6));
                if calls == 1 {
                    name = block_on(change(&session, number));
                }
            });
            let mut out = Busy { bytes: Vec::new(), calls: 0, what };
            let told = dump(&session, &mut out, &NoProgress).await;
            let bytes = std::mem::take(&mut out.bytes);
            drop(out);
            let Some(name) = name else { break };
            if told.is_ok() {
                // All of what changed was read later: this is the volume as it was at the end.
                assert!(bytes == dumped(&session).await, "{name}");
                whole += 1;
                continue;
            }
            assert_eq!(told.unwrap_err().kind(), Kind::Busy, "{name}");
            let error = refused(&Bench::mem().world, &bytes).await;
            assert_eq!(error.kind(), Kind::Corrupt, "{name}: {error}");
        }
        assert!(whole <= 1, "{whole}");
    });
}
