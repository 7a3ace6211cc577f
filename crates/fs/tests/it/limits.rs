//! A sample of everything on engines with narrow bounds.

use crate::audit::audit;
use crate::world::*;
use base::block_on;
use fs::schema::Parsed;
use fs::*;
use kv::Capabilities;
use kv::sim::{bounds_like_etcd, bounds_like_foundationdb, bounds_tight};

const MIB: usize = 1 << 20;

type Bounds = fn(&Capabilities) -> Capabilities;

const ALL: [Bounds; 3] = [bounds_like_etcd, bounds_like_foundationdb, bounds_tight];

async fn session(bounds: Bounds, format: FormatOptions) -> Session {
    let bench = Bench::sim(1, bounds);
    let volume = bench.volume_with(&format).await;
    println!("{}", volume.world().store.capabilities().name);
    shared_session(&volume).await
}

fn format() -> FormatOptions {
    FormatOptions { chunk_bytes: MIB as u32, ..FormatOptions::default() }
}

async fn cut_to(session: &Session, ino: Ino, size: u64) {
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    session.setattr(&root(), ino, &set, None).await.unwrap();
}

async fn end(session: &Session) {
    settle(session).await;
    audit(session.volume(), true).await;
    for name in names_of(session, ROOT).await {
        session.unlink(&root(), ROOT, &name).await.unwrap();
    }
    settle(session).await;
    audit(session.volume(), true).await;
    assert_eq!(session.usage().await.unwrap(), (0, 1));
    let left = keys(session.volume()).await;
    let data = |key: &&Parsed| {
        matches!(
            key,
            Parsed::Block(_) | Parsed::Map { .. } | Parsed::Inline { .. } | Parsed::Xattr { .. }
        )
    };
    assert_eq!(left.iter().find(data), None);
}

#[test]
fn large_writes_are_whole_on_narrow_engines() {
    for bounds in ALL {
        block_on(async {
            let session = session(bounds, format()).await;
            let flags = OpenFlags::READ_WRITE;
            let (attr, handle) = session.create(&root(), ROOT, b"f", 0o644, flags).await.unwrap();
            let mut wanted = vec![0; 9 * MIB];
            for (at, len, tag) in
                [(0, 8 * MIB, 1), (12_345, 8 * MIB, 2), (MIB - 1, 2 * MIB, 3), (7, 9, 4)]
            {
                let bytes = pattern(tag, len);
                assert_eq!(session.write(&root(), handle, at as u64, &bytes).await.unwrap(), len);
                wanted[at..at + len].copy_from_slice(&bytes);
            }
            wanted.truncate(12_345 + 8 * MIB);
            assert!(contents(&session, attr.ino).await == wanted);
            settle(&session).await;
            assert!(contents(&session, attr.ino).await == wanted);
            assert_eq!(
                session.copy_range(&root(), handle, 0, handle, 16 << 20, 4 << 20).await.unwrap(),
                4 << 20
            );
            let copied = session.read(handle, 16 << 20, 4 << 20).await.unwrap();
            assert!(copied[..] == wanted[..4 << 20]);
            cut_to(&session, attr.ino, 5_000_000).await;
            cut_to(&session, attr.ino, 6_000_000).await;
            wanted.truncate(5_000_000);
            wanted.resize(6_000_000, 0);
            assert!(contents(&session, attr.ino).await == wanted);
            let hole = Fallocate::PunchHole;
            session.fallocate(&root(), handle, hole, 1_000_000, 3_000_000).await.unwrap();
            wanted[1_000_000..4_000_000].fill(0);
            assert!(contents(&session, attr.ino).await == wanted);
            session.release(handle).await.unwrap();
            end(&session).await;
        });
    }
}

#[test]
fn large_writes_are_whole_with_parity_on_narrow_engines() {
    for bounds in ALL {
        for parity_group in [2, 8] {
            block_on(async {
                let session = session(bounds, FormatOptions { parity_group, ..format() }).await;
                let flags = OpenFlags::READ_WRITE;
                let (attr, handle) =
                    session.create(&root(), ROOT, b"f", 0o644, flags).await.unwrap();
                for (at, tag) in [(0, 1), (100_000, 2), (3, 3)] {
                    write_all(&session, handle, at, &pattern(tag, 3 * MIB)).await;
                }
                let mut wanted = pattern(2, 3 * MIB);
                wanted.splice(..0, vec![0; 100_000]);
                wanted[..3].copy_from_slice(&pattern(1, 3));
                wanted[3..3 + 3 * MIB].copy_from_slice(&pattern(3, 3 * MIB));
                assert!(contents(&session, attr.ino).await == wanted);
                cut_to(&session, attr.ino, 500_000).await;
                wanted.truncate(500_000);
                assert!(contents(&session, attr.ino).await == wanted);
                let hole = Fallocate::PunchHole;
                session.fallocate(&root(), handle, hole, 0, 400_000).await.unwrap();
                wanted[..400_000].fill(0);
                assert!(contents(&session, attr.ino).await == wanted);
                session.release(handle).await.unwrap();
                end(&session).await;
            });
        }
    }
}

