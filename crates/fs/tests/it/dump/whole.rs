//! Whole volumes: what goes in comes out, on other engines and with other sizes.

use super::*;
use crate::audit::audit;
use base::block_on;
use fs::blob::block::Codec;
use fs::schema::{Form, Inode, Parsed};
use kv::sim::{bounds_like_etcd, bounds_like_foundationdb, bounds_tight};

fn mib() -> FormatOptions {
    FormatOptions { chunk_bytes: 1 << 20, ..FormatOptions::default() }
}

/// A volume with one of everything.
async fn full(bench: &Bench, options: &FormatOptions, xattr_bytes: usize) -> Session {
    let session = private_session(&bench.volume_with(options).await).await;
    fill(bench, &session, xattr_bytes).await;
    session
}

#[test]
fn everything_comes_back_on_the_same_engine() {
    block_on(async {
        for bench in [Bench::mem(), local()] {
            let options = FormatOptions { capacity_bytes: 1 << 40, inodes_max: 1 << 20, ..mib() };
            let session = full(&bench, &options, XATTR_BYTES_MAX).await;
            let (stream, counts) = dumped_with(&session).await;
            let copy = loaded(&bench.world, "copy", &stream).await;
            let again = dumped_with(&copy).await;
            // Also what it takes, in blocks of the same size.
            assert_same(&tree(&copy).await, &tree(&session).await);
            audit(copy.volume(), true).await;
            assert!(again.0 == stream);
            assert_eq!(again.1, counts);
            assert_eq!(counts.inodes, copy.usage().await.unwrap().1);
            assert_eq!(copy.volume().record(), session.volume().record());
            assert_eq!(Volume::list(&bench.world).await.unwrap(), ["copy", "test"]);
        }
    });
}

#[test]
fn everything_comes_back_on_other_engines_and_with_other_sizes() {
    block_on(async {
        let from = Bench::mem();
        // Etcd's bound on a transaction leaves room for the largest attribute; tight ones do not.
        for (codec, parity_group, xattr_bytes) in
            [(Codec::Lz4, 0, 9000), (Codec::Zstd, 4, 9000), (Codec::None, 64, 5000)]
        {
            let options = FormatOptions { codec, parity_group, ..mib() };
            let volume =
                Volume::format(&from.world, &format!("{codec:?}"), &options).await.unwrap();
            let session = private_session(&volume).await;
            fill(&from, &session, xattr_bytes).await;
            let stream = dumped(&session).await;
            let before = plain_tree(&session).await;
            for (to, block_bytes, inline_bytes_max) in [
                (local(), None, None),
                (local(), Some(1024), Some(0)),
                (Bench::mem(), Some(1 << 20), Some(1 << 20)),
                (Bench::mem(), Some(4096), Some(1000)),
                (Bench::sim(1, bounds_like_etcd), None, None),
                (Bench::sim(1, bounds_like_foundationdb), None, None),
                (Bench::sim(1, bounds_tight), None, Some(100)),
            ] {
                let options = LoadOptions { block_bytes, inline_bytes_max };
                let name = to.world.store.capabilities().name;
                println!("{codec:?} {parity_group} to {name}, {options:?}");
                let copy = loaded_with(&to.world, "copy", &stream, &options).await;
                audit(copy.volume(), true).await;
                assert_eq!(copy.volume().record().codec, codec);
                assert_eq!(copy.volume().record().parity_group, parity_group);
                if copy.volume().record().block_bytes <= 65_536 {
                    assert!(dumped(&copy).await == stream, "the same stream");
                } else {
                    // Space is taken in larger blocks: nothing else differs, and only once.
                    let wider = dumped(&copy).await;
                    let second = loaded_with(&to.world, "second", &wider, &options).await;
                    assert!(dumped(&second).await == wider);
                }
                assert_same(&plain_tree(&copy).await, &before);
                used_as_any(&copy).await;
            }
        }
    });
}

