//! Lives that end at any operation of the disk: by the death of the process, or by the loss of power.
//!
//! Every byte of a file is the file's own number, so a byte of another file is seen. Names are compared with those
//! between the last sync and the end. `SEAMOUNT_CUTS=all` tries every kind of cut at every operation.

use crate::audit::audit;
use crate::world::{Kernel, format, options, root, run};
use base::disk::{Cut, Fault, FaultKind};
use base::{Clock, Disk, Random, SeededRandom, SimClock, SimDisk};
use fs::{
    Check, Handle, Ino, NoProgress, OpenFlags, ROOT, RenameFlags, Result, Session, SetAttr, Time,
    Volume, World,
};
use home::SimHome;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const STEPS: usize = 45;
const NAMES: u64 = 5;

/// What should be there of an inode.
#[derive(Clone, Debug, Default)]
struct File {
    tag: u8,
    bytes: Vec<u8>,
    mtime: Time,
    /// What a sync made durable, if nothing was changed since.
    synced: Option<(Vec<u8>, Time)>,
}

type Names = BTreeMap<String, Ino>;

/// What is known of a life.
#[derive(Clone, Debug, Default)]
struct Known {
    files: BTreeMap<Ino, File>,
    names: Names,
    /// Those that the store may have after the loss of power, the last one last.
    since: Vec<Names>,
    made: u8,
    /// The file that a step which failed was about.
    touched: Option<Ino>,
    /// The last step failed.
    failed: bool,
}

struct Life {
    session: Session,
    clock: SimClock,
    disk: SimDisk,
    known: Known,
    open: BTreeMap<Ino, Handle>,
    random: SeededRandom,
}

pub(crate) fn world(disk: &SimDisk, clock: &SimClock, home: SimHome) -> Result<World> {
    let options = kv_local::Options { memory_bytes: 400_000, level_scale: 1 << 14 };
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(3));
    let engine =
        kv_local::Local::open(Arc::new(disk.clone()), None, &SeededRandom::new(1), options)?;
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let store = kv::Store::new(Arc::new(engine), Arc::clone(&clock), Arc::clone(&random));
    Ok(World { store, clock, random, home: Some(Arc::new(home)) })
}

/// Where the files of a home are: names of another directory than the store's are made durable, or not, by themselves.
pub(crate) fn files_of(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.directory("files"))
}

pub(crate) fn home(disk: &SimDisk, clock: &SimClock) -> SimHome {
    let home = SimHome::new(files_of(disk), Arc::new(clock.clone()), 1);
    home.with_descriptors().unwrap()
}

pub(crate) async fn begin(volume: &Volume) -> Result<Session> {
    let session = Session::start(volume, options()).await?;
    session.set_registrar(Some(Arc::new(Kernel::default())));
    session.settle(false).await?;
    Ok(session)
}

