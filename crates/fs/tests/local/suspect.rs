//! Files of which a sync failed: nobody is told that they are durable before they are, whatever the host says then.

use crate::crash::{begin, files_of, home, world};
use crate::world::{format, pattern, read, root, run};
use base::disk::{Cut, Fault, FaultKind};
use base::{SimClock, SimDisk};
use fs::{Check, Handle, Ino, NoProgress, OpenFlags, ROOT, Result, Session, Volume};
use home::{Home, SimHome};
use std::time::Duration;

const EIO: i32 = 5;
const LARGE: usize = 50_000;

/// A machine, and a session of the volume on it.
struct Machine {
    disk: SimDisk,
    clock: SimClock,
    home: SimHome,
    session: Session,
}

impl Machine {
    async fn new(clock: SimClock) -> Self {
        let disk = SimDisk::new();
        let home = home(&disk, &clock);
        let world = world(&disk, &clock, home.sharing()).unwrap();
        let volume = Volume::format(&world, "test", &format()).await.unwrap();
        let session = begin(&volume).await.unwrap();
        Self { disk, clock, home, session }
    }

    /// Power goes, and with it all that was not synced.
    async fn cut(self) -> Self {
        let disk = self.disk.reboot(Cut::Dropped, 1);
        let home = self.home.reborn(files_of(&disk));
        let world = world(&disk, &self.clock, home.sharing()).unwrap();
        let volume = Volume::open(&world, "test").await.unwrap();
        let session = begin(&volume).await.unwrap();
        Self { disk, clock: self.clock, home, session }
    }

    /// The process dies, and another one begins in the same life of the machine.
    async fn die(&mut self) {
        self.session = begin(&self.session.volume().clone()).await.unwrap();
    }

    /// The sync fails that is the first behind so many operations.
    fn fail_sync(&self, behind: u64) {
        let at = self.disk.operations() + behind;
        self.disk.set_fault(Fault { at, kind: FaultKind::SyncError });
    }

    async fn make(&self, name: &str, bytes: &[u8]) -> (Ino, Handle) {
        let flags = OpenFlags::READ_WRITE;
        let made = self.session.create(&root(), ROOT, name.as_bytes(), 0o644, flags).await;
        let (attr, handle) = made.unwrap();
        self.session.write(&root(), handle, 0, bytes).await.unwrap();
        (attr.ino, handle)
    }

    async fn settle(&self) -> Result<()> {
        self.clock.advance(Duration::from_secs(40));
        self.session.settle(false).await.map(drop)
    }

    async fn bytes(&self, name: &str) -> Vec<u8> {
        let attr = self.session.lookup(&root(), ROOT, name.as_bytes()).await.unwrap();
        let handle = self.session.open(&root(), attr.ino, OpenFlags::READ).await.unwrap();
        let bytes = read(&self.session, handle).await;
        self.session.release(handle).await.unwrap();
        bytes
    }

    async fn check(&self) {
        let report = Check::new(self.session.volume()).run(&NoProgress).await.unwrap();
        assert_eq!(report.findings, []);
    }
}

fn on_machine<F>(test: impl FnOnce(Machine) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let clock = SimClock::new();
    let of = clock.clone();
    run(&clock, async move { test(Machine::new(of).await).await });
}

fn errno<T: std::fmt::Debug>(outcome: Result<T>) -> i32 {
    outcome.unwrap_err().errno()
}

/// A large file, open, of which a sync has just failed: of its bytes, or of its name. With `own` its record names it.
async fn suspect(machine: &Machine, own: bool, behind: u64) -> (Ino, Handle) {
    let (ino, mut handle) = machine.make("log", &pattern(1, LARGE)).await;
    if own {
        machine.session.release(handle).await.unwrap();
        machine.settle().await.unwrap();
        handle = machine.session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
    }
    machine.session.write(&root(), handle, 0, &pattern(2, LARGE)).await.unwrap();
    machine.fail_sync(behind);
    assert_eq!(errno(machine.session.fsync(handle).await), EIO);
    (ino, handle)
}

