//! The same random operations the short way and by transactions: what is left in the store is the same, record for
//! record, but for the numbers that inodes and blobs got.

use crate::audit::dump;
use crate::short::{SEEDS, bench, seeds};
use crate::world::run;
use base::{Random, SeededRandom};
use fs::model::{Mix, Mounted, compare};
use fs::schema::{Entry, Inode, Parsed};
use fs::{Ino, ROOT, Volume};
use std::collections::BTreeMap;

/// Records in words, with how many there are of each.
type Records = BTreeMap<String, u64>;

/// Everything in a volume's keys, told by paths and not by numbers.
async fn records(volume: Volume) -> Records {
    let all = dump(&volume).await;
    let parse = |key: &[u8]| volume.keys().parse(key).expect("a known key");
    let mut entries: BTreeMap<Ino, BTreeMap<Vec<u8>, Entry>> = BTreeMap::new();
    for (key, value) in &all {
        if let Parsed::Entry { parent, name } = parse(key) {
            entries.entry(parent).or_default().insert(name, Entry::decode(key, value).unwrap());
        }
    }
    // The first path of each inode stands for it.
    let mut paths = BTreeMap::from([(ROOT, String::new())]);
    let mut left = vec![ROOT];
    while let Some(dir) = left.pop() {
        for (name, entry) in entries.get(&dir).into_iter().flatten() {
            let path = format!("{}/{}", paths[&dir], name.escape_ascii());
            if paths.insert(entry.ino, path).is_none() {
                left.push(entry.ino);
            }
        }
    }
    let of = |ino: Ino| paths.get(&ino).map_or("nobody", |path| path).to_owned();
    let mut found = Records::new();
    let mut sums: BTreeMap<u8, u64> = BTreeMap::new();
    for (key, value) in &all {
        let number = || u64::from_le_bytes(value[..].try_into().unwrap());
        let words = match parse(key) {
            Parsed::Inode { ino } => {
                let inode = Inode::decode(key, ino, value).unwrap();
                let (parent, own) = (of(inode.parent), inode.blob == ino);
                let inode = Inode { parent: 0, blob: 0, ..inode };
                format!("{}: {inode:?} in {parent:?}, its own blob: {own}", of(ino))
            }
            Parsed::Entry { parent, name } => {
                let Entry { ino, file_type } = Entry::decode(key, value).unwrap();
                let name = name.escape_ascii();
                format!("{} has {name}: {}, {file_type:?}", of(parent), of(ino))
            }
            Parsed::Changed { ino } => format!("{} changed: {}", of(ino), number()),
            Parsed::Subdirs { ino } => format!("{} subdirs: {}", of(ino), number()),
            Parsed::Blocks { ino } => format!("{} blocks: {}", of(ino), number()),
            Parsed::Xattr { ino, name } => {
                format!("{} has attribute {}: {} bytes", of(ino), name.escape_ascii(), value.len())
            }
            Parsed::Counter { counter, .. } => {
                let sum = sums.entry(counter).or_default();
                *sum = sum.wrapping_add(number());
                continue;
            }
            // Of the rest: how many, and how long. What they hold was compared with the model.
            Parsed::Inline { .. } => format!("inline of {} bytes", value.len()),
            Parsed::Map { chunk, .. } => format!("chunk {chunk}"),
            Parsed::Block(place) => format!("block {} of chunk {}", place.block, place.chunk),
            Parsed::Op { .. } | Parsed::Job { .. } | Parsed::NextInode => continue,
            other => format!("{other:?}").split([' ', '{']).next().unwrap().to_owned(),
        };
        *found.entry(words).or_default() += 1;
    }
    found.extend(sums.into_iter().map(|(counter, sum)| (format!("counter {counter}"), sum)));
    found
}

/// The records that one seed leaves, and how many changes it made the short way.
fn left_by(seed: u64, looks: bool) -> Result<(Records, u64), String> {
    let random = SeededRandom::new(seed);
    let bench = bench(&random);
    bench.crowd.let_look(looks);
    let steps = 40 + random.below(100) as usize;
    // Names alone are of interest: bytes go by transactions.
    let plan = compare::Plan::of(&bench.session, steps, Mix::Everything).mounted();
    let mounted = Mounted::new(bench.session.clone());
    let run_of = random.next_u64();
    compare::simulate(&mounted, &bench.clock, run_of, &plan).1?;
    let records = run(&bench.clock, records(bench.volume));
    Ok((records, bench.session.counts().short_changes))
}

#[test]
fn the_short_way_leaves_what_a_transaction_leaves() {
    let (mut short, mut records) = (0, 0);
    let (seeds, named) = seeds(SEEDS);
    for seed in seeds.clone() {
        let (one, changes) = left_by(seed, true).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let (other, none) = left_by(seed, false).unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert_eq!(none, 0);
        let missing: Vec<_> =
            other.iter().filter(|(words, count)| one.get(*words) != Some(count)).collect();
        let added: Vec<_> =
            one.iter().filter(|(words, count)| other.get(*words) != Some(count)).collect();
        assert!(
            one == other,
            "seed {seed}: the short way has {added:#?}, a transaction {missing:#?}"
        );
        (short, records) = (short + changes, records + one.len());
    }
    println!("seeds {seeds:?}: {short} changes the short way, {records} records compared");
    assert!(short >= 1000 || named, "{short}");
}
