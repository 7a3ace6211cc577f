//! What is told of files, trees and sessions; collecting garbage.

mod volumes;

use crate::audit::audit;
use crate::world::*;
use base::sync::Mutex;
use base::{Random, Scheduler, SeededRandom, block_on};
use fs::blob::block::Codec;
use fs::schema::{Job, Parsed};
use fs::*;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// Counts what it is told, and stops after so many.
struct Told {
    last: Mutex<u64>,
    stop_at: u64,
}

impl Told {
    fn until(stop_at: u64) -> Self {
        Self { last: Mutex::new(0), stop_at }
    }
}

impl Progress for Told {
    fn advance(&self, done: u64, _total: Option<u64>) {
        let mut last = self.last.lock();
        assert!(done >= *last, "progress goes on, not back");
        *last = done;
    }

    fn goes_on(&self) -> bool {
        *self.last.lock() < self.stop_at
    }
}

#[test]
fn a_path_is_followed_without_following_links() {
    block_on(async {
        let session = private_session(&Bench::mem().volume().await).await;
        let a = dir(&session, b"a").await;
        let b = session.mkdir(&root(), a, b"b \xff", 0o755).await.unwrap().ino;
        let f = file(&session, b, b"f", b"x").await;
        let link = session.symlink(&root(), ROOT, b"link", b"a").await.unwrap().ino;
        let of = async |path: &[u8]| session.resolve(path).await;
        for (path, ino) in [
            (&b""[..], ROOT),
            (b"/", ROOT),
            (b"/a", a),
            (b"a/", a),
            (b"//a/./b \xff", b),
            (b"a/b \xff/f", f),
            (b"a/b \xff/../..", ROOT),
            (b"/..", ROOT),
            (b"link", link),
        ] {
            assert_eq!(of(path).await.unwrap(), ino, "{}", path.escape_ascii());
        }
        for (path, kind) in [
            (&b"/c"[..], Kind::NotFound),
            (b"a/c/d", Kind::NotFound),
            (b"link/b", Kind::NotDirectory),
            (b"link/", Kind::NotDirectory),
            (b"a/b \xff/f/g", Kind::NotDirectory),
            (b"a/b \xff/f/", Kind::NotDirectory),
            (b"a/b \xff/f/..", Kind::NotDirectory),
        ] {
            assert_eq!(of(path).await.unwrap_err().kind(), kind, "{}", path.escape_ascii());
        }
    });
}

#[test]
fn a_file_is_told_with_its_stretches_and_what_is_stored() {
    block_on(async {
        let options = FormatOptions {
            chunk_bytes: MIB as u32,
            block_bytes: Some(4096),
            codec: Codec::None,
            ..FormatOptions::default()
        };
        let volume = Bench::mem().volume_with(&options).await;
        let session = private_session(&volume).await;

        let small = file(&session, ROOT, b"small", &pattern(1, 100)).await;
        let info = session.info(small).await.unwrap();
        assert_eq!((info.form, info.blob, info.home), (DataForm::Inline, Some(small), "store"));
        assert_eq!((info.chunks, info.blocks, info.stored_bytes), (0, 0, 114));
        assert_eq!(info.extents, [Extent { start: 0, end: 100, stored_bytes: 114 }]);
        assert_eq!(info.attr, session.getattr(small).await.unwrap());

        let flags = OpenFlags::READ_WRITE;
        let (attr, handle) = session.create(&root(), ROOT, b"large", 0o644, flags).await.unwrap();
        write_all(&session, handle, MIB - 4096, &pattern(2, 8192)).await;
        write_all(&session, handle, 5 * MIB + 10, b"tail").await;
        let keep = Fallocate::Allocate { keep_size: true };
        session.fallocate(&root(), handle, keep, 6 * MIB, 8192).await.unwrap();
        let value = [7; 300];
        session.setxattr(&root(), attr.ino, b"user.a", &value, XattrMode::Any).await.unwrap();
        let info = session.info(attr.ino).await.unwrap();
        assert_eq!((info.form, info.chunks, info.blocks), (DataForm::Mapped, 4, 5));
        assert_eq!(info.stored_bytes, 2 * (4096 + 14) + 14 + 14);
        let extent = |start, end, stored_bytes| Extent { start, end, stored_bytes };
        assert_eq!(
            info.extents,
            [
                extent(MIB - 4096, MIB + 4096, 2 * (4096 + 14)),
                extent(5 * MIB, 5 * MIB + 4096, 28),
                extent(6 * MIB, 6 * MIB + 8192, 0),
            ]
        );
        assert!(!info.extents_cut);
        assert_eq!(info.xattrs, [("user.a".into(), 300)]);
        assert_eq!((info.target, info.locks), (None, 0));

        let link = session.symlink(&root(), ROOT, b"link", b"to").await.unwrap().ino;
        let info = session.info(link).await.unwrap();
        assert_eq!((info.form, info.blob), (DataForm::None, None));
        assert_eq!(info.target.as_deref(), Some(&b"to"[..]));
        let info = session.info(ROOT).await.unwrap();
        assert_eq!((info.form, info.stored_bytes), (DataForm::None, 0));
        assert_eq!(session.info(999).await.unwrap_err().kind(), Kind::NotFound);
    });
}

