//! Simulated histories: thousands of random transactions on seeded schedules, each one checked.

use base::SimClock;
use kv::history::{History, Plan, Rules, Summary, check, simulate};
use kv::mem::Mem;
use kv::sim::{Faults, Sim};
use std::sync::Arc;

fn run(seed: u64, faults: Faults) -> History {
    let clock = SimClock::new();
    let plan = Plan::draw(&base::SeededRandom::new(seed));
    let sim = Sim::new(Arc::new(Mem::new()), clock.clone(), seed, faults);
    simulate(&sim, &clock, seed, &plan).unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

fn check_all(faults: Faults, spurious_conflicts: bool) -> Summary {
    let rules = Rules { spurious_conflicts };
    let mut total = Summary::default();
    for seed in 1..=150 {
        match check(&run(seed, faults), rules) {
            Ok(summary) => total += summary,
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    println!("seeds 1 to 150: {total}");
    total
}

#[test]
fn without_faults_every_conflict_has_a_reason() {
    let total = check_all(Faults::NONE, false);
    assert!(total.committed > 1_000 && total.reads > 5_000, "{total}");
    assert!(total.conflicts > 100 && total.read_only > 100, "{total}");
}

#[test]
fn with_all_faults_nothing_is_lost_or_made_up() {
    let total = check_all(Faults::ALL, true);
    assert!(total.unknown_committed > 50 && total.unknown_lost > 50, "{total}");
    assert!(total.committed > 1_000 && total.failed > 100, "{total}");
}

#[test]
fn a_seed_replays_byte_for_byte() {
    for seed in 1..=20 {
        let (one, other) = (run(seed, Faults::ALL), run(seed, Faults::ALL));
        assert_eq!(one.to_string(), other.to_string(), "seed {seed}");
        assert_ne!(one.to_string(), run(seed + 1, Faults::ALL).to_string());
    }
}

#[test]
fn a_changed_answer_is_noticed() {
    // The checker sees real histories too: one value changed anywhere, and it says so.
    use kv::history::Step;
    let rules = Rules { spurious_conflicts: true };
    let mut changed = 0;
    for seed in 1..=10 {
        let history = run(seed, Faults::NONE);
        for record in 0..history.records.len() {
            for step in 0..history.records[record].steps.len() {
                let mut forged = history.clone();
                let Step::Get { value, .. } = &mut forged.records[record].steps[step] else {
                    continue;
                };
                *value = match value {
                    Some(_) => None,
                    None => Some(bytes::Bytes::from_static(b"forged")),
                };
                changed += 1;
                assert!(check(&forged, rules).is_err(), "seed {seed}: {}", forged.records[record]);
            }
        }
    }
    assert!(changed > 100, "{changed} answers were forged");
}
