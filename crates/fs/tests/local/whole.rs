//! Files in blocks, of a mount that had no home, become whole files of the home when they were open.

use crate::crash::{begin, files_of, home, world};
use crate::races::{slow, spawn, tend, work};
use crate::world::{format, on_bench, options, pattern, read, root, run, write};
use base::disk::{Cut, Fault, FaultKind};
use base::{Random, Scheduler, SeededRandom, SimClock, SimDisk};
use fs::schema::Form;
use fs::{
    Check, DataForm, Ino, NoProgress, OpenFlags, ROOT, Result, Session, SessionOptions, SetAttr,
    Volume,
};
use home::SimHome;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

const LARGE: usize = 1_500_000;
const HOLE: std::ops::Range<usize> = 600_000..900_000;
const SEEDS: u64 = 40;

fn without_home() -> SessionOptions {
    SessionOptions { local: false, ..options() }
}

/// Bytes with a hole.
fn bytes(tag: u8) -> Vec<u8> {
    let mut bytes = pattern(tag, LARGE);
    bytes[HOLE].fill(0);
    bytes
}

/// Makes files in blocks, by a session that lends none.
async fn prepare(volume: &Volume) -> Result<Ino> {
    let session = Session::start(volume, without_home()).await?;
    let flags = OpenFlags::READ_WRITE;
    let (attr, handle) = session.create(&root(), ROOT, b"large", 0o644, flags).await?;
    let bytes = bytes(1);
    write(&session, handle, 0, &bytes[..HOLE.start]).await;
    write(&session, handle, HOLE.end as u64, &bytes[HOLE.end..]).await;
    session.fsync(handle).await?;
    session.release(handle).await?;
    session.stop().await?;
    Ok(attr.ino)
}

async fn touch(session: &Session, ino: Ino) -> Result<()> {
    let handle = session.open(&root(), ino, OpenFlags::READ).await?;
    session.release(handle).await
}

#[test]
fn a_file_in_blocks_that_was_open_becomes_whole() {
    on_bench(async |mut bench| {
        bench.session.stop().await.unwrap();
        let ino = prepare(&bench.volume).await.unwrap();
        assert_eq!(bench.form(ino).await, Form::Mapped);
        bench.die().await;
        bench.settle().await;
        // Nobody has opened it.
        assert_eq!(bench.form(ino).await, Form::Mapped);
        let before = bench.session.getattr(ino).await.unwrap();
        let handle = bench.open(ino).await;
        bench.settle().await;
        assert_eq!(bench.form(ino).await, Form::Mapped, "somebody has it open");
        bench.session.release(handle).await.unwrap();
        bench.settle().await;
        assert_eq!(bench.form(ino).await, Form::Local);
        let after = bench.session.getattr(ino).await.unwrap();
        assert_eq!(
            (after.size, after.mtime, after.ctime),
            (before.size, before.mtime, before.ctime)
        );
        assert!(bench.contents(ino).await == bytes(1));
        bench.session.maintain().await.unwrap();
        bench.audit().await;
        // It is one like any other from here on.
        let handle = bench.open(ino).await;
        write(&bench.session, handle, 10, b"changed").await;
        bench.session.release(handle).await.unwrap();
        bench.restart().await;
        let mut changed = bytes(1);
        changed[10..17].copy_from_slice(b"changed");
        assert!(bench.contents(ino).await == changed);
        bench.audit().await;
    });
}

/// A machine with a volume that has the file, in blocks, all of it durable.
fn machine(clock: &SimClock) -> (SimDisk, SimHome, Ino) {
    let disk = SimDisk::new();
    let home = home(&disk, clock);
    let (on, of) = (disk.clone(), home.sharing());
    let by = clock.clone();
    let ino = run(clock, async move {
        let world = world(&on, &by, of).unwrap();
        let volume = Volume::format(&world, "test", &format()).await.unwrap();
        prepare(&volume).await.unwrap()
    });
    (disk, home, ino)
}

/// Opens it, and lets it become whole; what the disk says against that is no failure.
async fn live(disk: &SimDisk, clock: &SimClock, home: SimHome, ino: Ino) -> Result<Session> {
    let world = world(disk, clock, home)?;
    let volume = Volume::open(&world, "test").await?;
    let session = begin(&volume).await?;
    touch(&session, ino).await?;
    for _ in 0..4 {
        clock.advance(Duration::from_secs(40));
        session.settle(false).await?;
        session.maintain().await?;
    }
    Ok(session)
}

async fn check(disk: &SimDisk, clock: &SimClock, home: SimHome, ino: Ino, context: &str) -> bool {
    let session = live(disk, clock, home, ino).await.expect(context);
    let handle = session.open(&root(), ino, OpenFlags::READ).await.expect(context);
    assert!(read(&session, handle).await == bytes(1), "{context}: other bytes");
    session.release(handle).await.expect(context);
    let report = Check::new(session.volume()).run(&NoProgress).await.expect(context);
    assert!(report.findings.is_empty(), "{context}: {:?}", report.findings);
    matches!(session.info(ino).await.expect(context).form, DataForm::Local)
}

