//! Two mounts of one volume, on a store that several clients can use at once.

use crate::ground::{Ground, world};
use base::block_on;
use fs::{FormatOptions, SessionOptions, Sharing, Volume};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use std::fs::File;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Two clients of one volume.
fn two() -> (Ground, Ground) {
    let world = world(Arc::new(kv::mem::Mem::new()));
    let volume = block_on(Volume::format(&world, "v", &FormatOptions::default())).unwrap();
    let options = || SessionOptions { sharing: Sharing::Shared, ..SessionOptions::default() };
    let mount = || Ground::mount(&volume, options(), tempfile::tempdir().unwrap(), |_| {});
    (mount(), mount())
}

#[test]
fn what_one_has_written_and_closed_the_other_opens_and_reads() {
    let (one, other) = two();
    for number in 0..20_u8 {
        std::fs::write(one.at("f"), vec![number; 5000]).unwrap();
        assert_eq!(std::fs::read(other.at("f")).unwrap(), vec![number; 5000]);
        std::fs::write(other.at("f"), vec![number; 70_000]).unwrap();
        assert_eq!(std::fs::read(one.at("f")).unwrap(), vec![number; 70_000]);
    }
}

#[test]
fn a_name_that_somebody_else_has_made_is_not_made_again() {
    let (one, other) = two();
    // Looked up and missing, so that the kernel might believe that it still is.
    assert!(std::fs::metadata(one.at("f")).is_err());
    std::fs::write(other.at("f"), b"theirs").unwrap();
    assert!(File::create_new(one.at("f")).is_err());
    let opened = File::options().append(true).create(true).open(one.at("f")).unwrap();
    assert_eq!(opened.metadata().unwrap().len(), 6);
}

#[test]
fn locks_hold_between_mounts() {
    type Lock = fn(&File, FlockOperation) -> rustix::io::Result<()>;
    for lock in [(|file, how| fcntl_lock(file, how)) as Lock, |file, how| flock(file, how)] {
        let (one, other) = two();
        let mine = File::create(one.at("f")).unwrap();
        let theirs = File::options().read(true).write(true).open(other.at("f")).unwrap();
        lock(&mine, FlockOperation::LockExclusive).unwrap();
        let refused = lock(&theirs, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(refused, Err(Errno::AGAIN));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| lock(&theirs, FlockOperation::LockExclusive));
            // It waits, as far as one can tell: it has asked, and has no answer.
            wait_until(|| other.mount.requests_in_flight() == 1);
            assert!(!waiter.is_finished());
            lock(&mine, FlockOperation::Unlock).unwrap();
            waiter.join().unwrap().unwrap();
        });
        assert_eq!(lock(&mine, FlockOperation::NonBlockingLockExclusive), Err(Errno::AGAIN));
        // Closing frees.
        drop(theirs);
        wait_until(|| lock(&mine, FlockOperation::NonBlockingLockExclusive).is_ok());
    }
}

#[test]
fn who_waits_for_a_lock_can_be_killed() {
    let (one, other) = two();
    let mine = File::create(one.at("f")).unwrap();
    flock(&mine, FlockOperation::LockExclusive).unwrap();
    // It gets the file opened, so that the one thing that it asks of the mount is the lock.
    let theirs = File::open(other.at("f")).unwrap();
    let mut waiter = Command::new("flock").args(["-x", "0"]).stdin(theirs).spawn().unwrap();
    wait_until(|| other.mount.requests_in_flight() == 1);
    waiter.kill().unwrap();
    wait_until(|| waiter.try_wait().unwrap().is_some());
    // A process that has ended may be ahead of what was asked for it: the kernel waits for no answer to its
    // last close.
    wait_until(|| other.mount.requests_in_flight() == 0);
    // It has left no lock behind, and waits no more.
    flock(&mine, FlockOperation::Unlock).unwrap();
    let theirs = File::open(other.at("f")).unwrap();
    flock(&theirs, FlockOperation::NonBlockingLockExclusive).unwrap();
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "it takes too long");
        std::thread::yield_now();
    }
}

#[test]
fn a_mount_ends_while_somebody_waits_for_a_lock() {
    let (one, other) = two();
    let mine = File::create(one.at("f")).unwrap();
    flock(&mine, FlockOperation::LockExclusive).unwrap();
    let theirs = File::open(other.at("f")).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| flock(&theirs, FlockOperation::LockExclusive));
        wait_until(|| other.mount.requests_in_flight() == 1);
        // An open file would hold up a lazy unmount.
        other.mount.abort().unwrap();
        other.mount.wait();
        assert!(waiter.join().unwrap().is_err());
    });
}
