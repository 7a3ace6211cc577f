//! Commits whose outcome nobody is told: every operation answers the same and happens once.

use crate::audit::audit;
use crate::world::*;
use base::block_on;
use bytes::Bytes;
use fs::schema::Parsed;
use fs::*;
use std::collections::BTreeMap;
use std::pin::Pin;

/// What an operation answered, without numbers that are drawn at random and times.
type Told = Pin<Box<dyn Future<Output = Result<String>> + Send>>;

#[derive(Clone, Copy)]
struct Stage {
    /// A file of 1000 bytes, open.
    small: (Ino, Handle),
    /// A file of some chunks, open.
    large: (Ino, Handle),
    /// The small file, for appending.
    append: Handle,
}

type Operation = fn(Session, Stage) -> Told;

fn plain(attr: &Attr) -> String {
    let Attr { mode, nlink, uid, gid, rdev, size, blocks, .. } = attr;
    format!("{mode:o} {nlink} {uid} {gid} {rdev} {size} {blocks}")
}

macro_rules! operations {
    ($($kind:literal, $name:literal, |$session:ident, $stage:ident| $body:expr;)*) => {
        const OPERATIONS: &[(&str, &str, Operation)] = &[$((
            $kind,
            $name,
            |$session, $stage| Box::pin(async move { let _ = $stage; $body }),
        ),)*];
    };
}

fn done(_: ()) -> String {
    "done".to_owned()
}

fn lock(kind: LockKind, start: u64, end: u64) -> Lock {
    Lock { kind, start, end, pid: 1 }
}