#[test]
fn parity_counts_as_stored_and_what_is_staged_does_not() {
    block_on(async {
        let options = FormatOptions {
            chunk_bytes: MIB as u32,
            block_bytes: Some(4096),
            codec: Codec::None,
            parity_group: 4,
            ..FormatOptions::default()
        };
        let volume = Bench::mem().volume_with(&options).await;
        let session = private_session(&volume).await;
        let ino = file(&session, ROOT, b"f", &pattern(1, 5 * 4096)).await;
        let info = session.info(ino).await.unwrap();
        let block = 4096 + 14;
        // Two groups, of four members and of one.
        let parity = (15 + 4 * 24 + block) + (15 + 24 + block);
        assert_eq!(info.stored_bytes, 5 * block + parity);
        assert_eq!(info.extents, [Extent { start: 0, end: 5 * 4096, stored_bytes: 5 * block }]);
        // A block under a generation that the map does not name.
        let mut place =
            fs::schema::BlockPlace { slot: 0, blob: ino, chunk: 0, block: 1, generation: 9 };
        let mut txn = volume.world().store.begin().await.unwrap();
        txn.put(&volume.keys().unparse(&Parsed::Block(place)), vec![1; 500]).unwrap();
        place.chunk = 1;
        txn.put(&volume.keys().unparse(&Parsed::Block(place)), vec![1; 500]).unwrap();
        txn.commit(kv::Durability::Process).await.unwrap();
        assert_eq!(session.info(ino).await.unwrap(), info);
    });
}

#[test]
fn stretches_have_a_bound() {
    block_on(async {
        let options = FormatOptions {
            block_bytes: Some(1024),
            chunk_bytes: 1 << 20,
            ..FormatOptions::default()
        };
        let session = private_session(&Bench::mem().volume_with(&options).await).await;
        let flags = OpenFlags::READ_WRITE;
        let (attr, handle) = session.create(&root(), ROOT, b"f", 0o644, flags).await.unwrap();
        let count = Info::EXTENTS_MAX as u64 + 5;
        for at in 0..count {
            session.write(&root(), handle, at * 2048, b"x").await.unwrap();
        }
        let info = session.info(attr.ino).await.unwrap();
        assert_eq!((info.extents.len(), info.extents_cut), (Info::EXTENTS_MAX, true));
        assert_eq!(info.blocks, count);
        assert_eq!(info.stored_bytes, count * 15);
    });
}

#[test]
fn leases_and_locks_are_told_and_so_are_sessions() {
    block_on(async {
        let volume = Bench::mem().volume().await;
        let options = |host: &str, pid| SessionOptions { host: host.into(), pid, ..shared() };
        let one = Session::start(&volume, options("north", 11)).await.unwrap();
        let two = Session::start(&volume, options("south", 22)).await.unwrap();
        let (attr, _) =
            one.create(&root(), ROOT, b"f", 0o644, OpenFlags::READ_WRITE).await.unwrap();
        let handle = two.open(&root(), attr.ino, OpenFlags::READ_WRITE).await.unwrap();
        let lock = |start, end| Lock { kind: LockKind::Write, start, end, pid: 1 };
        two.setlk(handle, 5, lock(0, 10), false).await.unwrap();
        two.setlk(handle, 5, lock(20, 30), false).await.unwrap();
        let info = two.info(attr.ino).await.unwrap();
        let mut hosts: Vec<(u64, &str, u32)> =
            info.leases.iter().map(|lease| (lease.session, &*lease.host, lease.pid)).collect();
        hosts.sort_by_key(|lease| lease.2);
        assert_eq!(hosts, [(one.id(), "north", 11), (two.id(), "south", 22)]);
        assert_eq!(info.locks, 2);

        two.beat().await.unwrap();
        two.beat().await.unwrap();
        let sessions = one.sessions().await.unwrap();
        assert!(sessions.is_sorted_by_key(|info| info.session));
        let mut told: Vec<_> =
            sessions.iter().map(|info| (info.pid, &*info.host, info.beats, info.own)).collect();
        told.sort_unstable();
        assert_eq!(told, [(11, "north", 0, true), (22, "south", 2, false)]);
        two.stop().await.unwrap();
        assert_eq!(one.sessions().await.unwrap().len(), 1);
        assert_eq!(one.info(attr.ino).await.unwrap().leases.len(), 1);
    });
}