/// The volume works: things are made, changed and removed, until nothing is left.
async fn used_as_any(session: &Session) {
    let highest = tree(session).await.values().map(|seen| seen.attr.ino).max().unwrap();
    let ino = file(session, ROOT, b"made later", &pattern(9, 100_000)).await;
    assert!(ino > highest, "a number that was given out is not given out again");
    let large = session.lookup(&root(), ROOT, b"large").await.unwrap();
    let handle = session.open(&root(), large.ino, OpenFlags::READ_WRITE).await.unwrap();
    write_all(session, handle, 1_000_000, &pattern(8, 70_000)).await;
    let mut wanted = pattern(3, 3_000_001);
    wanted[1_000_000..1_070_000].copy_from_slice(&pattern(8, 70_000));
    session.release(handle).await.unwrap();
    assert!(contents(session, large.ino).await == wanted);
    let now = session.getattr(ino).await.unwrap().btime;
    assert_eq!(session.getattr(large.ino).await.unwrap().mtime, now);
    settle(session).await;
    audit(session.volume(), true).await;
    remove_all(session, ROOT).await;
    settle(session).await;
    audit(session.volume(), true).await;
    assert_eq!(session.usage().await.unwrap(), (0, 1));
}

async fn remove_all(session: &Session, top: Ino) {
    let mut left = vec![top];
    while let Some(&dir) = left.last() {
        let before = left.len();
        for name in names_of(session, dir).await {
            let attr = session.lookup(&root(), dir, &name).await.unwrap();
            if attr.file_type() != FileType::Directory {
                session.unlink(&root(), dir, &name).await.unwrap();
            } else if session.rmdir(&root(), dir, &name).await.is_err() {
                left.push(attr.ino);
            }
        }
        if left.len() == before {
            left.pop();
        }
    }
}

#[test]
fn an_empty_volume_is_a_dump_too() {
    block_on(async {
        let bench = Bench::mem();
        let options = FormatOptions { uid: 7, gid: 8, mode: 0o1777, ..mib() };
        let session = private_session(&bench.volume_with(&options).await).await;
        let (stream, counts) = dumped_with(&session).await;
        assert_eq!((counts.inodes, counts.entries, counts.data_bytes), (1, 0, 0));
        let copy = loaded(&local().world, "a", &stream).await;
        assert_same(&plain_tree(&copy).await, &plain_tree(&session).await);
        audit(copy.volume(), true).await;
    });
}

#[test]
fn an_exbibyte_of_nothing_takes_few_bytes() {
    block_on(async {
        let bench = local();
        let session = private_session(&bench.volume().await).await;
        let (attr, handle) =
            session.create(&root(), ROOT, b"f", 0o644, OpenFlags::READ_WRITE).await.unwrap();
        for at in [0, 1 << 40, (1 << 60) - 5] {
            session.write(&root(), handle, at, b"bytes").await.unwrap();
        }
        let last = SetAttr { size: Some(FILE_BYTES_MAX), ..SetAttr::default() };
        let (far, _) =
            session.create(&root(), ROOT, b"g", 0o644, OpenFlags::READ_WRITE).await.unwrap();
        session.setattr(&root(), far.ino, &last, None).await.unwrap();
        let end = session.open(&root(), far.ino, OpenFlags::READ_WRITE).await.unwrap();
        session.write(&root(), end, FILE_BYTES_MAX - 1, b"x").await.unwrap();
        let keep = Fallocate::Allocate { keep_size: true };
        session.fallocate(&root(), end, keep, FILE_BYTES_MAX - 100_000, 10).await.unwrap();
        let (stream, counts) = dumped_with(&session).await;
        assert!(stream.len() < 6000, "{} bytes", stream.len());
        assert_eq!(counts.data_bytes, 1024 * 4 - 1);
        let copy = loaded(&bench.world, "copy", &stream).await;
        assert!(dumped(&copy).await == stream);
        assert_same(&tree(&copy).await, &tree(&session).await);
        assert_eq!(copy.getattr(attr.ino).await.unwrap().size, 1 << 60);
        audit(copy.volume(), true).await;
    });
}