operations! {
    "create", "a new file", |session, _stage| {
        let made = session.create(&root(), ROOT, b"n", 0o640, OpenFlags::READ_WRITE).await?;
        session.write(&root(), made.1, 0, b"hello").await?;
        Ok(plain(&made.0))
    };
    "create", "a file that must be new", |session, _stage| {
        let flags = OpenFlags { exclusive: true, ..OpenFlags::READ_WRITE };
        Ok(plain(&session.create(&root(), ROOT, b"n", 0o640, flags).await?.0))
    };
    "create", "a file that is there", |session, _stage| {
        let flags = OpenFlags { truncate: true, ..OpenFlags::READ_WRITE };
        Ok(plain(&session.create(&root(), ROOT, b"small", 0o640, flags).await?.0))
    };
    "mkdir", "a directory", |session, _stage| {
        session.mkdir(&root(), ROOT, b"n", 0o750).await.map(|attr| plain(&attr))
    };
    "mknod", "a pipe", |session, _stage| {
        session.mknod(&root(), ROOT, b"n", mode::FIFO | 0o600, 0).await.map(|attr| plain(&attr))
    };
    "symlink", "a symbolic link", |session, _stage| {
        session.symlink(&root(), ROOT, b"n", b"to").await.map(|attr| plain(&attr))
    };
    "tmpfile", "a file without a name", |session, _stage| {
        let (attr, handle) = session.tmpfile(&root(), ROOT, 0o600, OpenFlags::READ_WRITE).await?;
        session.write(&root(), handle, 0, b"hello").await?;
        Ok(plain(&attr))
    };
    "link", "another name", |session, stage| {
        session.link(&root(), stage.small.0, ROOT, b"n").await.map(|attr| plain(&attr))
    };
    "unlink", "the last name of a closed file", |session, _stage| {
        session.unlink(&root(), ROOT, b"other").await.map(done)
    };
    "unlink", "the last name of an open file", |session, _stage| {
        session.unlink(&root(), ROOT, b"large").await.map(done)
    };
    "unlink", "one of two names", |session, _stage| {
        session.unlink(&root(), ROOT, b"twin").await.map(done)
    };
    "rmdir", "a directory", |session, _stage| {
        session.rmdir(&root(), ROOT, b"dir").await.map(done)
    };
    "rename", "to a new name", |session, _stage| {
        let flags = RenameFlags::default();
        session.rename(&root(), ROOT, b"small", ROOT, b"n", flags).await.map(done)
    };
    "rename", "over another", |session, _stage| {
        let flags = RenameFlags::default();
        session.rename(&root(), ROOT, b"small", ROOT, b"other", flags).await.map(done)
    };
    "rename", "in exchange", |session, _stage| {
        let flags = RenameFlags { exchange: true, ..RenameFlags::default() };
        session.rename(&root(), ROOT, b"small", ROOT, b"dir", flags).await.map(done)
    };
    "rename", "leaving a whiteout", |session, _stage| {
        let flags = RenameFlags { whiteout: true, ..RenameFlags::default() };
        session.rename(&root(), ROOT, b"small", ROOT, b"n", flags).await.map(done)
    };
    "setattr", "mode and owner", |session, stage| {
        let set = SetAttr { mode: Some(0o4711), uid: Some(7), ..SetAttr::default() };
        session.setattr(&root(), stage.small.0, &set, None).await.map(|attr| plain(&attr))
    };
    "setattr", "a shorter size", |session, stage| {
        let set = SetAttr { size: Some(70_000), ..SetAttr::default() };
        session.setattr(&root(), stage.large.0, &set, None).await.map(|attr| plain(&attr))
    };
    "setattr", "no size at all", |session, stage| {
        let set = SetAttr { size: Some(0), ..SetAttr::default() };
        session.setattr(&root(), stage.large.0, &set, None).await.map(|attr| plain(&attr))
    };
    "write", "a few bytes", |session, stage| {
        Ok(session.write(&root(), stage.small.1, 500, &pattern(5, 700)).await?.to_string())
    };
    "write", "at the end", |session, stage| {
        Ok(session.write(&root(), stage.append, 0, &pattern(5, 700)).await?.to_string())
    };
    "write", "more than a transaction holds, at the end", |session, stage| {
        Ok(session.write(&root(), stage.append, 0, &pattern(5, 3_000_000)).await?.to_string())
    };
    "write", "more than a transaction holds, over what is there", |session, stage| {
        Ok(session.write(&root(), stage.large.1, 9, &pattern(5, 2_000_000)).await?.to_string())
    };
    "copy_range", "from one file to another", |session, stage| {
        let (from, to) = (stage.large.1, stage.small.1);
        Ok(session.copy_range(&root(), from, 5, to, 900, 1_500_000).await?.to_string())
    };
    "fallocate", "a hole", |session, stage| {
        let what = Fallocate::PunchHole;
        session.fallocate(&root(), stage.large.1, what, 100_000, 900_000).await.map(done)
    };
    "fallocate", "space behind the end", |session, stage| {
        let what = Fallocate::Allocate { keep_size: false };
        session.fallocate(&root(), stage.large.1, what, 0, 12 << 20).await.map(done)
    };
    "xattr", "set", |session, stage| {
        let name = b"user.n";
        session.setxattr(&root(), stage.small.0, name, b"v", XattrMode::Create).await.map(done)
    };
    "xattr", "removed", |session, stage| {
        session.removexattr(&root(), stage.small.0, b"user.x").await.map(done)
    };
    "lock", "a range", |session, stage| {
        let lock = lock(LockKind::Write, 100, 200);
        session.setlk(stage.small.1, 5, lock, true).await.map(done)
    };
    "lock", "a range freed", |session, stage| {
        let lock = lock(LockKind::Unlock, 5, 6);
        session.setlk(stage.small.1, 1, lock, true).await.map(done)
    };
    "lock", "a file", |session, stage| {
        session.flock(stage.small.1, 5, LockKind::Read, false).await.map(done)
    };
}

/// Everything that can be seen of a volume, without numbers and times.
async fn shape(session: &Session) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let mut dirs = vec![(String::new(), ROOT)];
    while let Some((path, ino)) = dirs.pop() {
        let attr = session.getattr(ino).await.unwrap();
        seen.insert(format!("{path}/"), plain(&attr));
        for name in names_of(session, ino).await {
            let attr = session.lookup(&root(), ino, &name).await.unwrap();
            let path = format!("{path}/{}", name.escape_ascii());
            if attr.file_type() == FileType::Directory {
                dirs.push((path, attr.ino));
                continue;
            }
            let mut told = plain(&attr);
            if attr.file_type() == FileType::File {
                let bytes = contents(session, attr.ino).await;
                told += &format!(" {}", base::checksum::hash64(0, &bytes));
            }
            for name in session.listxattr(&root(), attr.ino).await.unwrap() {
                told += &format!(" {name:?}");
            }
            seen.insert(path, told);
        }
    }
    seen.insert("usage".to_owned(), format!("{:?}", session.usage().await.unwrap()));
    let left = keys(session.volume()).await;
    let count = |what: &str, is: fn(&Parsed) -> bool| {
        (what.to_owned(), left.iter().filter(|key| is(key)).count().to_string())
    };
    seen.extend([
        count("leases", |key| matches!(key, Parsed::Lease { .. })),
        count("held", |key| matches!(key, Parsed::Held { .. })),
        count("locks", |key| matches!(key, Parsed::Lock { .. })),
        count("garbage", |key| matches!(key, Parsed::Garbage { .. })),
        count("jobs", |key| matches!(key, Parsed::Job { .. })),
    ]);
    seen
}