/// A random tree with hard links; returns its directories.
async fn tree(session: &Session, seed: u64, steps: usize) -> Vec<Ino> {
    println!("seed {seed}");
    let random = SeededRandom::new(seed);
    let mut dirs = vec![ROOT];
    let mut files = Vec::new();
    for step in 0..steps {
        let parent = dirs[random.below(dirs.len() as u64) as usize];
        let name = format!("{step}").into_bytes();
        match random.below(8) {
            0 => dirs.push(session.mkdir(&root(), parent, &name, 0o755).await.unwrap().ino),
            1 => drop(session.symlink(&root(), parent, &name, b"target").await.unwrap()),
            2 => drop(session.mknod(&root(), parent, &name, mode::FIFO | 0o644, 0).await.unwrap()),
            3 | 4 if !files.is_empty() => {
                let ino = files[random.below(files.len() as u64) as usize];
                session.link(&root(), ino, parent, &name).await.unwrap();
            }
            _ => {
                let len = random.below(40_000) as usize;
                files.push(file(session, parent, &name, &pattern(1, len)).await);
            }
        }
    }
    dirs
}

/// The same sum, made by listing.
async fn plain_sum(session: &Session, top: Ino) -> Summary {
    let mut sum = Summary::default();
    let mut seen = std::collections::BTreeSet::new();
    let mut waiting = vec![top];
    let mut add = |sum: &mut Summary, attr: &Attr| {
        if !seen.insert(attr.ino) {
            return;
        }
        match attr.file_type() {
            FileType::File => sum.files += 1,
            FileType::Directory => sum.directories += 1,
            FileType::Symlink => sum.symlinks += 1,
            _ => sum.others += 1,
        }
        sum.bytes += attr.size;
        sum.taken_bytes += attr.blocks * 512;
    };
    add(&mut sum, &session.getattr(top).await.unwrap());
    while let Some(dir) = waiting.pop() {
        let handle = session.opendir(&root(), dir).await.unwrap();
        for (entry, attr) in session.readdirplus(handle, 0, usize::MAX).await.unwrap() {
            if [&b"."[..], b".."].contains(&&entry.name[..]) {
                continue;
            }
            sum.entries += 1;
            add(&mut sum, &attr);
            if attr.file_type() == FileType::Directory {
                waiting.push(attr.ino);
            }
        }
        session.releasedir(handle).await.unwrap();
    }
    sum
}

#[test]
fn a_walk_adds_up_what_listing_does() {
    block_on(async {
        for seed in 0..4 {
            let volume = Bench::mem().volume().await;
            let session = private_session(&volume).await;
            let dirs = tree(&session, seed, 400).await;
            for top in dirs.into_iter().take(10) {
                let walk = Walk::new(&session, top);
                assert_eq!(walk.so_far(), Summary::default());
                walk.run().await.unwrap();
                assert_eq!(walk.so_far(), plain_sum(&session, top).await, "at {top}");
            }
        }
    });
}

#[test]
fn a_walk_of_one_file_and_of_what_is_not_there() {
    block_on(async {
        let session = private_session(&Bench::mem().volume().await).await;
        let ino = file(&session, ROOT, b"f", b"hello").await;
        session.link(&root(), ino, ROOT, b"g").await.unwrap();
        let walk = Walk::new(&session, ino);
        walk.run().await.unwrap();
        let wanted = Summary { files: 1, bytes: 5, taken_bytes: 4096, ..Summary::default() };
        assert_eq!(walk.so_far(), wanted);
        let walk = Walk::new(&session, 999);
        assert_eq!(walk.run().await.unwrap_err().kind(), Kind::NotFound);
    });
}

#[test]
fn a_walk_reads_large_directories_page_by_page() {
    block_on(async {
        let session = private_session(&Bench::mem().volume().await).await;
        for at in 0..2500 {
            let name = format!("{at:05}").into_bytes();
            session.mknod(&root(), ROOT, &name, mode::FILE | 0o644, 0).await.unwrap();
        }
        let walk = Walk::new(&session, ROOT);
        walk.run().await.unwrap();
        assert_eq!((walk.so_far().files, walk.so_far().entries), (2500, 2500));
    });
}

