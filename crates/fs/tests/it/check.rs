//! The check of a volume: nothing is found in a sound one, whatever it was used for, and everything
//! that is made wrong is found and named.

mod cases;
mod lab;
mod rotten;

use crate::audit::audit;
use crate::world::*;
use base::{Random, SeededRandom, SimClock, SimDisk, block_on};
use cases::Case;
use fs::blob::block::Codec;
use fs::schema::*;
use fs::*;
use kv::Engine;
use kv::mem::Mem;
use kv::sim::bounds_tight;
use kv_local::{Local, Options};
use lab::{BLOCK, Lab, MIB, NOBODY};
use rotten::Rotten;
use std::collections::BTreeSet;
use std::sync::Arc;

fn all_cases(cases: &[Case], parity_group: u8) {
    block_on(async {
        for (kinds, words, spoil) in cases {
            let lab = Lab::new(parity_group).await;
            assert_eq!(lab.check(Vec::new()).await, [], "before");
            let found = lab.check(spoil(&lab)).await;
            let mut named: Vec<&str> = found.iter().map(|finding| finding.kind).collect();
            named.sort_unstable();
            assert_eq!(named, *kinds, "{found:?}");
            let said = found.iter().any(|finding| finding.what.contains(words));
            assert!(said, "{words:?} is not said: {found:?}");
        }
    });
}

#[test]
fn wrong_names_are_found() {
    all_cases(cases::NAMES, 0);
}

#[test]
fn wrong_records_are_found() {
    all_cases(cases::RECORDS, 0);
}

#[test]
fn wrong_data_is_found() {
    all_cases(cases::DATA, 0);
}

#[test]
fn wrong_parity_is_found() {
    all_cases(cases::PARITY, 4);
}

#[test]
fn what_is_held_or_waits_is_no_finding() {
    block_on(async {
        for (number, change) in cases::LEGAL.iter().enumerate() {
            let lab = Lab::new(0).await;
            assert_eq!(lab.check(change(&lab)).await, [], "case {number}");
        }
    });
}

#[test]
fn what_a_session_is_about_is_no_finding() {
    block_on(async {
        let volume = Bench::mem().volume_with(&format(4)).await;
        let session = private_session(&volume).await;
        let flags = OpenFlags::READ_WRITE;
        let mut open = Vec::new();
        for (name, size) in [(b"a", 100), (b"b", 100_000), (b"c", 0)] {
            let (attr, handle) = session.create(&root(), ROOT, name, 0o644, flags).await.unwrap();
            write_all(&session, handle, 0, &pattern(1, size)).await;
            session.unlink(&root(), ROOT, name).await.unwrap();
            open.push((attr.ino, handle));
        }
        let (_, nameless) = session.tmpfile(&root(), ROOT, 0o644, flags).await.unwrap();
        let (attr, handle) = session.create(&root(), ROOT, b"cut", 0o644, flags).await.unwrap();
        for chunk in 0..40 {
            session.write(&root(), handle, chunk * MIB, b"x").await.unwrap();
        }
        let set = SetAttr { size: Some(2 * MIB + 1), ..SetAttr::default() };
        session.setattr(&root(), attr.ino, &set, None).await.unwrap();
        let waiting: Vec<&str> = session.jobs().await.unwrap().iter().map(Job::name).collect();
        assert_eq!(waiting, ["trim"]);
        assert_clean(&volume, "a trim waits").await;
        session.unlink(&root(), ROOT, b"cut").await.unwrap();
        session.release(handle).await.unwrap();
        assert_eq!(session.jobs().await.unwrap()[0].name(), "drop");
        assert_clean(&volume, "a drop waits").await;
        for (_, handle) in open {
            session.release(handle).await.unwrap();
            assert_clean(&volume, "one file less is open").await;
        }
        session.release(nameless).await.unwrap();
        settle(&session).await;
        assert_clean(&volume, "all is done").await;
    });
}