async fn set_stage(session: &Session) -> Stage {
    let root = &root();
    let open = |ino| session.open(root, ino, OpenFlags::READ_WRITE);
    let small = file(session, ROOT, b"small", &pattern(1, 1000)).await;
    session.link(root, small, ROOT, b"twin").await.unwrap();
    session.setxattr(root, small, b"user.x", b"y", XattrMode::Any).await.unwrap();
    let large = file(session, ROOT, b"large", &pattern(2, 2_500_000)).await;
    file(session, ROOT, b"other", &pattern(3, 100_000)).await;
    dir(session, b"dir").await;
    let handle = open(small).await.unwrap();
    session.setlk(handle, 1, lock(LockKind::Write, 0, 10), false).await.unwrap();
    let append = OpenFlags { append: true, ..OpenFlags::READ_WRITE };
    Stage {
        small: (small, handle),
        large: (large, open(large).await.unwrap()),
        append: session.open(root, small, append).await.unwrap(),
    }
}

/// Runs an operation with some of its commits unknown. Returns what it answered, what can be seen
/// afterwards, and how many commits it took.
fn perform(
    operation: Operation,
    sharing: Sharing,
    unknown: &[(u64, bool)],
) -> (String, BTreeMap<String, String>, u64) {
    let bench = Bench::sim(1, kv::sim::bounds_like_etcd);
    block_on(bench.volume());
    let (world, probe) = bench.probed();
    let (session, stage) = block_on(async {
        let volume = Volume::open(&world, "test").await.unwrap();
        let session = Session::start(&volume, SessionOptions { sharing, ..shared() });
        let session = session.await.unwrap();
        let stage = set_stage(&session).await;
        settle(&session).await;
        (session, stage)
    });
    probe.unknown(unknown);
    let told = run(&bench.clock, operation(session.clone(), stage)).unwrap();
    let commits = probe.counts().commits;
    let volume = session.volume().clone();
    run(&bench.clock, async move {
        audit(&volume, false).await;
        settle(&session).await;
        audit(&volume, true).await;
        (told, shape(&session).await, commits)
    })
}

#[test]
fn every_operation_that_needs_it_is_tried() {
    let mut wanted: Vec<&str> = fs::op::KINDS
        .iter()
        .filter(|(_, kind)| *kind == OpKind::NeedsReplay)
        .map(|(name, _)| *name)
        .collect();
    let mut tried: Vec<&str> = OPERATIONS.iter().map(|(kind, _, _)| *kind).collect();
    wanted.sort_unstable();
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(tried, wanted);
}

fn answers_the_same_whatever_becomes_of_a_commit(sharing: Sharing) {
    for (kind, name, operation) in OPERATIONS {
        let (told, seen, commits) = perform(*operation, sharing, &[]);
        assert!(commits > 0, "{kind}, {name}");
        for nth in 1..=commits {
            for unknown in [
                &[(nth, true)][..],
                &[(nth, false)],
                // The next try is the second commit.
                &[(nth, false), (nth + 1, true)],
                &[(nth, false), (nth + 1, false), (nth + 2, false)],
            ] {
                println!("{kind}, {name}: {unknown:?}");
                let (other_told, other_seen, _) = perform(*operation, sharing, unknown);
                assert_eq!(other_told, told);
                assert_eq!(other_seen, seen);
            }
        }
    }
}

#[test]
fn an_unknown_commit_of_a_shared_session_happens_once_and_answers_the_same() {
    answers_the_same_whatever_becomes_of_a_commit(Sharing::Shared);
}