#[test]
fn a_directory_of_many_names_comes_back() {
    const NAMES: usize = 100_000;
    block_on(async {
        let (from, to) = (Bench::mem(), local());
        let session = private_session(&from.volume().await).await;
        let many = dir(&session, b"many").await;
        let one = file(&session, ROOT, b"one", b"x").await;
        for number in 0..NAMES {
            let name = format!("{number:x}");
            match number % 1000 {
                0 => drop(session.mkdir(&root(), many, name.as_bytes(), 0o755).await.unwrap()),
                _ => drop(session.link(&root(), one, many, name.as_bytes()).await.unwrap()),
            }
        }
        let (stream, counts) = dumped_with(&session).await;
        assert_eq!(counts.entries as usize, NAMES + 2);
        let copy = loaded(&to.world, "copy", &stream).await;
        assert!(dumped(&copy).await == stream);
        assert_eq!(names_of(&copy, many).await, names_of(&session, many).await);
        assert_eq!(copy.getattr(many).await.unwrap().nlink as usize, 2 + NAMES / 1000);
        assert_eq!(copy.getattr(one).await.unwrap().nlink as usize, NAMES - NAMES / 1000 + 1);
        audit(copy.volume(), true).await;
    });
}

#[test]
fn numbers_drawn_at_random_are_not_met_again() {
    block_on(async {
        let (from, to) = (Bench::mem(), local());
        let session = shared_session(&from.volume().await).await;
        for name in [b"a", b"b", b"c"] {
            file(&session, ROOT, name, b"x").await;
        }
        let stream = dumped(&session).await;
        let copy = loaded(&to.world, "copy", &stream).await;
        let highest = tree(&copy).await.values().map(|seen| seen.attr.ino).max().unwrap();
        assert!(highest > 1 << 40);
        assert_eq!(file(&copy, ROOT, b"d", b"x").await, highest + 1);
    });
}

#[test]
fn what_belongs_to_sessions_stays_behind() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let (session, other) = (shared_session(&volume).await, shared_session(&volume).await);
        let ino = file(&session, ROOT, b"f", &pattern(1, 500_000)).await;
        let handle = other.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
        other.flock(handle, 1, LockKind::Read, false).await.unwrap();
        let lock = Lock { kind: LockKind::Write, start: 0, end: 9, pid: 1 };
        other.setlk(handle, 2, lock, false).await.unwrap();
        other.tmpfile(&root(), ROOT, 0o600, OpenFlags::READ_WRITE).await.unwrap();
        // A truncation whose job has not run: what it cut off is not the file's.
        let (long, far) =
            session.create(&root(), ROOT, b"long", 0o644, OpenFlags::READ_WRITE).await.unwrap();
        for chunk in 0..40 {
            session.write(&root(), far, chunk << 20, b"x").await.unwrap();
        }
        let keep = Fallocate::Allocate { keep_size: true };
        session.fallocate(&root(), far, keep, 50 << 20, 3 << 20).await.unwrap();
        let set = SetAttr { size: Some(3 << 20), ..SetAttr::default() };
        session.setattr(&root(), long.ino, &set, None).await.unwrap();
        assert!(!session.jobs().await.unwrap().is_empty());
        let stream = dumped(&session).await;
        let to = Bench::mem();
        load(&to.world, "copy", &mut &stream[..], &NoProgress).await.unwrap();
        let copy = Volume::open(&to.world, "copy").await.unwrap();
        use Parsed as P;
        let foreign = |key: &P| {
            matches!(
                key,
                P::Lock { .. }
                    | P::Lease { .. }
                    | P::Session { .. }
                    | P::Heartbeat { .. }
                    | P::Held { .. }
                    | P::Op { .. }
                    | P::Job { .. }
                    | P::Garbage { .. }
            )
        };
        assert_eq!(keys(&copy).await.into_iter().find(foreign), None);
        audit(&copy, true).await;
        let copy = private_session(&copy).await;
        settle(&session).await;
        assert!(dumped(&session).await == stream);
        assert_same(&plain_tree(&copy).await, &plain_tree(&session).await);
        assert_eq!(data_of(&copy, long.ino).await.len(), 3);
    });
}

