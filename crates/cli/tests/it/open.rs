//! Opening: unnamed files, exclusive creation, appending, truncating, and files that lose their
//! name while open.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, symlink};
use std::sync::Barrier;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use rustix::io::Errno;

use crate::ground::Ground;
use crate::peer::Peer;

const MODE: Mode = Mode::from_raw_mode(0o644);

#[test]
fn an_unnamed_file_gets_a_name_by_linkat() {
    let Some(ground) = Ground::new("O_TMPFILE") else { return };
    let file =
        open(ground.root(), OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(0o600)).unwrap();
    let mut file = File::from(file);
    file.write_all(b"no name yet").unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(
        fs::read_dir(ground.root()).unwrap().count(),
        0,
        "an unnamed file is in no directory"
    );
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, &source, CWD, ground.at("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 1);
    drop(file);
    assert_eq!(fs::read(ground.at("named")).unwrap(), b"no name yet");
    assert_eq!(fs::metadata(ground.at("named")).unwrap().mode(), 0o100_600);

    let never = open(ground.root(), OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL, MODE).unwrap();
    let source = format!("/proc/self/fd/{}", never.as_raw_fd());
    let linked = linkat(CWD, &source, CWD, ground.at("never"), AtFlags::SYMLINK_FOLLOW);
    assert_eq!(linked, Err(Errno::NOENT), "O_EXCL says that it never gets a name");
}

#[test]
fn exclusive_creation_has_one_winner() {
    let Some(ground) = Ground::new("O_EXCL") else { return };
    symlink("nowhere", ground.at("dangling")).unwrap();
    let create =
        |name: &str| open(ground.at(name), OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY, MODE);
    assert_eq!(create("dangling").unwrap_err(), Errno::EXIST);
    assert!(!ground.at("nowhere").exists());
    create("once").unwrap();
    assert_eq!(create("once").unwrap_err(), Errno::EXIST);

    let (barrier, racers, rounds) = (Barrier::new(4), 4, 100);
    let create = &create;
    let wins: usize = std::thread::scope(|scope| {
        let race = |_| {
            let barrier = &barrier;
            scope.spawn(move || {
                let round = |round| {
                    barrier.wait();
                    create(&format!("race-{round}")).is_ok()
                };
                (0..rounds).filter(|number| round(*number)).count()
            })
        };
        let threads: Vec<_> = (0..racers).map(race).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(wins, rounds, "each name is made once");
}

#[test]
fn records_that_two_processes_append_stay_whole() {
    let Some(ground) = Ground::new("O_APPEND") else { return };
    let path = ground.at("journal");
    let records = [("a".repeat(17), 3000), ("b".repeat(4099), 300)];
    let mut peers = Vec::new();
    for _ in &records {
        let Some(mut peer) = Peer::start("O_APPEND") else { return };
        peer.open(0, OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND, &path).unwrap();
        peers.push(peer);
    }
    for (peer, (text, count)) in peers.iter_mut().zip(&records) {
        peer.tell(&format!("append 0 {count} {text}"));
    }
    for peer in &mut peers {
        peer.answer().unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    for (text, count) in &records {
        assert_eq!(found.lines().filter(|line| line == text).count(), *count);
    }
    assert_eq!(found.lines().count(), 3300, "no record is torn or lost");
}

#[test]
fn truncating_open_empties_the_file_and_changes_its_time() {
    let Some(ground) = Ground::new("O_TRUNC") else { return };
    let path = ground.file("full", vec![7; 3 << 20]);
    let old = filetime(&path);
    let reader = File::open(&path).unwrap();
    let file = File::options().write(true).truncate(true).open(&path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
    assert_eq!(reader.metadata().unwrap().len(), 0);
    assert!(filetime(&path) > old);
    file.write_all_at(b"x", 5000).unwrap();
    let mut bytes = Vec::new();
    (&reader).read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 5001);
    assert!(bytes[..5000].iter().all(|byte| *byte == 0), "nothing old comes back");
    let synced =
        File::options().append(true).custom_flags(OFlags::DSYNC.bits() as i32).open(&path).unwrap();
    (&synced).write_all(b"y").unwrap();
    assert_eq!(fs::read(&path).unwrap()[5000..], *b"xy");
}

fn filetime(path: &std::path::Path) -> (i64, i64) {
    let meta = fs::metadata(path).unwrap();
    (meta.mtime(), meta.mtime_nsec())
}

#[test]
fn an_open_file_outlives_its_name() {
    let Some(ground) = Ground::new("unlink while open") else { return };
    for size in [10, 100_000, 9 << 20] {
        let path = ground.file("going", vec![1; size]);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!path.exists());
        // Another file of the same name is another file.
        ground.file("going", b"new");
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 1));
        file.write_all_at(b"more", size as u64).unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().len(), size as u64 + 4);
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}

#[test]
fn a_removed_directory_that_is_open_stays_empty() {
    let Some(ground) = Ground::new("rmdir while open") else { return };
    let path = ground.directory("going");
    let handle = open(&path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    fs::remove_dir(&path).unwrap();
    let made = rustix::fs::openat(&handle, "late", OFlags::CREATE | OFlags::WRONLY, MODE);
    assert_eq!(made.unwrap_err(), Errno::NOENT);
    assert_eq!(rustix::fs::fstat(&handle).unwrap().st_nlink, 0);
}

#[test]
fn flags_that_refuse() {
    let Some(ground) = Ground::new("open flags") else { return };
    let file = ground.file("file", b"x");
    let directory = ground.directory("directory");
    symlink("file", ground.at("link")).unwrap();
    let refuse = |path: &std::path::Path, flags| open(path, flags, MODE).unwrap_err();
    assert_eq!(refuse(&file, OFlags::RDONLY | OFlags::DIRECTORY), Errno::NOTDIR);
    assert_eq!(refuse(&ground.at("link"), OFlags::RDONLY | OFlags::NOFOLLOW), Errno::LOOP);
    assert_eq!(refuse(&directory, OFlags::WRONLY), Errno::ISDIR);
    assert_eq!(refuse(&directory, OFlags::RDONLY | OFlags::CREATE), Errno::ISDIR);
    assert_eq!(refuse(&ground.at("file/below"), OFlags::RDONLY), Errno::NOTDIR);
    assert_eq!(refuse(&ground.at("missing/below"), OFlags::CREATE | OFlags::WRONLY), Errno::NOENT);
    let path_only = open(ground.at("link"), OFlags::PATH | OFlags::NOFOLLOW, MODE).unwrap();
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&path_only).unwrap().st_mode);
    assert!(kind.is_symlink());
}

#[test]
fn a_replaced_file_that_is_only_held_can_still_be_opened() {
    let Some(ground) = Ground::new("O_PATH and rename") else { return };
    let path = ground.file("held", b"still here");
    let held = open(&path, OFlags::PATH, MODE).unwrap();
    fs::rename(ground.file("fresh", b"new"), &path).unwrap();
    // The kernel knows the file: a stat and an open by what it knows find it, without a name.
    assert_eq!(rustix::fs::fstat(&held).unwrap().st_nlink, 0);
    let again = fs::read(format!("/proc/self/fd/{}", held.as_raw_fd()));
    assert_eq!(again.unwrap(), b"still here");
}