#[test]
fn an_unknown_commit_of_a_private_session_happens_once_and_answers_the_same() {
    answers_the_same_whatever_becomes_of_a_commit(Sharing::Private);
}

#[test]
fn opening_and_releasing_may_happen_twice() {
    for nth in 1..=6 {
        for happened in [true, false] {
            println!("{nth} {happened}");
            let bench = Bench::sim(1, unbounded);
            block_on(bench.volume());
            let (world, probe) = bench.probed();
            run(&bench.clock, async move {
                let volume = Volume::open(&world, "test").await.unwrap();
                let session = shared_session(&volume).await;
                let ino = file(&session, ROOT, b"f", b"x").await;
                probe.unknown(&[(nth, happened)]);
                let handle = session.open(&root(), ino, OpenFlags::READ).await.unwrap();
                session.unlink(&root(), ROOT, b"f").await.unwrap();
                assert_eq!(session.read(handle, 0, 5).await.unwrap(), &b"x"[..]);
                session.release(handle).await.unwrap();
                assert_eq!(session.usage().await.unwrap(), (0, 1));
                settle(&session).await;
                audit(&volume, true).await;
            });
        }
    }
}

#[test]
fn nothing_is_known_of_a_directory_that_an_unknown_commit_removed() {
    let bench = Bench::sim(1, unbounded);
    block_on(bench.volume());
    let (world, probe) = bench.probed();
    run(&bench.clock, async move {
        let volume = Volume::open(&world, "test").await.unwrap();
        let options = SessionOptions { sharing: Sharing::Private, ..shared() };
        let session = Session::start(&volume, options).await.unwrap();
        let ino = session.mkdir(&root(), ROOT, b"d", 0o755).await.unwrap().ino;
        let handle = session.opendir(&root(), ino).await.unwrap();
        session.rmdir(&root(), ROOT, b"d").await.unwrap();
        assert_eq!(session.getattr(ino).await.unwrap().nlink, 0);
        // The second try finds nothing to remove, and what the first has made as newest version.
        probe.unknown(&[(1, true)]);
        session.releasedir(handle).await.unwrap();
        assert_eq!(session.getattr(ino).await.unwrap_err().kind(), Kind::NotFound);
    });
}

#[test]
fn starting_and_stopping_may_happen_twice() {
    for sharing in [Sharing::Shared, Sharing::Private] {
        for nth in 1..=8 {
            for happened in [true, false] {
                println!("{sharing:?} {nth} {happened}");
                let bench = Bench::sim(1, unbounded);
                let (world, probe) = bench.probed();
                run(&bench.clock, async move {
                    probe.unknown(&[(nth, happened)]);
                    let format = FormatOptions { chunk_bytes: 1 << 20, ..FormatOptions::default() };
                    let volume = Volume::format(&world, "test", &format).await.unwrap();
                    let options = SessionOptions { sharing, ..shared() };
                    let session = Session::start(&volume, options.clone()).await.unwrap();
                    let flags = OpenFlags::READ_WRITE;
                    session.create(&root(), ROOT, b"f", 0o644, flags).await.unwrap();
                    session.stop().await.unwrap();
                    let sessions = |key: &&Parsed| matches!(key, Parsed::Session { .. });
                    assert_eq!(keys(&volume).await.iter().find(sessions), None);
                    let next = Session::start(&volume, options).await.unwrap();
                    settle(&next).await;
                    assert_eq!(names_of(&next, ROOT).await, [b"f"]);
                    audit(&volume, true).await;
                });
            }
        }
    }
}

async fn replies(volume: &Volume) -> usize {
    keys(volume).await.iter().filter(|key| matches!(key, Parsed::Op { .. })).count()
}

#[test]
fn the_log_of_replies_stays_short() {
    block_on(async {
        let bench = Bench::sim(1, unbounded);
        let volume = bench.volume().await;
        let session = shared_session(&volume).await;
        let (_, handle) =
            session.create(&root(), ROOT, b"f", 0o644, OpenFlags::READ_WRITE).await.unwrap();
        for number in 0..1000u64 {
            session.write(&root(), handle, number, b"x").await.unwrap();
            assert!(replies(&volume).await <= 66, "{number}");
        }
    });
}

