//! The life of a mount: what was done is there after unmounting, after a signal, and after the
//! daemon was killed.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{XattrFlags, setxattr};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

use crate::draw::Draw;
use crate::ground::{Ground, is_mounted, wait};
use crate::tree::{Times, assert_same, describe};

/// A tree with some of everything, made without one fsync.
fn build(ground: &Ground, name: &str) {
    let mut draw = Draw::new(3);
    let place = ground.directory(name);
    for number in 0..200_u64 {
        let path = place.join(format!("file-{number}"));
        let length = draw.below(1 << (number % 21)) as usize;
        fs::write(&path, draw.bytes(length)).unwrap();
        match number % 5 {
            0 => fs::rename(&path, place.join(format!("renamed-{number}"))).unwrap(),
            1 => fs::hard_link(&path, place.join(format!("linked-{number}"))).unwrap(),
            2 => {
                setxattr(&path, "user.number", &number.to_le_bytes(), XattrFlags::empty()).unwrap()
            }
            3 => File::options().write(true).open(&path).unwrap().set_len(number * 100).unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
        symlink(format!("file-{number}"), place.join(format!("symlink-{number}"))).unwrap();
    }
}

#[test]
fn everything_is_there_after_a_new_mount() {
    let Some(mut ground) = Ground::new("remount") else { return };
    build(&ground, "tree");
    let before = describe(&ground.at("tree"));
    let inodes = |ground: &Ground| fs::metadata(ground.at("tree/file-1")).unwrap().ino();
    let old = inodes(&ground);
    let held = ground.beside().join("held");
    crate::tool::shell(ground.root(), &format!("cp -a tree '{}'", held.display()));
    for _ in 0..3 {
        ground.remount();
        assert_eq!(describe(&ground.at("tree")), before);
    }
    assert_same(&ground.at("tree"), &held, Times::Exact);
    assert_eq!(inodes(&ground), old, "inode numbers stay");
}

#[test]
fn a_terminated_daemon_leaves_cleanly() {
    let Some(mut ground) = Ground::new("SIGTERM and SIGINT") else { return };
    if ground.is_native() {
        return;
    }
    for (round, signal) in [Signal::TERM, Signal::INT].into_iter().enumerate() {
        build(&ground, &format!("tree-{round}"));
        let before = describe(&ground.at(format!("tree-{round}")));
        for pid in ground.daemons() {
            kill_process(pid, signal).unwrap();
        }
        wait("the mount is gone", || !is_mounted(ground.root()));
        wait("the daemon is gone", || ground.daemons().is_empty());
        assert_eq!(
            fs::read_dir(ground.root()).unwrap().count(),
            0,
            "the mountpoint is an empty directory again"
        );
        ground.mount_again();
        assert_eq!(describe(&ground.at(format!("tree-{round}"))), before);
    }
}

#[test]
fn a_killed_daemon_loses_nothing_that_it_answered() {
    let Some(mut ground) = Ground::unsupervised("kill -9 of the daemon") else { return };
    if ground.is_native() {
        return;
    }
    build(&ground, "tree");
    let before = describe(&ground.at("tree"));
    let held = ground.beside().join("held");
    crate::tool::shell(ground.root(), &format!("cp -a tree '{}'", held.display()));
    let unclosed = File::create(ground.at("unclosed")).unwrap();
    unclosed.write_all_at(&[5; 100_000], 0).unwrap();
    let (synced, written) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // One writer that syncs each record, one that only writes and renames, until the daemon is
        // no more.
        scope.spawn(|| {
            let mut file = File::create(ground.at("journal")).unwrap();
            for number in 0.. {
                if writeln!(file, "record {number}").and_then(|()| file.sync_data()).is_err() {
                    break;
                }
                synced.store(number + 1, Ordering::SeqCst);
            }
        });
        scope.spawn(|| {
            // By a descriptor: a path would lead to the bare mountpoint when the mount is gone.
            let root = File::open(ground.root()).unwrap();
            let within = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
            for number in 0_u64.. {
                let fresh = within.join("fresh");
                let made = fs::write(&fresh, number.to_string());
                if made.and_then(|()| fs::rename(fresh, within.join("latest"))).is_err() {
                    break;
                }
                written.store(number, Ordering::SeqCst);
            }
        });
        wait("both writers are at work", || {
            synced.load(Ordering::SeqCst) > 100 && written.load(Ordering::SeqCst) > 100
        });
        for pid in ground.daemons() {
            kill_process(pid, Signal::KILL).unwrap();
        }
    });
    drop(unclosed);
    wait("the mountpoint is a plain directory again, or answers", || {
        fs::metadata(ground.root()).is_ok()
    });
    wait("the mount is gone", || !is_mounted(ground.root()));
    ground.mount_again();
    assert_eq!(describe(&ground.at("tree")), before);
    assert_same(&ground.at("tree"), &held, Times::Exact);
    let text = fs::read_to_string(ground.at("journal")).unwrap();
    let (found, acknowledged) = (text.lines().count() as u64, synced.load(Ordering::SeqCst));
    assert!(found >= acknowledged, "{found} records of {acknowledged} that were synced");
    let latest: u64 = fs::read_to_string(ground.at("latest")).unwrap().parse().unwrap();
    let acknowledged = written.load(Ordering::SeqCst);
    assert!(
        latest >= acknowledged,
        "{latest} is older than {acknowledged}, whose rename was answered"
    );
    assert_eq!(
        fs::read(ground.at("unclosed")).unwrap(),
        [5; 100_000],
        "a write that returned is kept"
    );
}

#[test]
fn a_mount_over_a_stale_one_clears_it() {
    let Some(mut ground) = Ground::unsupervised("stale mount") else { return };
    if ground.is_native() {
        return;
    }
    ground.file("kept", b"kept");
    // Without a supervisor, the mount of a dead daemon stays, and answers nobody.
    ground.kill_supervisors();
    ground.kill_daemon();
    let answer = rustix::fs::statfs(ground.root()).unwrap_err();
    // The one while the connection is being cut, the other ever after.
    assert!(matches!(answer, Errno::CONNABORTED | Errno::NOTCONN), "{answer}");
    let said = ground.mount();
    assert!(
        said.contains("stale") || said.contains("dead"),
        "it says what it cleared away: {said}"
    );
    assert_eq!(fs::read(ground.at("kept")).unwrap(), b"kept");
}
