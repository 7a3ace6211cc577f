//! The daemon dies and programs live: its supervisor keeps the mount, another daemon takes it over, and
//! whoever asked something meanwhile has only waited.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{FlockOperation, OFlags, XattrFlags, flock, removexattr, setxattr};
use rustix::process::{Pid, Signal, kill_process};

use crate::ground::{Ground, is_mounted, wait};
use crate::listing::{directory, some_names};
use crate::peer::Peer;

/// Kills the daemon, and waits until there is another.
pub(crate) fn kill(ground: &Ground) {
    let before: Vec<Pid> = ground.daemons();
    assert_eq!(before.len(), 1, "one daemon serves");
    kill_process(before[0], Signal::KILL).unwrap();
    wait("another daemon is there", || {
        let now = ground.daemons();
        now.len() == 1 && now != before
    });
}

/// Everything that would fail if it were done twice, again and again in a directory of one's own.
fn make_and_remove(ground: &Ground, name: &str, stop: &AtomicBool, done: &AtomicU64) {
    let place = ground.directory(name);
    for number in 0_u64.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let (one, two) = (place.join("one"), place.join("two"));
        let mut file = File::create_new(&one).unwrap();
        file.write_all(&number.to_le_bytes()).unwrap();
        fs::hard_link(&one, &two).unwrap();
        fs::remove_file(&one).unwrap();
        fs::create_dir(&one).unwrap();
        fs::remove_dir(&one).unwrap();
        fs::rename(&two, &one).unwrap();
        std::os::unix::fs::symlink("one", &two).unwrap();
        setxattr(&one, "user.n", &number.to_le_bytes(), XattrFlags::CREATE).unwrap();
        removexattr(&one, "user.n").unwrap();
        let exchange = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, &one, rustix::fs::CWD, &two, exchange).unwrap();
        assert!(fs::symlink_metadata(&one).unwrap().is_symlink(), "exchanged once");
        assert_eq!(fs::read(&two).unwrap(), number.to_le_bytes());
        fs::remove_file(&one).unwrap();
        fs::remove_file(&two).unwrap();
        drop(file);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        done.fetch_add(1, Ordering::SeqCst);
    }
}

/// Appends to a file that has no name any more. Returns how often.
fn append(file: &File, stop: &AtomicBool, done: &AtomicU64) {
    let mut file = file;
    while !stop.load(Ordering::SeqCst) {
        let number = done.load(Ordering::SeqCst);
        file.write_all(&number.to_le_bytes()).unwrap();
        done.store(number + 1, Ordering::SeqCst);
    }
}

#[test]
fn programs_go_on_when_the_daemon_is_killed() {
    let Some(ground) = Ground::new("programs outlive the daemon") else { return };
    if ground.is_native() {
        return;
    }
    let log = File::options().create_new(true).append(true).read(true).open(ground.at("log"));
    let log = log.unwrap();
    fs::remove_file(ground.at("log")).unwrap();
    let stop = AtomicBool::new(false);
    let (first, second, appended) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| make_and_remove(&ground, "first", &stop, &first));
        scope.spawn(|| make_and_remove(&ground, "second", &stop, &second));
        scope.spawn(|| append(&log, &stop, &appended));
        // Also when one of the writers has failed: the others must end.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..6 {
                let counts = [&first, &second, &appended];
                let before = counts.map(|count| count.load(Ordering::SeqCst));
                wait("everybody gets on", || {
                    counts.iter().zip(before).all(|(now, was)| now.load(Ordering::SeqCst) > was + 3)
                });
                kill(&ground);
            }
        }));
        stop.store(true, Ordering::SeqCst);
        ended.unwrap();
    });
    let mut bytes = Vec::new();
    let len = log.metadata().unwrap().len();
    File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&log)))
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    let expected: Vec<u8> =
        (0..appended.load(Ordering::SeqCst)).flat_map(u64::to_le_bytes).collect();
    assert_eq!(len, expected.len() as u64);
    assert!(bytes == expected, "each record is there once");
    drop(log);
    let checked = ground.seamount(&["fsck".as_ref(), ground.root().as_os_str()]);
    assert!(checked.success(), "{checked}");
}

