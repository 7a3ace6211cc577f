//! Random damage of random keys, from a seed.

use crate::audit::dump;
use crate::check;
use crate::world::*;
use base::{Random, SeededRandom, block_on};
use bytes::Bytes;
use fs::schema::*;
use fs::*;
use std::collections::{BTreeMap, BTreeSet};

/// Seeds of one run; `SEAMOUNT_REPAIR_SEEDS` says how many others, and where they begin.
const SEEDS: u64 = 150;

struct Populated {
    volume: Volume,
    /// Files by number, with what they hold.
    files: BTreeMap<Ino, Vec<u8>>,
}

async fn populate(random: &SeededRandom) -> Populated {
    let options = FormatOptions {
        chunk_bytes: 1 << 20,
        block_bytes: Some(4096),
        parity_group: [0, 0, 4][random.below(3) as usize],
        ..FormatOptions::default()
    };
    let volume = Bench::mem().volume_with(&options).await;
    let session = private_session(&volume).await;
    let mut dirs = vec![ROOT];
    let mut files = BTreeMap::new();
    for number in 0..24_u8 {
        let parent = dirs[random.below(dirs.len() as u64) as usize];
        let name = [b'f', b'a' + number];
        match random.below(7) {
            0 | 1 => {
                let made = session.mkdir(&root(), parent, &name, 0o755).await.unwrap();
                dirs.push(made.ino);
            }
            2 => drop(session.symlink(&root(), parent, &name, b"somewhere").await.unwrap()),
            kind => {
                let size = [0, 10, 900, 5000, 30_000][random.below(5) as usize];
                let bytes = pattern(number, size);
                let ino = file(&session, parent, &name, &bytes).await;
                if kind == 3 {
                    session.setxattr(&root(), ino, b"user.a", &name, XattrMode::Any).await.unwrap();
                }
                if kind == 4 {
                    session.link(&root(), ino, ROOT, &[b'l', number + b'a']).await.unwrap();
                }
                files.insert(ino, bytes);
            }
        }
    }
    // Some is under way when it dies: open files without names, and jobs.
    let flags = OpenFlags::READ_WRITE;
    let (_, handle) = session.tmpfile(&root(), ROOT, 0o600, flags).await.unwrap();
    write_all(&session, handle, 0, &pattern(9, 9000)).await;
    if random.one_in(2) {
        session.release(handle).await.unwrap();
        settle(&session).await;
        session.stop().await.unwrap();
    }
    Populated { volume, files }
}

/// The files that a key tells something of.
fn concerned(volume: &Volume, found: &BTreeMap<Vec<u8>, Bytes>, key: &[u8]) -> Vec<Ino> {
    match volume.keys().parse(key) {
        Some(
            Parsed::Inode { ino }
            | Parsed::Xattr { ino, .. }
            | Parsed::Changed { ino }
            | Parsed::Blocks { ino }
            | Parsed::Garbage { ino }
            | Parsed::Inline { blob: ino }
            | Parsed::Map { blob: ino, .. }
            | Parsed::Block(BlockPlace { blob: ino, .. }),
        ) => vec![ino],
        // A name that is gone takes nothing from the file.
        Some(Parsed::Entry { .. }) => {
            let entry = found.get(key).and_then(|value| Entry::decode(key, value));
            entry.map(|_| Vec::new()).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Spoils some keys; returns the files that were hit.
async fn spoil(volume: &Volume, random: &SeededRandom) -> BTreeSet<Ino> {
    let found = dump(volume).await;
    let keys: Vec<&Vec<u8>> = found.keys().collect();
    let any = || keys[random.below(keys.len() as u64) as usize].clone();
    let mut hit = BTreeSet::new();
    let mut txn = volume.world().store.begin().await.unwrap();
    for _ in 0..1 + random.below(6) {
        let key = any();
        let mut value = found[&key].to_vec();
        hit.extend(concerned(volume, &found, &key));
        match random.below(5) {
            0 => txn.delete(&key).unwrap(),
            1 => {
                let other = any();
                hit.extend(concerned(volume, &found, &other));
                txn.put(&key, found[&other].clone()).unwrap();
                txn.put(&other, value).unwrap();
            }
            2 => {
                value.truncate(random.below(value.len().max(1) as u64) as usize);
                txn.put(&key, value).unwrap();
            }
            3 if !value.is_empty() => {
                let at = random.below(value.len() as u64) as usize;
                value[at] ^= 1 << random.below(8);
                txn.put(&key, value).unwrap();
            }
            _ => {
                // Something that was never there.
                let mut key = key;
                let at = 3 + random.below(key.len().saturating_sub(3).max(1) as u64) as usize;
                if let Some(byte) = key.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
                hit.extend(concerned(volume, &found, &key));
                txn.put(&key, value).unwrap();
            }
        }
    }
    txn.commit(kv::Durability::Process).await.unwrap();
    hit
}

async fn one(seed: u64) {
    let random = SeededRandom::new(seed);
    let Populated { volume, files } = populate(&random).await;
    let hit = spoil(&volume, &random).await;
    let words = format!("seed {seed}");
    let report = Repair::new(&volume).run(&NoProgress).await.unwrap();
    let left = report.after.findings.iter().find(|left| {
        // A map entry whose blocks do not tell what it was stays damaged.
        let map = left.kind == "damaged-record" && left.what.starts_with("Map");
        !crate::NOT_REPAIRABLE.contains(&left.kind) && !map
    });
    assert!(report.after.complete && left.is_none(), "{words}: {report:#?}");
    assert_eq!(check(&volume).await, report.after, "{words}");
    let settled = dump(&volume).await;
    let again = Repair::new(&volume).run(&NoProgress).await.unwrap();
    assert!(!again.is_changed(), "{words}: {again:#?}\nbefore: {report:#?}");
    assert!(dump(&volume).await == settled, "{words}: repairing twice changed something");
    let session = private_session(&volume).await;
    for (ino, wanted) in files.iter().filter(|(ino, _)| !hit.contains(ino)) {
        assert!(contents(&session, *ino).await == *wanted, "{words}: inode {ino}: {report:#?}");
    }
    // It can be used.
    file(&session, ROOT, b"new", &pattern(3, 20_000)).await;
    settle(&session).await;
    session.stop().await.unwrap();
    let after = check(&volume).await;
    let new = after.findings.iter().find(|finding| !report.after.findings.contains(finding));
    assert_eq!(new, None, "{words}: used after the repair");
}

#[test]
fn random_damage_is_repaired_once() {
    let from = |name: &str, or| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(or);
    let (first, count) = (from("SEAMOUNT_REPAIR_SEED", 0), from("SEAMOUNT_REPAIR_SEEDS", SEEDS));
    for seed in first..first + count {
        println!("seed {seed}");
        block_on(one(seed));
    }
}
