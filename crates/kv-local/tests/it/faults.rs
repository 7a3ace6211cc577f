//! Disks that are full or fail, at every operation: a clear error, nothing lost, and the store works
//! again when the cause is gone.

use crate::life::{Life, open, scan, small};
use base::disk::{Cut, Fault, FaultKind};
use base::{SeededRandom, SimDisk, SystemThreads, block_on};
use bytes::Bytes;
use kv::{Commit, Durability, Engine, ErrorKind, Key, Op};
use kv_local::Local;
use std::sync::Arc;

const STEPS: usize = 90;

/// Operations of a whole life without faults.
fn operations(seed: u64) -> u64 {
    let disk = SimDisk::new();
    let local = open(&disk).unwrap();
    Life::new().live(&local, &SeededRandom::new(seed), STEPS);
    disk.operations()
}

#[test]
fn a_full_disk_is_an_error_and_nothing_else() {
    for seed in 0..2 {
        let mut seen = 0;
        for at in 0..operations(seed) {
            let context = format!("seed {seed}, full from operation {at}");
            let disk = SimDisk::new();
            disk.set_fault(Fault { at, kind: FaultKind::Full });
            let mut life = Life::new();
            let local = match open(&disk) {
                Ok(local) => local,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Full, "{context}: {error:?}");
                    disk.clear_faults();
                    open(&disk).unwrap_or_else(|error| panic!("{context}: {error:?}"))
                }
            };
            life.live(&local, &SeededRandom::new(seed), STEPS);
            if let Some(error) = life.error.take() {
                seen += 1;
                assert_eq!(error.kind(), ErrorKind::Full, "{context}: {error:?}");
                // Reading goes on, and shows exactly what was acknowledged.
                life.check(&local, life.acknowledged, &context);
            }
            disk.clear_faults();
            // Room again: the same store goes on, without being opened again.
            life.live(&local, &SeededRandom::new(seed + 100), 20);
            assert!(life.error.is_none(), "{context}: {:?}", life.error);
            life.check(&local, life.acknowledged, &context);
            drop(local);
            let local = open(&disk).unwrap_or_else(|error| panic!("{context}: {error:?}"));
            life.check(&local, life.acknowledged, &context);
        }
        assert!(seen > 100, "seed {seed}: only {seen} lives met the full disk");
    }
}

/// An error of one operation, of whatever kind: nothing that was acknowledged is lost, and the store
/// says what to do. After a sync failed it must be opened again, and says so for ever.
#[test]
fn a_failing_disk_loses_nothing_that_was_acknowledged() {
    for (seed, kind) in [(0, FaultKind::Error), (1, FaultKind::Errors)] {
        for at in 0..operations(seed) {
            let context = format!("seed {seed}, {kind:?} at operation {at}");
            let disk = SimDisk::new();
            disk.set_fault(Fault { at, kind });
            let mut life = Life::new();
            let Ok(local) = open(&disk) else {
                disk.clear_faults();
                let local = open(&disk).unwrap_or_else(|error| panic!("{context}: {error:?}"));
                life.check(&local, 0, &context);
                continue;
            };
            life.live(&local, &SeededRandom::new(seed), STEPS);
            let before = life.error.take();
            disk.clear_faults();
            let unknown = before.as_ref().is_some_and(|error| {
                matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Closed)
            });
            if !unknown {
                // The error was a definite one: what is readable is what was acknowledged.
                life.check(&local, life.acknowledged, &context);
            }
            let states = life.states.clone();
            life.live(&local, &SeededRandom::new(seed + 100), 10);
            if unknown {
                // What was refused now was never tried: what may be there is the first try.
                life.states = states;
            }
            match &life.error {
                Some(error) => {
                    assert_eq!(error.kind(), ErrorKind::Closed, "{context}: {error:?}");
                    assert!(error.to_string().contains("open the store again"), "{error}");
                    still_closed(&local, &context);
                }
                None => assert!(!unknown, "{context}: an unknown outcome was forgotten"),
            }
            // After power is lost: what was acknowledged as synced is there.
            let image = disk.reboot(Cut::Dropped, at);
            drop(local);
            let local = open(&image).unwrap_or_else(|error| panic!("{context}: {error:?}"));
            life.check(&local, life.synced, &context);
            // After the process died: everything that was acknowledged is.
            let local = open(&disk).unwrap_or_else(|error| panic!("{context}: {error:?}"));
            life.check(&local, life.acknowledged, &context);
        }
    }
}

fn put(local: &Local, durability: Durability) -> kv::Result<u64> {
    let snapshot = block_on(local.snapshot())?;
    let ops = vec![Op::Put(Key::new(b"probe"), Bytes::from_static(b"value"))];
    let commit = Commit { reads: vec![], writes: vec![], ops, durability, frees: false };
    block_on(local.commit(snapshot, commit))
}

fn still_closed(local: &Local, context: &str) {
    for durability in [Durability::Process, Durability::Synced] {
        let error = put(local, durability).expect_err(context);
        assert_eq!(error.kind(), ErrorKind::Closed, "{context}");
    }
    assert!(scan(local).is_ok(), "{context}: reading goes on");
}