#[test]
fn the_log_of_replies_stays_short_while_many_are_under_way() {
    let bench = Bench::sim(4, unbounded);
    let volume = block_on(bench.volume());
    let session = block_on(shared_session(&volume));
    let mut scheduler = base::Scheduler::new(4, bench.clock.clone());
    for task in 0..8 {
        let session = session.clone();
        scheduler.spawn(async move {
            for number in 0..60 {
                let name = format!("{task} {number}");
                session.mknod(&root(), ROOT, name.as_bytes(), mode::FIFO, 0).await.unwrap();
                session.unlink(&root(), ROOT, name.as_bytes()).await.unwrap();
            }
        });
    }
    bench.stir();
    scheduler.run().unwrap();
    bench.calm();
    assert!(block_on(replies(&volume)) <= 64 + 2 * 8, "{}", block_on(replies(&volume)));
}

#[test]
fn the_log_of_replies_goes_with_its_session() {
    block_on(async {
        let bench = Bench::sim(1, unbounded);
        let volume = bench.volume().await;
        let dead = shared_session(&volume).await;
        let ending = shared_session(&volume).await;
        dir(&dead, b"a").await;
        dir(&ending, b"b").await;
        ending.stop().await.unwrap();
        let session = shared_session(&volume).await;
        assert!(replies(&volume).await >= 2);
        outlive(&bench, &session).await;
        let others =
            |key: &&Parsed| matches!(key, Parsed::Op { session: of, .. } if *of != session.id());
        assert_eq!(keys(&volume).await.iter().find(others), None);
        audit(&volume, true).await;
    });
}

#[test]
fn a_reply_is_what_was_written_even_if_others_came_between() {
    // The first try happened; before the second, another session takes what it made away.
    let bench = Bench::sim(1, unbounded);
    let volume = block_on(bench.volume());
    let (world, probe) = bench.probed();
    let other = block_on(shared_session(&volume));
    let session =
        block_on(async { shared_session(&Volume::open(&world, "test").await.unwrap()).await });
    probe.unknown(&[(1, true)]);
    let mut scheduler = base::Scheduler::new(0, bench.clock.clone());
    let making = session.clone();
    let made = spawn(&mut scheduler, async move { making.mkdir(&root(), ROOT, b"d", 0o755).await });
    let removed = spawn(&mut scheduler, async move {
        while other.rmdir(&root(), ROOT, b"d").await.is_err() {
            base::exec::yield_now().await;
        }
    });
    scheduler.run().unwrap();
    assert_eq!(made.take().unwrap().nlink, 2);
    removed.take();
    assert_eq!(session.counts().replays, 1);
    assert_eq!(block_on(names_of(&session, ROOT)), Vec::<Vec<u8>>::new());
}

#[test]
fn bytes_survive_random_faults() {
    for seed in 0..30 {
        println!("seed {seed}");
        let bench = Bench::sim(seed, kv::sim::bounds_like_etcd);
        let volume = block_on(bench.volume());
        let session = block_on(shared_session(&volume));
        bench.sim.as_ref().unwrap().set_faults(kv::sim::Faults::ALL);
        let working = session.clone();
        run(&bench.clock, async move {
            let append = OpenFlags { append: true, ..OpenFlags::READ_WRITE };
            let (_, handle) = working.create(&root(), ROOT, b"f", 0o644, append).await.unwrap();
            let mut wanted = Vec::new();
            for len in [10, 3000, 70_000, 1, 2_000_000, 5] {
                let bytes = pattern(len as u8, len);
                assert_eq!(working.write(&root(), handle, 0, &bytes).await.unwrap(), len);
                wanted.extend_from_slice(&bytes);
            }
            let mut read = Vec::new();
            while read.len() < wanted.len() {
                read.extend_from_slice(
                    &working.read(handle, read.len() as u64, 1 << 20).await.unwrap(),
                );
            }
            assert_eq!(Bytes::from(read), Bytes::from(wanted));
            working.release(handle).await.unwrap();
            working.unlink(&root(), ROOT, b"f").await.unwrap();
        });
        bench.calm();
        block_on(async {
            settle(&session).await;
            assert_eq!(session.usage().await.unwrap(), (0, 1));
            audit(&volume, true).await;
        });
    }
}
