//! The simplest uses of every operation.

use crate::world::*;
use base::block_on;
use fs::*;

fn root() -> Caller {
    Caller::root()
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn futures_can_move_between_threads() {
    let bench = Bench::mem();
    let volume = block_on(assert_send(bench.volume()));
    let session = block_on(private_session(&volume));
    let root = root();
    let new = RenameFlags::default();
    drop(assert_send(session.rename(&root, 1, b"a", 1, b"b", new)));
    drop(assert_send(session.create(&root, 1, b"a", 0o644, OpenFlags::READ)));
    drop(assert_send(session.write(&root, Handle(1), 0, b"x")));
    drop(assert_send(session.readdirplus(DirHandle(1), 0, 1)));
    drop(assert_send(session.maintain()));
    drop(assert_send(session.run()));
}

#[test]
fn a_file_is_made_written_read_and_removed() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let session = private_session(&volume).await;
        let before = keys(&volume).await.len();
        let (attr, handle) =
            session.create(&root(), ROOT, b"file", 0o644, OpenFlags::READ_WRITE).await.unwrap();
        for (size, at) in [(5usize, 0u64), (20_000, 3), (300_000, 70_000), (2_000_000, 1_000_000)] {
            let bytes: Vec<u8> = (0..size).map(|i| (i * 7 + i / 255) as u8 | 1).collect();
            assert_eq!(session.write(&root(), handle, at, &bytes).await.unwrap(), size);
            assert_eq!(session.read(handle, at, size + 9).await.unwrap(), bytes);
        }
        let attr = session.getattr(attr.ino).await.unwrap();
        assert_eq!(attr.size, 3_000_000);
        assert!(attr.blocks * 512 >= 2_000_000, "{attr:?}");
        session.release(handle).await.unwrap();
        session.unlink(&root(), ROOT, b"file").await.unwrap();
        settle(&session).await;
        assert_eq!(session.usage().await.unwrap(), (0, 1));
        let left = keys(&volume).await;
        // The root's time, and the two counters that are zero again.
        assert!(left.len() <= before + 2, "{left:?}");
    });
}

#[test]
fn names_are_listed_in_order() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let session = private_session(&volume).await;
        for name in [&b"b"[..], b"a", b"\xff", b"c"] {
            session.mknod(&root(), ROOT, name, mode::FILE | 0o600, 0).await.unwrap();
        }
        session.mkdir(&root(), ROOT, b"dir", 0o755).await.unwrap();
        let handle = session.opendir(&root(), ROOT).await.unwrap();
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let page = session.readdirplus(handle, cookie, 2).await.unwrap();
            let Some((last, _)) = page.last() else { break };
            cookie = last.cookie;
            names.extend(page.into_iter().map(|(entry, attr)| {
                assert_eq!(entry.ino, attr.ino);
                entry.name
            }));
        }
        assert_eq!(names, [&b"."[..], b"..", b"a", b"b", b"c", b"dir", b"\xff"]);
        assert_eq!(session.getattr(ROOT).await.unwrap().nlink, 3);
    });
}