#[test]
fn a_failed_sync_is_never_forgotten() {
    let disk = SimDisk::new();
    let local = open(&disk).unwrap();
    put(&local, Durability::Process).unwrap();
    // The next operation is the sync.
    disk.set_fault(Fault { at: disk.operations(), kind: FaultKind::Error });
    let error = block_on(local.sync()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    disk.clear_faults();
    // The disk says yes again, but what it forgot it will not bring back.
    assert!(block_on(local.sync()).is_err());
    still_closed(&local, "after a failed sync");
    assert!(local.close().is_err(), "a close must not claim what was not synced");
}

#[test]
fn those_who_do_not_wait_are_told_of_a_failed_sync_and_of_a_store_that_closes() {
    let open = |disk: &SimDisk| {
        let random = SeededRandom::new(1);
        Local::open(Arc::new(disk.clone()), Some(&SystemThreads), &random, small()).unwrap()
    };
    let ask = |local: &Local| {
        let (told, hears) = std::sync::mpsc::channel();
        local.sync_then(Box::new(move |outcome| told.send(outcome).unwrap()));
        hears
    };
    let disk = SimDisk::new();
    let local = open(&disk);
    put(&local, Durability::Process).unwrap();
    disk.set_fault(Fault { at: disk.operations(), kind: FaultKind::Error });
    let first = ask(&local);
    assert_eq!(first.recv().unwrap().unwrap_err().kind(), ErrorKind::Unknown);
    disk.clear_faults();
    let later = ask(&local).recv().unwrap();
    assert_eq!(later.unwrap_err().kind(), ErrorKind::Closed, "the disk says yes again in vain");
    drop(local);

    let local = open(&SimDisk::new());
    let asked: Vec<_> = (0..20)
        .map(|_| {
            put(&local, Durability::Process).unwrap();
            ask(&local)
        })
        .collect();
    let clone = local.clone();
    local.close().unwrap();
    for hears in asked {
        hears.recv().unwrap().unwrap();
    }
    assert_eq!(ask(&clone).recv().unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn what_a_failed_sync_has_forgotten_is_written_by_who_opens_the_store_next() {
    let disk = SimDisk::new();
    let local = open(&disk).unwrap();
    put(&local, Durability::Process).unwrap();
    disk.set_fault(Fault { at: disk.operations(), kind: FaultKind::Error });
    block_on(local.sync()).unwrap_err();
    disk.clear_faults();
    drop(local);
    // Another process, on the same machine.
    let local = open(&disk).unwrap();
    let state = scan(&local).unwrap();
    assert_eq!(state.len(), 1, "it was answered, and is there");
    commit(&local, vec![Op::Put(key(1), Bytes::from_static(b"later"))], false).unwrap();
    block_on(local.sync()).unwrap();
    let left = disk.reboot(Cut::Dropped, 1);
    drop(local);
    let local = open(&left).unwrap();
    assert_eq!(scan(&local).unwrap().len(), 2);
}

fn commit(local: &Local, ops: Vec<Op>, frees: bool) -> kv::Result<u64> {
    let snapshot = block_on(local.snapshot())?;
    let durability = Durability::Process;
    block_on(
        local.commit(snapshot, Commit { reads: vec![], writes: vec![], ops, durability, frees }),
    )
}

fn key(number: u32) -> Key {
    Key::new(format!("file-{number:06}").as_bytes())
}

/// A disk that fills at every operation of a life: reads go on, deletes go on to the last key, and
/// what they free can be written again, without opening the store again.
#[test]
fn a_full_disk_can_be_emptied_again() {
    let later = [1_118, 1_200, 1_263, 2_500, 3_077, 4_473, 4_774, 5_000, 5_164, 6_014];
    for at in (0..600).step_by(7).chain(later) {
        let context = format!("the disk fills at operation {at}");
        let disk = SimDisk::new();
        let local = open(&disk).unwrap();
        disk.set_fault(Fault { at: disk.operations() + at, kind: FaultKind::Fills });
        let value = |number: u32| Bytes::from(vec![number as u8; 300]);
        let mut written = 0;
        let error = loop {
            match commit(&local, vec![Op::Put(key(written), value(written))], false) {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Full, "{context}: {error:?}");
        let state = scan(&local).unwrap();
        assert_eq!(state.len(), written as usize, "{context}");
        assert!(state.values().enumerate().all(|(at, found)| *found == *value(at as u32)));
        for number in 0..written {
            commit(&local, vec![Op::Delete(key(number))], true)
                .unwrap_or_else(|error| panic!("{context}: delete {number}: {error:?}"));
        }
        assert!(scan(&local).unwrap().is_empty(), "{context}");
        let mut again = 0;
        while again < written / 2 {
            commit(&local, vec![Op::Put(key(again), value(again + 1))], false)
                .unwrap_or_else(|error| panic!("{context}: {again} of {written}: {error:?}"));
            again += 1;
        }
        drop(local);
        // Opening needs no room either.
        let local = open(&disk).unwrap_or_else(|error| panic!("{context}: {error:?}"));
        assert_eq!(scan(&local).unwrap().len(), again as usize, "{context}");
    }
}