#[test]
fn several_share_a_walk_and_one_may_leave_in_its_midst() {
    for seed in 0..6 {
        let bench = Bench::sim(seed, unbounded);
        let volume = block_on(bench.volume());
        let session = block_on(private_session(&volume));
        block_on(tree(&session, seed, 300));
        let wanted = block_on(plain_sum(&session, ROOT));
        bench.stir();
        let walk = Arc::new(Walk::new(&session, ROOT));
        let mut scheduler = Scheduler::new(seed, bench.clock.clone());
        let runs: Vec<_> = (0..4)
            .map(|_| {
                let walk = Arc::clone(&walk);
                spawn(&mut scheduler, async move { walk.run().await })
            })
            .collect();
        // One who takes a place and is never heard of again.
        let mut leaver = {
            let walk = Arc::clone(&walk);
            Box::pin(async move { walk.run().await })
        };
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(leaver.as_mut().poll(&mut context).is_pending());
        drop(leaver);
        scheduler.run().unwrap();
        bench.calm();
        for run in runs {
            run.take().unwrap();
        }
        assert_eq!(walk.so_far(), wanted);
    }
}

#[test]
fn a_walk_that_is_stopped_ends() {
    block_on(async {
        let session = private_session(&Bench::mem().volume().await).await;
        tree(&session, 1, 50).await;
        let walk = Walk::new(&session, ROOT);
        walk.stop();
        walk.run().await.unwrap();
        assert_eq!(walk.so_far(), Summary::default());
    });
}

/// Several files of many chunks, removed, with everything left to do.
async fn litter(session: &Session) {
    for name in [&b"a"[..], b"b"] {
        let flags = OpenFlags::READ_WRITE;
        let (_, handle) = session.create(&root(), ROOT, name, 0o644, flags).await.unwrap();
        for chunk in 0..40 {
            session.write(&root(), handle, chunk * MIB, b"x").await.unwrap();
        }
        session.release(handle).await.unwrap();
        session.unlink(&root(), ROOT, name).await.unwrap();
    }
}

#[test]
fn collecting_leaves_nothing_to_do() {
    block_on(async {
        let volume = Bench::mem().volume().await;
        let session = private_session(&volume).await;
        let kept = file(&session, ROOT, b"kept", b"x").await;
        litter(&session).await;
        let (handle_attr, handle) =
            session.create(&root(), ROOT, b"open", 0o644, OpenFlags::READ_WRITE).await.unwrap();
        session.unlink(&root(), ROOT, b"open").await.unwrap();
        assert_eq!(session.jobs().await.unwrap().len(), 2);
        let told = Told::until(u64::MAX);
        let done = session.gc(&told).await.unwrap();
        assert!(done.job_steps >= 6, "{done:?}");
        assert_eq!(*told.last.lock(), done.job_steps + done.inodes);
        assert_eq!((done.jobs_left, done.sessions), (0, 0));
        assert_eq!(done.bytes, 80 * u64::from(volume.record().block_bytes));
        assert_eq!(session.jobs().await.unwrap(), []);
        // What is open stays.
        session.getattr(handle_attr.ino).await.unwrap();
        session.getattr(kept).await.unwrap();
        session.release(handle).await.unwrap();
        assert_eq!(session.gc(&NoProgress).await.unwrap(), Collected::default());
        audit(&volume, true).await;
    });
}

#[test]
fn collecting_can_be_stopped_and_gone_on_with() {
    block_on(async {
        let volume = Bench::mem().volume().await;
        let session = private_session(&volume).await;
        litter(&session).await;
        let error = session.gc(&Told::until(2)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted);
        audit(&volume, false).await;
        assert!(session.gc(&NoProgress).await.unwrap().job_steps > 0);
        audit(&volume, true).await;
    });
}

#[test]
fn collecting_leaves_the_blocks_of_others_who_write() {
    block_on(async {
        let volume = Bench::mem().volume().await;
        let session = shared_session(&volume).await;
        let other = shared_session(&volume).await;
        let stage =
            Job::Stage { session: other.id(), slot: 0, blob: 5, generation: 77, next: 0, end: 3 };
        let key = volume.keys().unparse(&Parsed::Job { job: 77 });
        let mut txn = volume.world().store.begin().await.unwrap();
        txn.put(&key, stage.encode(&key)).unwrap();
        txn.commit(kv::Durability::Process).await.unwrap();
        let done = session.gc(&NoProgress).await.unwrap();
        assert_eq!((done.jobs_left, done.job_steps), (1, 0));
        other.stop().await.unwrap();
        let done = session.gc(&NoProgress).await.unwrap();
        assert_eq!(done.jobs_left, 0);
        assert_eq!(session.jobs().await.unwrap(), []);
    });
}