#[test]
fn parity_where_there_is_none_is_found() {
    block_on(async {
        let lab = Lab::new(0).await;
        let at = lab.parity(0, 63);
        let key = lab.volume.keys().unparse(&at);
        let parity = fs::blob::parity::Parity::default().encode(&key);
        let found = lab.check(vec![(at, Some(parity))]).await;
        assert_eq!(
            found.iter().map(|finding| finding.kind).collect::<Vec<_>>(),
            ["parity-unneeded"]
        );
    });
}

#[test]
fn every_kind_of_finding_has_a_case() {
    let all = [cases::NAMES, cases::RECORDS, cases::DATA, cases::PARITY].concat();
    let mut seen: BTreeSet<&str> = all.iter().flat_map(|case| case.0).copied().collect();
    // That has a test of its own below.
    seen.insert("unreadable");
    // These need a home: they have tests in `local`.
    seen.extend([
        "backing-nobody",
        "backing-owned",
        "backing-twice",
        "local-missing",
        "local-size",
        "local-unknown",
    ]);
    let known: BTreeSet<&str> = FINDING_KINDS.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(seen, known);
    assert_eq!(known.len(), FINDING_KINDS.len(), "each once");
}

#[test]
fn keys_that_are_none_are_found_wherever_they_are() {
    block_on(async {
        let prefix = Lab::new(0).await.volume.keys().all().start.to_vec();
        let raw: [&[u8]; 9] =
            [b"A", b"V", b"Mx", b"i\0", b"i\0\0\0\0\0\0\0\x01\x09", b"d", b"cc", b"pp", b"z\xfe"];
        for tail in raw {
            let lab = Lab::new(0).await;
            let key = [&prefix[..], tail].concat();
            let found = lab.check_raw([(key, Some(vec![1]))].into_iter()).await;
            let kinds: Vec<_> = found.iter().map(|finding| finding.kind).collect();
            assert_eq!(kinds, ["unknown-key"], "{}", tail.escape_ascii());
        }
    });
}

#[test]
fn findings_have_a_bound_and_are_all_counted() {
    block_on(async {
        let lab = Lab::new(0).await;
        let count = FINDINGS_MAX + 7;
        let mut txn = lab.volume.world().store.begin().await.unwrap();
        for ino in 0..count as u64 {
            let garbage = Parsed::Garbage { ino: NOBODY + ino };
            txn.put(&lab.volume.keys().unparse(&garbage), &b"l"[..]).unwrap();
        }
        txn.commit(kv::Durability::Process).await.unwrap();
        let report = Check::new(&lab.volume).run(&NoProgress).await.unwrap();
        assert_eq!(report.findings.len(), FINDINGS_MAX);
        assert_eq!(report.findings_total, count as u64);
        assert!(report.complete && !report.is_clean());
    });
}

#[test]
fn a_report_counts_what_there_is() {
    block_on(async {
        let lab = Lab::new(0).await;
        let report = Check::new(&lab.volume).run(&NoProgress).await.unwrap();
        assert_eq!((report.inodes, report.entries, report.blocks), (9, 9, 6));
        let session = private_session(&lab.volume).await;
        assert_eq!((report.bytes, report.inodes), session.usage().await.unwrap());
        assert_eq!(report.keys, lab.found.len() as u64);
    });
}

#[test]
fn a_check_that_is_not_deep_looks_at_no_bytes() {
    block_on(async {
        let lab = Lab::new(4).await;
        let spoilt =
            vec![lab.flip(lab.block(0, 254)), lab.flip(Parsed::Inline { blob: lab.small })];
        let found = lab.check(spoilt).await;
        assert_eq!(found.len(), 2, "{found:?}");
        let report = Check::new(&lab.volume).deep(false).run(&NoProgress).await.unwrap();
        assert_eq!(report.findings, []);
        // It misses no block all the same.
        lab.check(vec![(lab.block(0, 253), None)]).await;
        let report = Check::new(&lab.volume).deep(false).run(&NoProgress).await.unwrap();
        assert_eq!(report.findings.len(), 1);
        assert_eq!(report.findings[0].kind, "block-missing");
    });
}

