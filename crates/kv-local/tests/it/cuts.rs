//! Power is cut at every step of a store's life, and unsynced writes are kept, dropped, reordered
//! and torn. Whatever the disk then holds, the store keeps its promises and goes on.

use crate::life::{Life, open, scan};
use base::disk::{Cut, Fault, FaultKind};
use base::{Disk, SeededRandom, SimDisk, block_on};
use kv::Engine;

const STEPS: usize = 70;

/// One life on `disk`: two openings, with a clean close in between.
fn whole_life(disk: &SimDisk, seed: u64) -> Life {
    let random = SeededRandom::new(seed);
    let mut life = Life::new();
    for _ in 0..2 {
        let local = match open(disk) {
            Ok(local) => local,
            Err(error) => {
                life.error = Some(error);
                return life;
            }
        };
        life.live(&local, &random, STEPS);
        if life.error.is_some() {
            return life;
        }
        match local.close() {
            Ok(()) => life.synced = life.acknowledged,
            Err(error) => {
                life.error = Some(error);
                return life;
            }
        }
    }
    life
}

fn cut_everywhere(seed: u64, cuts: &[(Cut, u64)]) {
    let disk = SimDisk::new();
    let life = whole_life(&disk, seed);
    assert!(life.error.is_none(), "seed {seed}: {:?}", life.error);
    let operations = disk.operations();
    println!("seed {seed}: {operations} operations, {} versions", life.acknowledged);
    assert!(operations > 200, "the life must be worth cutting");
    for at in 0..operations {
        let disk = SimDisk::new();
        disk.set_fault(Fault { at, kind: FaultKind::PowerCut });
        let life = whole_life(&disk, seed);
        assert!(disk.is_dead(), "seed {seed}: operation {at} was not reached");
        for &(cut, luck) in cuts {
            let context = format!("seed {seed} cut at {at} {cut:?} luck {luck}");
            recover(&disk.reboot(cut, luck ^ at), &life, life.promised(cut), &context, luck);
        }
    }
}

/// Opens what a cut left, checks it, goes on, and opens it once more.
fn recover(disk: &SimDisk, life: &Life, promised: u64, context: &str, luck: u64) {
    let local = open(disk).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    life.check(&local, promised, context);
    let mut next = Life { states: life.states.clone(), ..Life::default() };
    next.go_on(&local);
    next.live(&local, &SeededRandom::new(luck), 25);
    assert!(next.error.is_none(), "{context}: it does not go on: {:?}", next.error);
    drop(local);
    let local = open(disk).unwrap_or_else(|error| panic!("{context}, second: {error:?}"));
    next.check(&local, next.acknowledged, context);
}

#[test]
fn every_cut_keeps_the_promise() {
    let cuts = [(Cut::Kept, 0), (Cut::Dropped, 0), (Cut::Reordered, 1), (Cut::Torn, 1)];
    for seed in 0..3 {
        cut_everywhere(seed, &cuts);
    }
}

#[test]
fn every_cut_with_more_luck() {
    let cuts: Vec<(Cut, u64)> =
        (2..6).flat_map(|luck| [(Cut::Reordered, luck), (Cut::Torn, luck)]).collect();
    cut_everywhere(77, &cuts);
}

#[test]
fn a_cut_during_recovery_is_survived_too() {
    let disk = SimDisk::new();
    disk.set_fault(Fault { at: 150, kind: FaultKind::PowerCut });
    let life = whole_life(&disk, 5);
    for cut in [Cut::Kept, Cut::Reordered, Cut::Torn] {
        let image = disk.reboot(cut, 9);
        let clean = image.reboot(Cut::Kept, 0);
        drop(open(&clean).unwrap());
        for at in 0..clean.operations() {
            let first = image.reboot(Cut::Kept, 0);
            first.set_fault(Fault { at, kind: FaultKind::PowerCut });
            drop(open(&first));
            for second in [Cut::Kept, Cut::Dropped, Cut::Reordered, Cut::Torn] {
                let context = format!("{cut:?}, then at {at} {second:?}");
                let promised = life.promised(cut);
                recover(&first.reboot(second, at), &life, promised, &context, at);
            }
        }
    }
}

/// Every opening starts a log, and so does every layer that is frozen. A process that dies when it has
/// frozen what it found, and written more, leaves an empty log between two that are not.
#[test]
fn an_empty_log_hides_nothing_that_comes_later() {
    let mut disk = SimDisk::new();
    let mut expected = crate::life::State::new();
    for round in 0..4u8 {
        // Its log is removed again, so that there is a gap in the numbers.
        drop(open(&disk).unwrap());
        let local = open(&disk).unwrap();
        for number in 0..5u8 {
            let key = vec![b'k', round, number];
            expected.insert(key.clone(), vec![number]);
            let commit = kv::Commit {
                reads: vec![],
                writes: vec![],
                ops: vec![kv::Op::Put(kv::Key::new(&key), vec![number].into())],
                durability: kv::Durability::Process,
                frees: false,
            };
            let snapshot = block_on(local.snapshot()).unwrap();
            block_on(local.commit(snapshot, commit)).unwrap();
        }
        disk = disk.reboot(Cut::Kept, 0);
        let number = |name: &String| u64::from_str_radix(name.strip_prefix("log-")?, 16).ok();
        let logs: Vec<u64> = disk.list().unwrap().iter().filter_map(number).collect();
        let newest = logs.iter().copied().max().unwrap();
        let between = format!("log-{:016x}", newest - 1);
        if newest > 1 && !logs.contains(&(newest - 1)) {
            disk.create(&between).unwrap();
        } else {
            assert_eq!(round, 0, "{logs:?}");
        }
        let found = scan(&open(&disk.reboot(Cut::Kept, 0)).unwrap()).unwrap();
        assert_eq!(found, expected, "round {round}");
    }
}
