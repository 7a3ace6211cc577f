//! Real threads: what holds whatever they do.

use super::bench::{
    Bench, assert_commits, begin, commit, everything, fill, get, number, pages, put,
};
use crate::history::{Plan, Rules, Summary, check, on_threads};
use crate::sim::{Faults, Sim};
use crate::{Durability, Engine, Error, KeyRange, Op, Query, Read, Version};
use base::{Random, SeededRandom, SimClock, SystemClock, block_on};
use std::sync::Arc;
use std::time::Duration;

const THREADS: usize = 4;

fn account(index: u64) -> Vec<u8> {
    format!("account {index:02}").into_bytes()
}

fn money(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("eight bytes"))
}

/// Money moves between accounts; nobody ever sees more or less of it.
pub(super) fn transfers_keep_the_total(bench: &Bench<'_>) {
    const ACCOUNTS: u64 = 8;
    const EACH: u64 = 100;
    let store = bench.store_in_real_time();
    let accounts: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
    let start = EACH.to_le_bytes();
    fill(&store, accounts.iter().map(|key| (&key[..], &start[..])));
    let seed = bench.seeds(0)[0];
    let shared = store.clone();
    bench.on_threads(THREADS, move |index| {
        let random = SeededRandom::new(seed ^ index as u64);
        for round in 0..250 {
            if round % 5 == 0 {
                let mut txn = begin(&shared);
                let all = pages(&mut txn, &Query::new(KeyRange::all()).limit(3), Read::Snapshot);
                let total: u64 = all.iter().map(|(_, value)| money(value)).sum();
                assert_eq!(total, ACCOUNTS * EACH, "seed {seed}");
                continue;
            }
            let (from, to) = (account(random.below(ACCOUNTS)), account(random.below(ACCOUNTS)));
            let amount = random.below(20);
            block_on(shared.transact(Durability::Process, async |txn, _| {
                let missing = || Error::new(crate::ErrorKind::Corrupt, "an account is gone");
                let values = txn.get_many(&[&from, &to], Read::Serializable).await?;
                let [Some(have), Some(has)] = &values[..] else {
                    return Err(missing());
                };
                let (have, has) = (money(have), money(has));
                if from != to && have >= amount {
                    txn.put(&from, (have - amount).to_le_bytes().to_vec())?;
                    txn.put(&to, (has + amount).to_le_bytes().to_vec())?;
                }
                Ok(())
            }))
            .expect("a transfer commits in the end");
        }
    });
    let total: u64 = everything(&store).iter().map(|(_, value)| money(value)).sum();
    assert_eq!(total, ACCOUNTS * EACH);
}

/// No try is in vain, and the sum is exact.
pub(super) fn atomics_from_many_threads_add_up(bench: &Bench<'_>) {
    const ROUNDS: u64 = 500;
    let store = bench.store();
    let shared = store.clone();
    bench.on_threads(THREADS, move |index| {
        for round in 0..ROUNDS {
            let mut txn = begin(&shared);
            txn.add(b"sum", round).expect("an add is taken");
            txn.max(b"top", round * THREADS as u64 + index as u64).expect("a max is taken");
            txn.add(b"count", 1).expect("an add is taken");
            assert_commits(commit(txn), "atomics alone never conflict");
        }
    });
    let threads = THREADS as u64;
    assert_eq!(number(&store, b"count"), threads * ROUNDS);
    assert_eq!(number(&store, b"sum"), threads * ROUNDS * (ROUNDS - 1) / 2);
    assert_eq!(number(&store, b"top"), threads * ROUNDS - 1);
}

/// Whoever reads two keys that are always written together finds them alike.
pub(super) fn commits_are_seen_whole(bench: &Bench<'_>) {
    let store = bench.store();
    fill(&store, [(&b"left"[..], &b"0"[..]), (b"right", b"0")]);
    let shared = store.clone();
    bench.on_threads(THREADS, move |index| {
        for round in 0..400u64 {
            let mut txn = begin(&shared);
            if index < 2 {
                let value = (round * 2 + index as u64).to_le_bytes();
                put(&mut txn, b"left", &value);
                put(&mut txn, b"right", &value);
                assert_commits(commit(txn), "blind writes never conflict");
                continue;
            }
            let left = get(&mut txn, b"left", Read::Snapshot);
            let both = pages(&mut txn, &Query::new(KeyRange::all()).reverse(), Read::Snapshot);
            assert_eq!(both.len(), 2);
            assert!(both.iter().all(|(_, value)| Some(value) == left.as_ref()));
        }
    });
}

fn plan() -> Plan {
    Plan {
        tasks: THREADS as u32,
        txns: 300,
        steps_max: 6,
        keys: 9,
        dawdle: 0,
        dawdle_max: Duration::ZERO,
    }
}

/// Random transactions on real threads, all that they saw written down and checked.
pub(super) fn histories_are_strictly_serializable(bench: &Bench<'_>) {
    let mut total = Summary::default();
    for seed in bench.seeds(4) {
        let engine = bench.harness().fresh();
        total += checked(bench, &engine, seed, Vec::new);
    }
    println!("histories: {total}");
    assert!(total.committed > 100 && total.reads > 1_000, "{total}");
}

/// The same with lost answers, made-up conflicts and an engine that is away at times.
pub(super) fn histories_with_faults_are_strictly_serializable(bench: &Bench<'_>) {
    let faults = Faults { delay: 0, ..Faults::ALL };
    let mut total = Summary::default();
    for seed in bench.seeds(4) {
        let sim = Sim::new(bench.harness().fresh(), SimClock::new(), seed, faults);
        let engine: Arc<dyn Engine> = Arc::new(sim.clone());
        total += checked(bench, &engine, seed, || {
            sim.set_faults(Faults::NONE);
            sim.secretly_committed()
        });
    }
    println!("histories with faults: {total}");
    assert!(total.unknown_committed > 0 && total.unknown_lost > 0, "{total}");
}

fn checked(
    bench: &Bench<'_>,
    engine: &Arc<dyn Engine>,
    seed: u64,
    settle: impl FnOnce() -> Vec<(Vec<Op>, Version)>,
) -> Summary {
    let threads = bench.harness().threads();
    let clock = Arc::new(SystemClock::new());
    let history = on_threads(engine, clock, &*threads, seed, &plan(), settle)
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let rules = Rules { spurious_conflicts: true };
    check(&history, rules).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"))
}
