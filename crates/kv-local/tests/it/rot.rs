//! Rot: flipped bits, zeroed sectors, cut and lost files, in every file of a store. What is read is
//! what was written, or the error says corrupt; never something else, and never a panic.

use crate::life::{Life, State, open, scan};
use base::Disk;
use base::disk::Cut;
use base::{Random, SeededRandom, SimDisk, block_on};
use kv::{Engine, ErrorKind};
use kv_local::Local;

/// A store with several tables and a log, closed or killed.
fn store(closed: bool) -> (SimDisk, State) {
    let disk = SimDisk::new();
    let local = open(&disk).unwrap();
    let mut life = Life::new();
    let random = SeededRandom::new(3);
    life.live(&local, &random, 100);
    while local.stats().log_bytes < 500 {
        life.live(&local, &random, 1);
    }
    assert!(life.error.is_none());
    let state = scan(&local).unwrap();
    let stats = local.stats();
    assert!(stats.tables >= 2 && stats.log_bytes > 500, "{stats:?}");
    if closed {
        local.close().unwrap();
        return (disk, state);
    }
    (disk.reboot(Cut::Kept, 0), state)
}

/// Reads everything, one way and the other, and compares.
fn check(disk: &SimDisk, state: &State, context: &str) -> bool {
    let local = match open(disk) {
        Ok(local) => local,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{context}: {error:?}");
            return false;
        }
    };
    let mut whole = true;
    match scan(&local) {
        Ok(found) => assert!(found == *state, "{context}: a scan shows something else"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{context}: {error:?}");
            whole = false;
        }
    }
    let snapshot = block_on(local.snapshot()).unwrap();
    for (key, value) in state {
        match block_on(snapshot.get(key)) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&value[..]), "{context}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{context}: {error:?}");
                whole = false;
            }
        }
    }
    match block_on(snapshot.get(b"key-99")) {
        Ok(found) => assert_eq!(found, None, "{context}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{context}"),
    }
    whole
}

fn files(disk: &SimDisk) -> Vec<String> {
    let names = disk.list().unwrap();
    // What is in the reserve means nothing, and copies are read when all else is lost.
    let means = |name: &String| {
        name != "reserve" && !name.ends_with(".copy") && !disk.peek(name).unwrap().is_empty()
    };
    names.into_iter().filter(means).collect()
}

#[test]
fn a_flipped_bit_anywhere_is_noticed_or_harmless() {
    for closed in [true, false] {
        let (disk, state) = store(closed);
        let random = SeededRandom::new(8);
        let (mut flips, mut noticed) = (0u32, 0u32);
        for name in files(&disk) {
            let bytes = disk.peek(&name).unwrap();
            // Every byte of the parts that matter most, every third of the rest.
            let step = if name.starts_with("table") { 3 } else { 1 };
            let used = bytes.iter().rposition(|&byte| byte != 0).unwrap_or(0) + 9;
            for at in (0..bytes.len().min(used)).step_by(step) {
                let bit = random.below(8);
                let mut rotten = bytes.clone();
                rotten[at] ^= 1 << bit;
                let copy = disk.reboot(Cut::Kept, 0);
                copy.poke(&name, rotten);
                let context = format!("closed {closed}: bit {bit} of byte {at} of {name}");
                flips += 1;
                noticed += u32::from(!check(&copy, &state, &context));
            }
        }
        println!("closed {closed}: {flips} flips, {noticed} noticed, the others harmless");
        assert!(noticed > flips / 4, "a flip that nobody can notice was tested");
    }
}