#[test]
fn a_failed_sync_is_not_followed_by_one_that_counts() {
    for (own, behind) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        on_machine(move |machine| async move {
            let (ino, handle) = suspect(&machine, own, behind).await;
            // As long as it is open the host would say that all is well.
            for _ in 0..2 {
                assert_eq!(errno(machine.session.fsync(handle).await), EIO);
                assert_eq!(errno(machine.session.datasync(handle).await), EIO);
                assert_eq!(errno(machine.session.sync_all().await), EIO);
                machine.settle().await.unwrap();
            }
            assert_eq!(errno(machine.session.stop().await), EIO);
            let before = machine.session.getattr(ino).await.unwrap();
            machine.session.release(handle).await.unwrap();
            machine.settle().await.unwrap();
            let after = machine.session.getattr(ino).await.unwrap();
            assert_eq!((before.size, before.mtime), (after.size, after.mtime));
            assert!(machine.bytes("log").await == pattern(2, LARGE));
            machine.session.sync_all().await.unwrap();
            machine.check().await;
            let machine = machine.cut().await;
            assert!(machine.bytes("log").await == pattern(2, LARGE), "own {own}, {behind}");
            machine.check().await;
        });
    }
}

#[test]
fn who_comes_after_the_process_knows_of_the_failed_sync() {
    for (own, behind) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        on_machine(move |mut machine| async move {
            let (ino, _) = suspect(&machine, own, behind).await;
            machine.die().await;
            // It cannot be told to be durable by who opens it before it is settled, or it is by then.
            let handle = machine.session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            let synced = machine.session.fsync(handle).await;
            machine.session.release(handle).await.unwrap();
            machine.settle().await.unwrap();
            machine.session.sync_all().await.unwrap();
            machine.check().await;
            let machine = machine.cut().await;
            let right = machine.bytes("log").await == pattern(2, LARGE);
            assert!(right, "own {own}, {behind}, {synced:?}");
            machine.check().await;
        });
    }
}

#[test]
fn a_sync_that_fails_when_files_are_settled_is_not_forgotten() {
    // One by one, and all at once.
    for count in [1, 12] {
        on_machine(move |machine| async move {
            for number in 0..count {
                let (_, handle) = machine.make(&format!("f{number}"), &pattern(3, LARGE)).await;
                machine.session.release(handle).await.unwrap();
            }
            machine.fail_sync(0);
            assert_eq!(errno(machine.settle().await), EIO);
            for _ in 0..3 {
                machine.settle().await.unwrap();
            }
            machine.session.sync().await.unwrap();
            let machine = machine.cut().await;
            for number in 0..count {
                assert!(machine.bytes(&format!("f{number}")).await == pattern(3, LARGE));
            }
            machine.check().await;
        });
    }
}

#[test]
fn files_that_are_made_after_a_name_was_forgotten_have_names_that_last() {
    for dies in [false, true] {
        on_machine(move |mut machine| async move {
            let (_, handle) = suspect(&machine, false, 1).await;
            match dies {
                true => machine.die().await,
                false => machine.session.release(handle).await.unwrap(),
            }
            for number in 0..20 {
                let (_, handle) = machine.make(&format!("f{number}"), &pattern(4, LARGE)).await;
                machine.session.fsync(handle).await.unwrap();
                machine.settle().await.unwrap();
            }
            let machine = machine.cut().await;
            for number in 0..20 {
                assert!(machine.bytes(&format!("f{number}")).await == pattern(4, LARGE));
            }
            machine.check().await;
        });
    }
}

#[test]
fn a_small_file_of_which_a_sync_failed_goes_to_the_store() {
    on_machine(|machine| async move {
        let (ino, handle) = suspect(&machine, false, 0).await;
        let set = fs::SetAttr { size: Some(1_000), ..fs::SetAttr::default() };
        machine.session.setattr(&root(), ino, &set, None).await.unwrap();
        machine.session.fsync(handle).await.unwrap();
        let machine = machine.cut().await;
        assert!(machine.bytes("log").await == pattern(2, LARGE)[..1_000]);
    });
}

#[test]
fn power_brings_back_no_file_that_was_removed_for_want_of_room() {
    on_machine(|machine| async move {
        let mut open = Vec::new();
        // More than wait to be used.
        for number in 0..2_200 {
            open.push(machine.make(&format!("f{number}"), b"x").await.1);
            if number % 50 == 0 {
                // Files for those who come.
                machine.session.settle(false).await.unwrap();
            }
        }
        machine.session.sync_all().await.unwrap();
        let made = machine.home.numbers(1).unwrap().len();
        for handle in open {
            machine.session.release(handle).await.unwrap();
        }
        for _ in 0..20 {
            machine.settle().await.unwrap();
        }
        machine.session.sync().await.unwrap();
        let left = machine.home.numbers(1).unwrap().len();
        assert!(left < made, "{left} of {made} are left");
        let machine = machine.cut().await;
        machine.check().await;
    });
}