struct Stop;

impl Progress for Stop {
    fn advance(&self, _done: u64, _total: Option<u64>) {}

    fn goes_on(&self) -> bool {
        false
    }
}

#[test]
fn a_check_can_be_stopped() {
    block_on(async {
        let lab = Lab::new(0).await;
        let error = Check::new(&lab.volume).run(&Stop).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted);
    });
}

#[test]
fn a_store_that_cannot_be_read_is_said_to_be_so() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let session = private_session(&volume).await;
        file(&session, ROOT, b"f", &pattern(1, 100_000)).await;
        let engine = Arc::clone(bench.world.store.engine());
        let world = bench.through(Arc::new(Rotten(engine)));
        let volume = Volume::open(&world, "test").await.unwrap();
        let report = Check::new(&volume).run(&NoProgress).await.unwrap();
        assert!(!report.complete && !report.is_clean());
        let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, ["unreadable"]);
        assert!(report.findings[0].what.contains("a table is damaged"), "{:?}", report.findings);
    });
}

async fn assert_clean(volume: &Volume, when: &str) {
    let report = Check::new(volume).run(&NoProgress).await.unwrap();
    assert_eq!(report.findings, [], "{when}");
    assert!(report.is_clean());
}

/// Random work by one session; errors are answers too. Every so often it is checked.
async fn scramble(session: &Session, seed: u64, steps: usize, check_every: usize) -> Result<()> {
    let random = SeededRandom::new(seed);
    let below = |count: usize| random.below(count as u64) as usize;
    let mut dirs = vec![ROOT];
    let mut files: Vec<Ino> = Vec::new();
    let mut open: Vec<Handle> = Vec::new();
    let caller = root();
    let fatal = |error: &Error| matches!(error.kind(), Kind::Io | Kind::Corrupt | Kind::Stale);
    for step in 0..steps {
        let parent = dirs[below(dirs.len())];
        let other = dirs[below(dirs.len())];
        let (name, second) = (vec![b'a' + below(6) as u8], vec![b'a' + below(6) as u8]);
        let size = [10, 3000, 40_000, 700_000][below(4)];
        let at = random.below(3 * MIB);
        let done: Result<()> = match below(16) {
            0 => session.mkdir(&caller, parent, &name, 0o755).await.map(|attr| dirs.push(attr.ino)),
            1 | 2 => {
                let made =
                    session.create(&caller, parent, &name, 0o644, OpenFlags::READ_WRITE).await;
                made.map(|(attr, handle)| {
                    files.push(attr.ino);
                    open.push(handle);
                })
            }
            3..=5 if !open.is_empty() => {
                let bytes = pattern(step as u8, 1 + below(size));
                let at = if random.one_in(3) { 0 } else { at };
                session.write(&caller, open[below(open.len())], at, &bytes).await.map(drop)
            }
            6 if !open.is_empty() => {
                let what = [
                    Fallocate::PunchHole,
                    Fallocate::Allocate { keep_size: true },
                    Fallocate::ZeroRange { keep_size: false },
                ][below(3)];
                let handle = open[below(open.len())];
                session.fallocate(&caller, handle, what, at, size as u64).await
            }
            7 | 8 if !files.is_empty() => {
                let set = SetAttr {
                    size: Some(if random.one_in(3) { 0 } else { at }),
                    ..SetAttr::default()
                };
                session.setattr(&caller, files[below(files.len())], &set, None).await.map(drop)
            }
            9 => session.unlink(&caller, parent, &name).await,
            10 => session.rmdir(&caller, parent, &name).await,
            11 => {
                let flags = RenameFlags { exchange: random.one_in(4), ..RenameFlags::default() };
                session.rename(&caller, parent, &name, other, &second, flags).await
            }
            12 if !files.is_empty() => {
                let ino = files[below(files.len())];
                session.link(&caller, ino, parent, &name).await.map(drop)
            }
            13 => session.symlink(&caller, parent, &name, b"somewhere").await.map(drop),
            14 => {
                let ino = if random.one_in(2) { parent } else { *files.last().unwrap_or(&ROOT) };
                match below(3) {
                    0 => session.setxattr(&caller, ino, b"user.x", &name, XattrMode::Any).await,
                    1 => session.removexattr(&caller, ino, b"user.x").await,
                    _ => {
                        let mut list = fs::acl::Acl::from_mode(0o750).encode();
                        // A mask makes it more than a mode.
                        list.extend_from_slice(&[0x10, 0, 5, 0, 0xff, 0xff, 0xff, 0xff]);
                        let name = b"system.posix_acl_access";
                        session.setxattr(&caller, ino, name, &list, XattrMode::Any).await
                    }
                }
            }
            _ if open.len() > 3 || random.one_in(2) => match open.pop() {
                Some(handle) => session.release(handle).await,
                None => Ok(()),
            },
            _ => session.maintain().await.map(drop),
        };
        if let Err(error) = done
            && fatal(&error)
        {
            return Err(error);
        }
        if step % check_every == check_every - 1 {
            assert_clean(session.volume(), &format!("seed {seed}, step {step}")).await;
        }
    }
    Ok(())
}