impl Life {
    fn draw(&self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    /// Some file that has a name.
    fn some(&self) -> Option<(String, Ino)> {
        let count = self.known.names.len() as u64;
        let at = self.draw(count.max(1)) as usize;
        self.known.names.iter().nth(at).map(|(name, ino)| (name.clone(), *ino))
    }

    async fn handle(&mut self, ino: Ino) -> Result<Handle> {
        if let Some(handle) = self.open.get(&ino) {
            return Ok(*handle);
        }
        let handle = self.session.open(&root(), ino, OpenFlags::READ_WRITE).await?;
        self.open.insert(ino, handle);
        Ok(handle)
    }

    async fn close(&mut self, ino: Ino) -> Result<()> {
        match self.open.remove(&ino) {
            Some(handle) => self.session.release(handle).await,
            None => Ok(()),
        }
    }

    fn named(&mut self, change: impl FnOnce(&mut Names)) {
        change(&mut self.known.names);
        self.known.since.push(self.known.names.clone());
    }

    fn synced(&mut self) {
        self.known.since = vec![self.known.names.clone()];
    }

    async fn changed(&mut self, ino: Ino) -> Result<()> {
        let attr = self.session.getattr(ino).await?;
        if self.disk.is_dead() {
            return Err(fs::Error::new(fs::Kind::Io, "power is gone"));
        }
        let file = self.known.files.get_mut(&ino).unwrap();
        assert_eq!(attr.size, file.bytes.len() as u64, "the size of {ino}");
        (file.mtime, file.synced) = (attr.mtime, None);
        Ok(())
    }

    /// One step. What it changes is known before it is asked for, as an error does not say how far it came.
    async fn step(&mut self) -> Result<()> {
        self.clock.advance(Duration::from_millis(50));
        let some = self.some();
        self.known.touched = some.as_ref().map(|(_, ino)| *ino);
        match (self.draw(20), some) {
            (0..=4, _) => self.make().await,
            (5..=8, Some((_, ino))) => {
                let handle = self.handle(ino).await?;
                let at = [0, 10, 3000, 5000][self.draw(4) as usize];
                let len = [5, 2000, 9000][self.draw(3) as usize];
                let file = self.known.files.get_mut(&ino).unwrap();
                file.synced = None;
                if file.bytes.len() < at + len {
                    file.bytes.resize(at + len, 0);
                }
                file.bytes[at..at + len].fill(file.tag);
                let bytes = vec![file.tag; len];
                self.session.write(&root(), handle, at as u64, &bytes).await?;
                self.changed(ino).await
            }
            (9, Some((_, ino))) => {
                let size = [0, 100, 6000][self.draw(3) as usize];
                let file = self.known.files.get_mut(&ino).unwrap();
                file.synced = None;
                file.bytes.resize(size, 0);
                let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
                self.session.setattr(&root(), ino, &set, None).await?;
                self.changed(ino).await
            }
            (10..=11, Some((_, ino))) => {
                let handle = self.handle(ino).await?;
                self.session.fsync(handle).await?;
                let file = self.known.files.get_mut(&ino).unwrap();
                file.synced = Some((file.bytes.clone(), file.mtime));
                self.synced();
                Ok(())
            }
            (12, _) => {
                self.session.sync_all().await?;
                for file in self.known.files.values_mut() {
                    file.synced = Some((file.bytes.clone(), file.mtime));
                }
                self.synced();
                Ok(())
            }
            (13, Some((name, _))) => {
                self.named(|names| {
                    names.remove(&name);
                });
                self.session.unlink(&root(), ROOT, name.as_bytes()).await
            }
            (14, Some((name, ino))) => {
                let to = format!("n{}", self.draw(NAMES));
                self.named(|names| {
                    names.remove(&name);
                    names.insert(to.clone(), ino);
                });
                let (from, to, flags) = (name.as_bytes(), to.as_bytes(), RenameFlags::default());
                self.session.rename(&root(), ROOT, from, ROOT, to, flags).await
            }
            (15..=16, Some((_, ino))) => self.close(ino).await,
            (17, _) => {
                self.clock.advance(Duration::from_secs(6));
                self.session.settle(false).await.map(drop)
            }
            _ => {
                for ino in self.open.keys().copied().collect::<Vec<_>>() {
                    self.close(ino).await?;
                }
                self.session.settle(true).await?;
                self.session.maintain().await.map(drop)
            }
        }
    }

    async fn make(&mut self) -> Result<()> {
        let name = format!("n{}", self.draw(NAMES));
        if self.known.names.contains_key(&name) {
            return Ok(());
        }
        self.known.made += 1;
        let tag = self.known.made;
        let flags = OpenFlags::READ_WRITE;
        let made = self.session.create(&root(), ROOT, name.as_bytes(), 0o644, flags).await;
        if made.is_err() {
            // It may be there: then it has nothing in it, and a number that nobody knows.
            self.named(|names| {
                names.insert(name.clone(), 0);
            });
        }
        let (attr, handle) = made?;
        self.open.insert(attr.ino, handle);
        let file = File { tag, bytes: Vec::new(), mtime: attr.mtime, synced: None };
        self.known.files.insert(attr.ino, file);
        self.named(|names| {
            names.insert(name, attr.ino);
        });
        Ok(())
    }
}

/// What is found after the end.
async fn verify(session: &Session, known: &Known, power_lost: bool, story: &str) {
    let dir = session.opendir(&root(), ROOT).await.unwrap();
    let listed = session.readdir(dir, 0, usize::MAX).await.unwrap();
    session.releasedir(dir).await.unwrap();
    let mut found = Names::new();
    for entry in listed.into_iter().skip(2) {
        found.insert(String::from_utf8(entry.name.to_vec()).unwrap(), entry.ino);
    }
    // A number that nobody was told is any.
    let fits = |names: &Names| {
        names.len() == found.len()
            && names.iter().zip(&found).all(|((name, ino), (other, at))| {
                name == other && (ino == at || (*ino == 0 && !known.files.contains_key(at)))
            })
    };
    // A step that failed may have been done.
    let unsure = if known.failed { 2 } else { 1 };
    let least = known.since.len().saturating_sub(unsure);
    let rights = if power_lost { &known.since[..] } else { &known.since[least..] };
    assert!(rights.iter().any(fits), "{story}: {found:?} is none of {rights:?}");
    for (name, ino) in found {
        let attr = session.getattr(ino).await.unwrap();
        let handle = session.open(&root(), ino, OpenFlags::READ).await.unwrap();
        let bytes = crate::world::read(session, handle).await;
        session.release(handle).await.unwrap();
        assert_eq!(attr.size, bytes.len() as u64, "{story}: the size of {name}");
        let Some(file) = known.files.get(&ino) else {
            assert!(bytes.is_empty(), "{story}: {name} was just made");
            continue;
        };
        let strange = bytes.iter().find(|byte| **byte != 0 && **byte != file.tag);
        assert_eq!(strange, None, "{story}: {name} has bytes of another file");
        let right = match power_lost {
            true => file.synced.clone(),
            false if known.touched == Some(ino) => None,
            false => Some((file.bytes.clone(), file.mtime)),
        };
        if let Some((right, mtime)) = right {
            assert!(bytes == right, "{story}: {name} has {} bytes", bytes.len());
            assert_eq!(attr.mtime, mtime, "{story}: the time of {name}");
        }
    }
}

struct Lived {
    known: Known,
    home: SimHome,
    clock: SimClock,
    finished: bool,
    /// Changes that were made without a transaction.
    short: u64,
}

/// Lives until the end or the fault.
fn live(disk: &SimDisk, seed: u64) -> Lived {
    let clock = SimClock::new();
    let own = home(disk, &clock);
    let (on, at) = (disk.clone(), clock.clone());
    let copy = own.sharing();
    let (known, finished, short) = run(&clock, async move {
        let begun = async {
            let world = world(&on, &at, copy)?;
            let volume = Volume::format(&world, "test", &format()).await?;
            begin(&volume).await
        };
        let Ok(session) = begun.await else { return (Known::default(), false, 0) };
        let known = Known { since: vec![Names::new()], ..Known::default() };
        let random = SeededRandom::new(seed);
        let mut life = Life { session, clock: at, disk: on, known, open: BTreeMap::new(), random };
        for _ in 0..STEPS {
            if life.step().await.is_err() {
                life.known.failed = true;
                return (life.known, false, life.session.counts().short_changes);
            }
        }
        life.known.touched = None;
        (life.known, true, life.session.counts().short_changes)
    });
    Lived { known, home: own, clock, finished, short }
}

/// Begins again on what is left, twice: what is there must also stay.
fn again(disk: SimDisk, home: SimHome, lived: &Lived, power_lost: bool, story: String) {
    let known = lived.known.clone();
    if known.since.is_empty() {
        return;
    }
    let clock = lived.clock.clone();
    let at = clock.clone();
    run(&clock, async move {
        let world = world(&disk, &at, home).unwrap();
        let volume = Volume::open(&world, "test").await.unwrap();
        let clean = async |when: &str| {
            audit(&volume, false).await;
            let report = Check::new(&volume).run(&NoProgress).await.unwrap();
            assert_eq!(report.findings, [], "{story}: {when}");
        };
        clean("before anybody comes").await;
        let session = begin(&volume).await.unwrap();
        verify(&session, &known, power_lost, &story).await;
        clean("after the beginning").await;
        session.maintain().await.unwrap();
        // Others get files that were given back.
        for number in 0..4 {
            let name = format!("new {number}");
            let flags = OpenFlags::READ_WRITE;
            let made = session.create(&root(), ROOT, name.as_bytes(), 0o644, flags).await;
            let (_, handle) = made.unwrap();
            session.write(&root(), handle, 0, &[255; 9000]).await.unwrap();
            session.release(handle).await.unwrap();
            at.advance(Duration::from_secs(6));
            session.settle(number % 2 == 0).await.unwrap();
            session.unlink(&root(), ROOT, name.as_bytes()).await.unwrap();
        }
        at.advance(Duration::from_secs(6));
        for _ in 0..5 {
            session.settle(true).await.unwrap();
        }
        verify(&session, &known, power_lost, &format!("{story}, settled")).await;
        clean("settled").await;
        session.stop().await.unwrap();
        let session = begin(&volume).await.unwrap();
        verify(&session, &known, power_lost, &format!("{story}, the next time")).await;
        session.stop().await.unwrap();
        clean("at the end").await;
    });
}

fn seeds() -> Vec<u64> {
    match std::env::var("SEAMOUNT_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => vec![1, 2, 3],
    }
}

#[test]
fn what_returned_is_there_after_the_death_of_the_process() {
    for seed in seeds() {
        println!("seed {seed}");
        let disk = SimDisk::new();
        let lived = live(&disk, seed);
        assert!(lived.finished);
        let copy = disk.reboot(Cut::Kept, 1);
        let home = lived.home.on_copy(files_of(&copy));
        again(copy, home, &lived, false, format!("seed {seed}"));
    }
}

#[test]
fn what_was_synced_is_there_after_the_loss_of_power() {
    let all = std::env::var("SEAMOUNT_CUTS").is_ok_and(|cuts| cuts == "all");
    let cuts = [Cut::Dropped, Cut::Torn, Cut::Reordered, Cut::Kept];
    for seed in seeds() {
        let disk = SimDisk::new();
        let whole = live(&disk, seed);
        let (operations, short) = (disk.operations(), whole.short);
        println!("seed {seed}: {operations} operations, {short} changes the short way");
        assert!(whole.finished && short > 0);
        for at in 0..operations {
            if !all && (at + seed) % 4 != 0 {
                continue;
            }
            let disk = SimDisk::new();
            disk.set_fault(Fault { at, kind: FaultKind::PowerCut });
            let lived = live(&disk, seed);
            for (number, cut) in cuts.into_iter().enumerate() {
                if !all && (at / 4) % 4 != number as u64 {
                    continue;
                }
                let left = disk.reboot(cut, at);
                if left.list().unwrap().is_empty() {
                    continue;
                }
                let home = lived.home.reborn(files_of(&left));
                again(left, home, &lived, true, format!("seed {seed}, operation {at}, {cut:?}"));
            }
        }
    }
}

/// Does something on a new volume, loses power, and tells what is in the file of this name then.
fn after_a_cut<F>(name: &'static str, before: impl FnOnce(Session, SimClock) -> F) -> Vec<u8>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (disk, clock) = (SimDisk::new(), SimClock::new());
    let own = home(&disk, &clock);
    let world_then = world(&disk, &clock, own.sharing()).unwrap();
    let session = run(&clock, async move {
        let volume = Volume::format(&world_then, "test", &format()).await.unwrap();
        begin(&volume).await.unwrap()
    });
    run(&clock, before(session, clock.clone()));
    let left = disk.reboot(Cut::Dropped, 1);
    let world_now = world(&left, &clock, own.reborn(files_of(&left))).unwrap();
    run(&clock, async move {
        let volume = Volume::open(&world_now, "test").await.unwrap();
        let session = begin(&volume).await.unwrap();
        let attr = session.lookup(&root(), ROOT, name.as_bytes()).await.unwrap();
        let handle = session.open(&root(), attr.ino, OpenFlags::READ).await.unwrap();
        crate::world::read(&session, handle).await
    })
}

#[test]
fn a_file_that_stays_open_is_made_durable_after_a_while() {
    let bytes = after_a_cut("log", |session, clock| async move {
        let flags = OpenFlags::READ_WRITE;
        let (_, handle) = session.create(&root(), ROOT, b"log", 0o644, flags).await.unwrap();
        session.write(&root(), handle, 0, &[7; 50_000]).await.unwrap();
        for _ in 0..3 {
            clock.advance(Duration::from_secs(16));
            session.settle(false).await.unwrap();
        }
        session.write(&root(), handle, 50_000, &[8; 10]).await.unwrap();
        session.sync().await.unwrap();
    });
    assert!(bytes.starts_with(&[7; 50_000]), "{} bytes", bytes.len());
}

#[test]
fn a_large_file_that_is_synced_again_is_one_sync_of_its_file() {
    let (disk, clock) = (SimDisk::new(), SimClock::new());
    let world_then = world(&disk, &clock, home(&disk, &clock)).unwrap();
    let on = disk.clone();
    let (count, data) = run(&clock, async move {
        let volume = Volume::format(&world_then, "test", &format()).await.unwrap();
        let session = begin(&volume).await.unwrap();
        let flags = OpenFlags::READ_WRITE;
        let (_, handle) = session.create(&root(), ROOT, b"log", 0o644, flags).await.unwrap();
        session.write(&root(), handle, 0, &[7; 50_000]).await.unwrap();
        session.fsync(handle).await.unwrap();
        session.write(&root(), handle, 50_000, &[8; 10]).await.unwrap();
        let before = on.operations();
        session.fsync(handle).await.unwrap();
        let count = on.operations() - before;
        session.write(&root(), handle, 50_010, &[9; 10]).await.unwrap();
        let before = on.operations();
        session.datasync(handle).await.unwrap();
        (count, on.operations() - before)
    });
    // The file and its name.
    assert_eq!((count, data), (2, 2));
}

#[test]
fn what_was_synced_again_is_there_after_a_cut() {
    for own in [false, true] {
        let bytes = after_a_cut("log", move |session, clock| async move {
            let flags = OpenFlags::READ_WRITE;
            let made = session.create(&root(), ROOT, b"log", 0o644, flags).await;
            let (attr, mut handle) = made.unwrap();
            session.write(&root(), handle, 0, &[7; 50_000]).await.unwrap();
            if own {
                session.release(handle).await.unwrap();
                clock.advance(Duration::from_secs(6));
                session.settle(false).await.unwrap();
                handle = session.open(&root(), attr.ino, flags).await.unwrap();
            }
            for round in 0..3_u64 {
                let at = 50_000 + round * 10;
                session.write(&root(), handle, at, &[8; 10]).await.unwrap();
                match round {
                    2 => session.datasync(handle).await.unwrap(),
                    _ => session.fsync(handle).await.unwrap(),
                }
            }
        });
        let right = [vec![7; 50_000], vec![8; 30]].concat();
        assert!(bytes == right, "own {own}: {} bytes", bytes.len());
    }
}

#[test]
fn what_is_open_at_the_end_of_a_session_is_there_after_a_cut() {
    for len in [100, 30_000] {
        let bytes = after_a_cut("open", move |session, _| async move {
            let flags = OpenFlags::READ_WRITE;
            let (_, handle) = session.create(&root(), ROOT, b"open", 0o644, flags).await.unwrap();
            session.write(&root(), handle, 0, &vec![7; len]).await.unwrap();
            session.stop().await.unwrap();
        });
        assert!(bytes == vec![7; len], "{} bytes", bytes.len());
    }
}

#[test]
fn a_file_that_replaces_another_is_not_empty_after_a_cut() {
    for len in [100, 30_000] {
        let bytes = after_a_cut("config", move |session, clock| async move {
            let flags = OpenFlags::READ_WRITE;
            for (name, tag) in [(&b"config"[..], 1), (b"config.new", 2)] {
                let (_, handle) = session.create(&root(), ROOT, name, 0o644, flags).await.unwrap();
                session.write(&root(), handle, 0, &vec![tag; len]).await.unwrap();
                session.release(handle).await.unwrap();
                if tag == 1 {
                    clock.advance(Duration::from_secs(6));
                    session.settle(true).await.unwrap();
                    session.sync_all().await.unwrap();
                }
            }
            let flags = RenameFlags::default();
            let renamed =
                session.rename(&root(), ROOT, b"config.new", ROOT, b"config", flags).await;
            renamed.unwrap();
            // Somebody else syncs, and with it the new name.
            session.sync().await.unwrap();
        });
        assert!(bytes == vec![2; len], "{} bytes", bytes.len());
    }
}

#[test]
fn what_returned_is_there_after_the_disk_failed() {
    let all = std::env::var("SEAMOUNT_CUTS").is_ok_and(|cuts| cuts == "all");
    let kinds = [
        FaultKind::Error,
        FaultKind::Errors,
        FaultKind::Full,
        FaultKind::Fills,
        FaultKind::ShortWrite,
        FaultKind::SyncError,
        FaultKind::ReadOnly,
        FaultKind::ReadError,
        FaultKind::ReadErrors,
    ];
    for seed in seeds() {
        let disk = SimDisk::new();
        assert!(live(&disk, seed).finished);
        let (operations, reads) = (disk.operations(), disk.reads());
        println!("seed {seed}: {operations} operations, {reads} reads");
        for (number, kind) in kinds.into_iter().enumerate() {
            let counts = matches!(kind, FaultKind::ReadError | FaultKind::ReadErrors);
            for at in 0..if counts { reads } else { operations } {
                if !all && !(at + seed + 5 * number as u64).is_multiple_of(32) {
                    continue;
                }
                let disk = SimDisk::new();
                disk.set_fault(Fault { at, kind });
                let lived = live(&disk, seed);
                disk.clear_faults();
                // The same disk: what a sync that failed has forgotten is still there for who reads.
                let home = lived.home.on_copy(files_of(&disk));
                again(disk, home, &lived, false, format!("seed {seed}, {kind:?} at {at}"));
            }
        }
    }
}