#[test]
fn files_of_thousands_of_chunks_are_cut_and_removed_on_narrow_engines() {
    for bounds in ALL {
        block_on(async {
            let session = session(bounds, format()).await;
            let flags = OpenFlags::READ_WRITE;
            let (attr, handle) = session.create(&root(), ROOT, b"f", 0o644, flags).await.unwrap();
            let chunks = 2500u64;
            for chunk in 0..chunks {
                session.write(&root(), handle, chunk << 20, b"x").await.unwrap();
            }
            let block = u64::from(session.volume().record().block_bytes);
            assert_eq!(session.usage().await.unwrap().0, chunks * block);
            cut_to(&session, attr.ino, 2000 << 20).await;
            cut_to(&session, attr.ino, 1500 << 20).await;
            settle(&session).await;
            assert_eq!(session.usage().await.unwrap().0, 1500 * block);
            let hole = Fallocate::PunchHole;
            session.fallocate(&root(), handle, hole, 100 << 20, 1000 << 20).await.unwrap();
            assert_eq!(session.usage().await.unwrap().0, 500 * block);
            assert_eq!(session.seek(handle, 100 << 20, Seek::Data).await.unwrap(), 1100 << 20);
            session.release(handle).await.unwrap();
            end(&session).await;
        });
    }
}

#[test]
fn names_links_and_attributes_fit_narrow_engines() {
    for bounds in ALL {
        block_on(async {
            let session = session(bounds, format()).await;
            let longest = vec![0xff; NAME_BYTES_MAX];
            let ino = file(&session, ROOT, &longest, &pattern(1, 3000)).await;
            let target = vec![b'x'; SYMLINK_BYTES_MAX];
            let link = session.symlink(&root(), ROOT, b"l", &target).await.unwrap();
            assert_eq!(session.readlink(link.ino).await.unwrap(), target);
            let name = [&b"user."[..], &[0xff; NAME_BYTES_MAX - 5]].concat();
            session.setxattr(&root(), ino, &name, b"v", XattrMode::Create).await.unwrap();
            let value = pattern(2, XATTR_BYTES_MAX);
            let set = session.setxattr(&root(), ino, b"user.big", &value, XattrMode::Any).await;
            if session.volume().world().store.capabilities().value_bytes_max > XATTR_BYTES_MAX {
                set.unwrap();
                assert_eq!(session.getxattr(&root(), ino, b"user.big").await.unwrap(), value);
            } else {
                assert_eq!(set.unwrap_err().kind(), Kind::NoSpace);
            }
            let new = RenameFlags::default();
            session.rename(&root(), ROOT, &longest, ROOT, &vec![0xfe; 255], new).await.unwrap();
            end(&session).await;
        });
    }
}

#[test]
fn many_names_and_many_sessions_fit_narrow_engines() {
    for bounds in ALL {
        block_on(async {
            let bench = Bench::sim(1, bounds);
            let volume = bench.volume().await;
            let (dead, session) = (shared_session(&volume).await, shared_session(&volume).await);
            for number in 0..300 {
                let name = format!("{number}");
                let flags = OpenFlags::READ_WRITE;
                let (_, handle) =
                    dead.create(&root(), ROOT, name.as_bytes(), 0o644, flags).await.unwrap();
                dead.flock(handle, 1, LockKind::Read, false).await.unwrap();
                dead.setlk(
                    handle,
                    2,
                    Lock { kind: LockKind::Write, start: 0, end: 5, pid: 1 },
                    false,
                )
                .await
                .unwrap();
                // Access times that wait.
                dead.write(&root(), handle, 0, b"x").await.unwrap();
                bench.clock.advance(std::time::Duration::from_millis(1));
                dead.read(handle, 0, 1).await.unwrap();
            }
            settle(&dead).await;
            assert_eq!(names_of(&session, ROOT).await.len(), 300);
            outlive(&bench, &session).await;
            assert_eq!(session.counts().reaped_sessions, 1);
            end(&session).await;
        });
    }
}

#[test]
fn a_volume_that_is_full_says_so_and_can_be_emptied() {
    for bounds in ALL {
        block_on(async {
            let format = FormatOptions { capacity_bytes: 4 << 20, inodes_max: 5, ..format() };
            let session = session(bounds, format).await;
            let flags = OpenFlags::READ_WRITE;
            let (attr, handle) = session.create(&root(), ROOT, b"f", 0o644, flags).await.unwrap();
            write_all(&session, handle, 0, &pattern(1, 3 * MIB)).await;
            let before = session.usage().await.unwrap();
            for (at, len) in [(3 * MIB, 2 * MIB), (4 * MIB, 2 * MIB)] {
                let told = session.write(&root(), handle, at as u64, &pattern(2, len)).await;
                assert_eq!(told.unwrap_err().kind(), Kind::NoSpace);
            }
            settle(&session).await;
            assert_eq!(session.usage().await.unwrap(), before);
            audit(session.volume(), true).await;
            // What takes no more room goes on.
            write_all(&session, handle, 0, &pattern(3, 3 * MIB)).await;
            assert!(contents(&session, attr.ino).await == pattern(3, 3 * MIB));
            for number in 0..3 {
                session.mkdir(&root(), ROOT, &[b'0' + number], 0o755).await.unwrap();
            }
            let told = session.mkdir(&root(), ROOT, b"n", 0o755).await.unwrap_err();
            assert_eq!(told.kind(), Kind::NoSpace);
            assert_eq!(session.statfs().await.unwrap().files_free, 0);
            for number in 0..3 {
                session.rmdir(&root(), ROOT, &[b'0' + number]).await.unwrap();
            }
            session.release(handle).await.unwrap();
            end(&session).await;
            assert_eq!(session.statfs().await.unwrap().blocks_free, 1024);
        });
    }
}
