//! Locks between processes: byte ranges, whole files, waiting, and what a killed process leaves:
//! nothing.

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::ground::Ground;
use crate::peer::Peer;

fn two(proof: &str) -> Option<(Ground, Peer, Peer)> {
    let ground = Ground::new(proof)?;
    let path = ground.file("locked", b"0123456789");
    let mut peers = Vec::new();
    for _ in 0..2 {
        let mut peer = Peer::start(proof)?;
        peer.open(0, OFlags::RDWR, &path).unwrap();
        peers.push(peer);
    }
    let (other, one) = (peers.pop()?, peers.pop()?);
    Some((ground, one, other))
}

const AGAIN: Result<String, i32> = Err(Errno::AGAIN.raw_os_error());

#[test]
fn byte_ranges_exclude_each_other() {
    let Some((_ground, mut one, mut other)) = two("fcntl locks") else { return };
    one.ask("lock posix w 0 10 10").unwrap();
    assert_eq!(other.ask("lock posix w 0 15 1"), AGAIN);
    assert_eq!(other.ask("lock posix r 0 0 0"), AGAIN, "to the end of any file");
    assert_eq!(other.ask("holder 0 19 5").unwrap(), one.pid().to_string());
    other.ask("lock posix w 0 0 10").unwrap();
    other.ask("lock posix w 0 20 10").unwrap();
    one.ask("lock posix u 0 14 2").unwrap();
    other.ask("lock posix r 0 14 2").unwrap();
    one.ask("lock posix r 0 14 2").unwrap();
    assert_eq!(one.ask("lock posix w 0 14 2"), AGAIN, "two readers, no writer");
    assert_eq!(other.ask("lock posix w 0 13 1"), AGAIN);
    assert_eq!(other.ask("holder 0 100 5").unwrap(), "0");
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_freed() {
    let Some((_ground, mut one, mut other)) = two("waiting for locks") else { return };
    one.ask("lock posix w 0 0 10").unwrap();
    other.tell("lock posix W 0 5 1");
    one.ask("lock posix u 0 0 10").unwrap();
    other.answer().unwrap();
    assert_eq!(one.ask("lock posix w 0 5 1"), AGAIN);
    one.tell("lock posix W 0 0 10");
    other.kill();
    one.answer().unwrap();
}

#[test]
fn a_waiter_can_be_killed() {
    let Some((ground, mut one, mut other)) = two("killing who waits for a lock") else { return };
    one.ask("lock posix w 0 0 10").unwrap();
    other.tell("lock posix W 0 5 1");
    other.kill();
    let Some(mut third) = Peer::start("killing who waits for a lock") else { return };
    third.open(0, OFlags::RDWR, &ground.at("locked")).unwrap();
    one.ask("flock x 0").unwrap();
    third.tell("flock X 0");
    third.kill();
    one.ask("lock posix u 0 0 10").unwrap();
    assert_eq!(one.ask("holder 0 0 0").unwrap(), "0", "the dead hold nothing");
}

#[test]
fn a_killed_process_frees_its_locks() {
    let Some((_ground, mut one, mut other)) = two("locks of the dead") else { return };
    one.ask("lock posix w 0 0 0").unwrap();
    one.ask("flock x 0").unwrap();
    assert_eq!(other.ask("lock posix w 0 0 1"), AGAIN);
    assert_eq!(other.ask("flock s 0"), AGAIN);
    one.kill();
    other.ask("lock posix W 0 0 1").unwrap();
    other.ask("flock X 0").unwrap();
}

#[test]
fn closing_frees_and_kinds_do_not_meet() {
    let Some((ground, mut one, mut other)) = two("close and locks") else { return };
    one.ask("flock x 0").unwrap();
    other.ask("lock posix w 0 0 0").unwrap();
    other.ask("lock posix u 0 0 0").unwrap();
    // Any descriptor of the file that is closed takes the process's ranges with it; that is POSIX.
    one.ask("lock posix w 0 0 1").unwrap();
    one.open(1, OFlags::RDONLY, &ground.at("locked")).unwrap();
    one.ask("close 1").unwrap();
    other.ask("lock posix w 0 0 1").unwrap();
    assert_eq!(other.ask("flock x 0"), AGAIN, "a whole-file lock belongs to its own descriptor");
    one.ask("close 0").unwrap();
    other.ask("flock x 0").unwrap();
}

#[test]
fn whole_file_locks_are_shared_or_exclusive() {
    let Some((ground, mut one, mut other)) = two("flock") else { return };
    one.ask("flock s 0").unwrap();
    other.ask("flock s 0").unwrap();
    assert_eq!(other.ask("flock x 0"), AGAIN);
    one.ask("flock u 0").unwrap();
    other.ask("flock x 0").unwrap();
    one.open(1, OFlags::RDWR, &ground.at("locked")).unwrap();
    assert_eq!(one.ask("flock s 1"), AGAIN);
    one.tell("flock X 1");
    other.ask("flock u 0").unwrap();
    one.answer().unwrap();
}

#[test]
fn locks_of_open_descriptions() {
    let Some((ground, mut one, mut other)) = two("open file description locks") else { return };
    one.open(1, OFlags::RDWR, &ground.at("locked")).unwrap();
    one.ask("lock ofd w 0 0 10").unwrap();
    assert_eq!(one.ask("lock ofd w 1 5 1"), AGAIN, "another description, even of the same process");
    assert_eq!(other.ask("lock posix w 0 5 1"), AGAIN);
    one.ask("close 0").unwrap();
    other.ask("lock posix w 0 5 1").unwrap();
}