/// All that can be told of a disk that was left, by a process that comes after.
fn told(left: SimDisk, clock: &SimClock, home: SimHome, ino: Ino, context: String) {
    let by = clock.clone();
    let whole = run(clock, async move { check(&left, &by, home, ino, &context).await });
    assert!(whole, "it becomes whole after all");
}

/// A life on a copy of a disk, in which something happens at an operation.
fn strike(
    (disk, home): (&SimDisk, &SimHome),
    clock: &SimClock,
    ino: Ino,
    fault: Option<Fault>,
) -> (SimDisk, SimHome) {
    let copy = disk.reboot(Cut::Kept, 1);
    let home = home.reborn(files_of(&copy));
    if let Some(Fault { at, kind }) = fault {
        copy.set_fault(Fault { at: copy.operations() + at, kind });
    }
    let (on, of, by) = (copy.clone(), home.sharing(), clock.clone());
    let _ = run(clock, async move { live(&on, &by, of, ino).await.map(drop) });
    (copy, home)
}

#[test]
fn it_is_there_whenever_power_goes() {
    let all = std::env::var("SEAMOUNT_CUTS").is_ok_and(|cuts| cuts == "all");
    let clock = SimClock::new();
    let (disk, home, ino) = machine(&clock);
    let before = disk.reboot(Cut::Kept, 1).operations();
    let (whole, _) = strike((&disk, &home), &clock, ino, None);
    let operations = whole.operations() - before;
    println!("{operations} operations");
    assert!(operations > 20);
    for at in 0..operations {
        for (number, cut) in
            [Cut::Dropped, Cut::Torn, Cut::Reordered, Cut::Kept].into_iter().enumerate()
        {
            if !all && (at % 4) as usize != number {
                continue;
            }
            let fault = Fault { at, kind: FaultKind::PowerCut };
            let (died, died_home) = strike((&disk, &home), &clock, ino, Some(fault));
            let left = died.reboot(cut, at);
            let home = died_home.reborn(files_of(&left));
            told(left, &clock, home, ino, format!("operation {at}, {cut:?}"));
        }
    }
}

#[test]
fn it_is_there_whatever_the_disk_refuses() {
    let clock = SimClock::new();
    let (disk, home, ino) = machine(&clock);
    let before = disk.reboot(Cut::Kept, 1).operations();
    let (whole, _) = strike((&disk, &home), &clock, ino, None);
    for at in 0..whole.operations() - before {
        for kind in [FaultKind::Error, FaultKind::SyncError, FaultKind::Full, FaultKind::ShortWrite]
        {
            let context = format!("operation {at}, {kind:?}");
            let (died, died_home) = strike((&disk, &home), &clock, ino, Some(Fault { at, kind }));
            died.clear_faults();
            let left = died.reboot(Cut::Dropped, at);
            let home = died_home.reborn(files_of(&left));
            told(left, &clock, home, ino, context);
        }
    }
}

#[test]
fn whoever_writes_meanwhile_loses_nothing() {
    let (mut moved, mut kept) = (0, 0);
    for seed in 0..SEEDS {
        let mut bench = slow(seed);
        let (of, clock) = (bench.clone(), bench.clock.clone());
        let ino = run(&clock, async move {
            of.session.stop().await.unwrap();
            prepare(&of.volume).await.unwrap()
        });
        let volume = bench.volume.clone();
        bench.session = run(&clock, async move { crate::world::begin(&volume, options()).await });
        let mut scheduler = Scheduler::new(seed, clock.clone());
        let working = Arc::new(AtomicUsize::new(0));
        let (beside, guard) = (bench.clone(), work(&working));
        spawn(&mut scheduler, async move {
            let _guard = guard;
            let random = SeededRandom::new(seed);
            let mut known = bytes(1);
            for round in 0..6_u8 {
                let handle = beside.open(ino).await;
                for _ in 0..random.below(3) {
                    let at = random.below(known.len() as u64 - 100) as usize;
                    write(&beside.session, handle, at as u64, &[round; 100]).await;
                    known[at..at + 100].fill(round);
                }
                if random.below(4) == 0 {
                    let len = known.len() - random.below(100_000) as usize;
                    let cut = SetAttr { size: Some(len as u64), ..SetAttr::default() };
                    beside.session.setattr(&root(), ino, &cut, None).await.unwrap();
                    known.truncate(len);
                }
                assert!(read(&beside.session, handle).await == known, "seed {seed}, round {round}");
                beside.session.release(handle).await.unwrap();
                let size = beside.session.getattr(ino).await.unwrap().size;
                assert_eq!(size as usize, known.len(), "seed {seed}, round {round}");
            }
            assert!(beside.contents(ino).await == known, "seed {seed}");
        });
        let (beside, counter) = (bench.clone(), Arc::clone(&working));
        spawn(&mut scheduler, tend(beside, counter));
        scheduler.run().unwrap();
        let of = bench.clone();
        let form = run(&clock, async move {
            let form = of.form(ino).await;
            of.settle().await;
            of.session.maintain().await.unwrap();
            of.audit().await;
            form
        });
        match form {
            Form::Mapped => kept += 1,
            _ => moved += 1,
        }
    }
    println!("{moved} moved under way, {kept} behind it");
    assert!(moved > 0);
}