#[test]
fn what_is_open_stays_open() {
    let proof = "open files outlive the daemon";
    let Some(mut ground) = Ground::new(proof) else { return };
    let Some(mut peer) = Peer::start(proof) else { return };
    if ground.is_native() {
        return;
    }
    // A lock, a mapping, a file whose name goes before and one whose name goes after, a listing.
    let path = ground.file("locked", b"locked");
    let locked = File::open(&path).unwrap();
    flock(&locked, FlockOperation::LockExclusive).unwrap();
    let mapped = ground.file("mapped", vec![b'.'; 20_000]);
    peer.open(0, OFlags::RDWR, &mapped).unwrap();
    peer.ask("map 0 20000").unwrap();
    peer.ask("poke 0 5000 before").unwrap();
    ground.file("gone before", vec![1; 300_000]);
    ground.file("gone after", vec![2; 300_000]);
    let before = File::options().read(true).write(true).open(ground.at("gone before")).unwrap();
    let after = File::options().read(true).write(true).open(ground.at("gone after")).unwrap();
    fs::remove_file(ground.at("gone before")).unwrap();
    let many = ground.directory("many");
    for number in 0..5000 {
        File::create(many.join(format!("{number:05}"))).unwrap();
    }
    let mut listing = fs::read_dir(&many).unwrap();
    let mut names: Vec<_> =
        listing.by_ref().take(1000).map(|entry| entry.unwrap().file_name()).collect();

    kill(&ground);
    fs::remove_file(ground.at("gone after")).unwrap();

    for (file, byte) in [(&before, 1), (&after, 2)] {
        let mut bytes = vec![0; 300_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.iter().all(|found| *found == byte));
        file.write_all_at(&[7; 10], 299_995).unwrap();
        file.sync_all().unwrap();
        assert_eq!(
            (file.metadata().unwrap().len(), file.metadata().unwrap().nlink()),
            (300_005, 0)
        );
    }
    let other = File::open(&path).unwrap();
    let refused = flock(&other, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(refused, Err(rustix::io::Errno::WOULDBLOCK), "the lock holds");
    assert_eq!(peer.ask("peek 0 5000 6").unwrap(), "before");
    peer.ask("poke 0 9000 after").unwrap();
    peer.ask("msync 0").unwrap();
    names.extend(listing.map(|entry| entry.unwrap().file_name()));
    assert_eq!(names.len(), 5000, "each name once");

    // Twice, with files open from two daemons ago.
    kill(&ground);
    before.write_all_at(&[8; 10], 0).unwrap();
    drop((before, after, other, locked));
    peer.ask("unmap 0").unwrap();
    peer.ask("close 0").unwrap();
    let bytes = fs::read(&mapped).unwrap();
    assert_eq!(&bytes[5000..5006], b"before");
    assert_eq!(&bytes[9000..9005], b"after");
    wait("what had no name is gone", || {
        let said = ground.seamount(&["gc".as_ref(), ground.root().as_os_str()]);
        assert!(said.success(), "{said}");
        let said = ground.seamount(&["fsck".as_ref(), ground.root().as_os_str()]);
        assert!(said.success(), "{said}");
        let stat = rustix::fs::statvfs(ground.root()).unwrap();
        stat.f_files - stat.f_ffree == 5004
    });
    ground.remount();
    assert_eq!(fs::read(&mapped).unwrap(), bytes);
}

#[test]
fn a_listing_goes_on_behind_the_last_name() {
    let Some(ground) = Ground::new("a listing outlives its daemon") else { return };
    let place = ground.directory("place");
    let name = |number: usize| format!("name-{number:05}");
    for number in 0..4000 {
        fs::write(place.join(name(number)), b"").unwrap();
    }
    let dir = directory(&place);
    let mut seen = Vec::new();
    while seen.len() < 1500 {
        seen.extend(some_names(&dir, 4096));
    }
    kill(&ground);
    // By position, this would move all that follows.
    for number in 0..700 {
        fs::remove_file(place.join(name(number))).unwrap();
    }
    loop {
        let names = some_names(&dir, 4096);
        if names.is_empty() {
            break;
        }
        seen.extend(names);
    }
    assert_eq!(seen, (0..4000).map(name).collect::<Vec<_>>());
}

#[test]
fn a_mount_that_goes_while_its_daemon_is_dead_is_let_go() {
    let Some(mut ground) = Ground::new("unmount between two daemons") else { return };
    if ground.is_native() {
        return;
    }
    ground.file("kept", b"kept");
    kill_process(ground.daemons()[0], Signal::KILL).unwrap();
    ground.unmount();
    assert!(!is_mounted(ground.root()));
    wait("no daemon is left", || ground.daemons().is_empty());
    ground.mount();
    assert_eq!(fs::read(ground.at("kept")).unwrap(), b"kept");
}
