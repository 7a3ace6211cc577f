//! The engine against a plain map, with folds, merges and reopens in between.

use crate::life::{Life, open, scan};
use base::{Random, SeededRandom, SimDisk, block_on};
use kv::{Commit, Durability, Engine, Key, KeyRange, Op, Query};

#[test]
fn agrees_with_a_map_through_folds_merges_and_reopens() {
    let (mut merges, mut tables) = (0, 0);
    for seed in 0..40 {
        let random = SeededRandom::new(seed);
        let disk = SimDisk::new();
        let mut life = Life::new();
        for round in 0..4 {
            let local = open(&disk).unwrap();
            let context = format!("seed {seed} round {round}");
            life.check(&local, life.acknowledged, &context);
            life.live(&local, &random, 120);
            assert!(life.error.is_none(), "{context}: {:?}", life.error);
            life.check(&local, life.acknowledged, &context);
            merges += local.stats().merges;
            tables = tables.max(local.stats().tables);
            if round % 2 == 0 {
                local.close().unwrap();
            }
        }
    }
    assert!(merges > 100, "the lives must see merges, and saw {merges}");
    assert!(tables > 3, "and several tables, and saw {tables}");
}

#[test]
fn ranges_agree_with_gets_in_both_directions_at_any_page_size() {
    for seed in 0..30 {
        let random = SeededRandom::new(1_000 + seed);
        let disk = SimDisk::new();
        let mut life = Life::new();
        let local = open(&disk).unwrap();
        life.live(&local, &random, 150);
        let snapshot = block_on(local.snapshot()).unwrap();
        let state = scan(&local).unwrap();
        for _ in 0..20 {
            let bound = |random: &SeededRandom| format!("key-{:02}", random.below(50)).into_bytes();
            let (a, b) = (bound(&random), bound(&random));
            let range = KeyRange::new(&a.clone().min(b.clone()), &a.max(b));
            let expected: Vec<_> = state
                .range(range.start.to_vec()..range.end.to_vec())
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            for reverse in [false, true] {
                let mut query = Query::new(range.clone()).limit(1 + random.below(7) as usize);
                query.reverse = reverse;
                let mut found = Vec::new();
                loop {
                    let page = block_on(snapshot.range(&query)).unwrap();
                    found.extend(page.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
                    match query.behind(&page) {
                        Some(next) if page.more => query = next,
                        _ => break,
                    }
                }
                if reverse {
                    found.reverse();
                }
                assert_eq!(found, expected, "seed {seed} {range:?} reverse {reverse}");
            }
        }
        for (key, value) in &state {
            let found = block_on(snapshot.get(key)).unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]), "seed {seed}");
        }
    }
}

/// A snapshot that stays open while layers are folded and tables merged under it is moved to disk,
/// and shows the same all the time.
#[test]
fn old_snapshots_stay_as_they_were() {
    for seed in 0..10 {
        let random = SeededRandom::new(2_000 + seed);
        let disk = SimDisk::new();
        let mut life = Life::new();
        let local = open(&disk).unwrap();
        let mut kept = Vec::new();
        for _ in 0..12 {
            life.live(&local, &random, 25);
            let snapshot = block_on(local.snapshot()).unwrap();
            kept.push((snapshot, life.states[&life.acknowledged].clone()));
        }
        assert!(local.stats().merges > 3);
        assert_eq!(local.stats().snapshots, 12);
        for (snapshot, state) in &kept {
            let query = Query { bytes: usize::MAX, ..Query::new(KeyRange::all()) };
            let page = block_on(snapshot.range(&query)).unwrap();
            let found: Vec<_> = page.iter().collect();
            let expected: Vec<_> = state.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            assert!(found == expected, "seed {seed} version {}", snapshot.version());
            for (key, value) in state {
                let found = block_on(snapshot.get(key)).unwrap();
                assert_eq!(found.as_deref(), Some(&value[..]), "seed {seed}");
            }
        }
        drop(kept);
        assert_eq!(local.stats().snapshots, 0);
    }
}

/// Too many of them are given up, oldest first, with an error that says so.
#[test]
fn far_too_many_old_snapshots_are_given_up_oldest_first() {
    let random = SeededRandom::new(4);
    let disk = SimDisk::new();
    let mut life = Life::new();
    let local = open(&disk).unwrap();
    let mut kept = Vec::new();
    for _ in 0..90 {
        life.live(&local, &random, 1);
        kept.push(block_on(local.snapshot()).unwrap());
    }
    life.live(&local, &random, 150);
    assert!(life.error.is_none(), "{:?}", life.error);
    let outcomes: Vec<_> = kept.iter().map(|one| block_on(one.get(b"key-01"))).collect();
    let lost = outcomes.iter().take_while(|outcome| outcome.is_err()).count();
    assert!(lost > 0 && lost < 90, "{lost} were given up");
    assert!(outcomes[lost..].iter().all(Result::is_ok), "only the oldest");
    assert_eq!(outcomes[0].as_ref().unwrap_err().kind(), kv::ErrorKind::TooOld);
}

/// Keys come in clusters, each written for a while, as files' blocks do. A table then has wide gaps
/// between its keys, and others lie in them.
#[test]
fn clusters_of_keys_in_the_gaps_of_others_are_all_found() {
    for seed in 0..60 {
        let random = SeededRandom::new(2_000 + seed);
        let disk = SimDisk::new();
        let local = open(&disk).unwrap();
        let mut expected = crate::life::State::new();
        let mut next = [0u64; 24];
        for phase in 0..40 {
            let cluster = random.below(24) as usize;
            for _ in 0..1 + random.below(12) {
                let ops = (0..1 + random.below(40))
                    .map(|_| {
                        next[cluster] += 1;
                        let key = format!("cluster-{cluster:02}-{:06}", next[cluster]);
                        let value = vec![b'v'; random.below(60) as usize];
                        expected.insert(key.clone().into_bytes(), value.clone());
                        Op::Put(Key::new(key.as_bytes()), value.into())
                    })
                    .collect();
                let commit = Commit {
                    reads: vec![],
                    writes: vec![],
                    ops,
                    durability: Durability::Process,
                    frees: false,
                };
                let snapshot = block_on(local.snapshot()).unwrap();
                block_on(local.commit(snapshot, commit)).unwrap();
            }
            let snapshot = block_on(local.snapshot()).unwrap();
            for (key, value) in &expected {
                let found = block_on(snapshot.get(key)).unwrap();
                let key = key.escape_ascii();
                assert_eq!(found.as_deref(), Some(&value[..]), "seed {seed} phase {phase} {key}");
            }
        }
        assert_eq!(scan(&local).unwrap(), expected, "seed {seed}");
        local.close().unwrap();
        assert_eq!(scan(&open(&disk).unwrap()).unwrap(), expected, "seed {seed}, opened again");
    }
}