#[test]
fn options_that_were_changed_are_those_of_the_copy() {
    block_on(async {
        let bench = Bench::mem();
        let options = FormatOptions { capacity_bytes: 300 << 10, inodes_max: 3, ..mib() };
        let session = private_session(&bench.volume_with(&options).await).await;
        // Four blocks of 64 KiB: in blocks of a MiB they take more than the volume may have.
        file(&session, ROOT, b"f", &pattern(1, 200_000)).await;
        let stream = dumped(&session).await;
        let wide = LoadOptions { block_bytes: Some(1 << 20), inline_bytes_max: Some(0) };
        let copy = loaded_with(&bench.world, "copy", &stream, &wide).await;
        assert_eq!(copy.volume().record().capacity_bytes, 300 << 10);
        assert_eq!(copy.volume().record().inodes_max, 3);
        let full = copy.mkdir(&root(), ROOT, b"d", 0o755).await.map(|_| ());
        assert!(full.is_ok());
        let full = copy.mkdir(&root(), ROOT, b"e", 0o755).await.unwrap_err();
        assert_eq!(full.kind(), Kind::NoSpace);
        for bad in [3000, 4 << 20, 512] {
            let bad = LoadOptions { block_bytes: Some(bad), inline_bytes_max: None };
            let told = load_with(&bench.world, "b", &mut &stream[..], &bad, &NoProgress).await;
            assert_eq!(told.unwrap_err().kind(), Kind::Invalid);
        }
        let tight = Bench::sim(1, kv::sim::bounds_tight);
        let wide = LoadOptions { block_bytes: Some(65_536), inline_bytes_max: None };
        let told = load_with(&tight.world, "b", &mut &stream[..], &wide, &NoProgress).await;
        assert_eq!(told.unwrap_err().kind(), Kind::Invalid);
        assert_eq!(all_keys(&tight.world).await, 0);
    });
}

#[test]
fn an_access_that_is_not_written_yet_is_dumped() {
    block_on(async {
        let bench = Bench::mem();
        let session = private_session(&bench.volume().await).await;
        let ino = file(&session, ROOT, b"f", b"hello").await;
        bench.clock.advance(Duration::from_secs(100_000));
        contents(&session, ino).await;
        let seen = session.getattr(ino).await.unwrap();
        assert!(seen.atime > seen.mtime);
        let stream = dumped(&session).await;
        let copy = loaded(&bench.world, "copy", &stream).await;
        assert_eq!(copy.getattr(ino).await.unwrap(), seen);
        // The same when it is written.
        settle(&session).await;
        assert!(dumped(&session).await == stream);
    });
}

#[test]
fn a_large_file_without_bytes_is_mapped_as_any() {
    block_on(async {
        let bench = Bench::mem();
        let session = private_session(&bench.volume().await).await;
        let ino = file(&session, ROOT, b"f", b"").await;
        let set = SetAttr { size: Some(1 << 40), ..SetAttr::default() };
        session.setattr(&root(), ino, &set, None).await.unwrap();
        let copy = loaded(&bench.world, "copy", &dumped(&session).await).await;
        let keys = copy.volume().keys();
        let found = crate::audit::dump(copy.volume()).await;
        let record = found.iter().find_map(|(key, value)| match keys.parse(key) {
            Some(Parsed::Inode { ino: of }) if of == ino => Inode::decode(key, ino, value),
            _ => None,
        });
        assert_eq!(record.unwrap().form, Form::Mapped);
    });
}