#[test]
fn damage_of_every_other_kind_is_noticed_or_harmless() {
    let (disk, state) = store(true);
    for name in files(&disk) {
        let bytes = disk.peek(&name).unwrap();
        for at in (0..bytes.len()).step_by(512) {
            let end = bytes.len().min(at + 512);
            let mut zeroed = bytes.clone();
            zeroed[at..end].fill(0);
            let mut cut = bytes.clone();
            cut.truncate(at);
            let mut swapped = bytes.clone();
            let other = (at + 512) % bytes.len().max(1);
            let len = (end - at).min(bytes.len() - other);
            for offset in 0..len {
                swapped.swap(at + offset, other + offset);
            }
            for (what, damaged) in [("zeroed", zeroed), ("cut", cut), ("swapped", swapped)] {
                let copy = disk.reboot(Cut::Kept, 0);
                copy.poke(&name, damaged);
                check(&copy, &state, &format!("{name} {what} at {at}"));
            }
        }
        if name != "lock" {
            let copy = disk.reboot(Cut::Kept, 0);
            copy.lose(&name);
            let whole = check(&copy, &state, &format!("{name} lost"));
            assert!(!whole, "{name} was lost and nobody noticed");
        }
    }
}

#[test]
fn a_damaged_table_hides_only_what_it_held() {
    let (disk, state) = store(true);
    let mut hidden = 0;
    for name in files(&disk).into_iter().filter(|name| name.starts_with("table")) {
        let copy = disk.reboot(Cut::Kept, 0);
        let mut bytes = copy.peek(&name).unwrap();
        bytes[40] ^= 1;
        copy.poke(&name, bytes);
        let local = open(&copy).unwrap();
        let snapshot = block_on(local.snapshot()).unwrap();
        let errors: Vec<_> =
            state.keys().filter_map(|key| block_on(snapshot.get(key)).err()).collect();
        assert!(errors.len() < state.len(), "damage to {name} hides everything");
        for error in &errors {
            assert!(error.to_string().contains(&name), "the error names the file: {error}");
        }
        hidden += errors.len();
    }
    assert!(hidden > 0, "damage must be noticed");
}

/// What is left of a store with one damaged file can be read, and nothing is written.
#[test]
fn what_is_left_can_be_recovered() {
    let (disk, state) = store(true);
    for name in files(&disk).into_iter().filter(|name| name != "lock") {
        let bytes = disk.peek(&name).unwrap();
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 3] ^= 4;
        let mut zeroed = bytes.clone();
        zeroed[bytes.len() / 4..].fill(0);
        let cut = bytes[..bytes.len() / 2].to_vec();
        for (what, damaged) in [
            ("flipped", Some(flipped)),
            ("zeroed", Some(zeroed)),
            ("cut", Some(cut)),
            ("lost", None),
        ] {
            let context = format!("{name} {what}");
            let copy = disk.reboot(Cut::Kept, 0);
            match damaged {
                Some(damaged) => copy.poke(&name, damaged),
                None => copy.lose(&name),
            }
            let before: Vec<_> =
                copy.list().unwrap().into_iter().map(|name| (copy.peek(&name), name)).collect();
            let (local, notes) = Local::recover(
                std::sync::Arc::new(copy.clone()),
                &SeededRandom::new(1),
                crate::life::small(),
            )
            .unwrap_or_else(|error| panic!("{context}: {error:?}"));
            let snapshot = block_on(local.snapshot()).unwrap();
            let (mut right, mut old) = (0, 0);
            for (key, value) in &state {
                match block_on(snapshot.get(key)) {
                    Ok(found) if found.as_deref() == Some(&value[..]) => right += 1,
                    // Only what was written last may be missing, and then that is said.
                    Ok(_) => old += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "{context}: {error:?}");
                        assert!(error.to_string().contains(&name), "{context}: {error}");
                    }
                }
            }
            assert!(right > 0, "{context}: nothing is left");
            assert!(
                old == 0 || name.starts_with("log"),
                "{context}: {old} are not what was written"
            );
            let silent =
                old > 0 && !notes.iter().any(|note| note.contains(&name) || note.contains("log"));
            assert!(!silent, "{context}: {notes:?}");
            drop(snapshot);
            drop(local);
            let after: Vec<_> =
                copy.list().unwrap().into_iter().map(|name| (copy.peek(&name), name)).collect();
            assert!(before == after, "{context}: something was written");
            assert_eq!(copy.operations(), 0, "{context}: something was written");
        }
    }
}