fn format(parity_group: u8) -> FormatOptions {
    FormatOptions {
        chunk_bytes: MIB as u32,
        block_bytes: Some(BLOCK as u32),
        codec: Codec::Lz4,
        parity_group,
        ..FormatOptions::default()
    }
}

fn local(seed: u64) -> Arc<dyn Engine> {
    let options = Options { memory_bytes: 200_000, level_scale: 1 << 14 };
    let disk = Arc::new(SimDisk::new());
    Arc::new(Local::open(disk, None, &SeededRandom::new(seed), options).unwrap())
}

#[test]
fn nothing_is_found_in_a_volume_that_was_used() {
    for seed in 0..12 {
        let engine: Arc<dyn Engine> =
            if seed % 2 == 0 { Arc::new(Mem::new()) } else { local(seed) };
        println!("seed {seed} on {}", engine.capabilities().name);
        block_on(async {
            let bench = Bench::on(engine, SimClock::new(), None);
            let volume = bench.volume_with(&format([0, 4][seed as usize / 2 % 2])).await;
            let sharing = if seed % 3 == 0 { Sharing::Shared } else { Sharing::Private };
            let options = SessionOptions { sharing, ..SessionOptions::default() };
            let session = Session::start(&volume, options.clone()).await.unwrap();
            scramble(&session, seed, 200, 50).await.unwrap();
            // It dies with files open; another one comes.
            drop(session);
            assert_clean(&volume, "after a death").await;
            let session = Session::start(&volume, options).await.unwrap();
            assert_clean(&volume, "with a new session").await;
            outlive(&bench, &session).await;
            assert_clean(&volume, "settled").await;
            audit(&volume, true).await;
            session.stop().await.unwrap();
            assert_clean(&volume, "stopped").await;
        });
    }
}

#[test]
fn nothing_is_found_wherever_the_work_was_cut() {
    // Small transactions, so that writes are staged and removals are jobs.
    for cut in (0..160).step_by(7) {
        println!("seed {cut}, cut after {cut} commits");
        let bench = Bench::sim(cut, bounds_tight);
        block_on(async {
            let options = FormatOptions { chunk_bytes: MIB as u32, ..FormatOptions::default() };
            let volume = bench.volume_with(&options).await;
            let (world, probe) = bench.probed();
            let through = Volume::open(&world, "test").await.unwrap();
            let session = shared_session(&through).await;
            probe.cut_after(cut);
            let _ = scramble(&session, cut, 300, usize::MAX).await;
            assert_clean(&volume, "cut").await;
            let other = shared_session(&volume).await;
            outlive(&bench, &other).await;
            assert_clean(&volume, "gone on with").await;
        });
    }
}
