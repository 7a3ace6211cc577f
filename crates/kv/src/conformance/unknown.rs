//! Commits whose answer is lost, with the fault injector around the engine.

use super::bench::{Bench, assert_refused, everything, leaping, number, put};
use crate::sim::{Faults, Sim};
use crate::{Attempt, Durability, Error, ErrorKind, Read, Result, Retry, Store, Txn};
use base::{SimClock, block_on};
use std::sync::Arc;

/// Every commit happens and is not told.
const COMMITTED: Faults = Faults { unknown_committed: 1, ..Faults::NONE };

/// No commit happens, and that is not told.
const LOST: Faults = Faults { unknown_lost: 1, ..Faults::NONE };

fn faulty(bench: &Bench<'_>, faults: Faults) -> (Store, Sim) {
    let sim = Sim::new(bench.harness().fresh(), SimClock::new(), 1, faults);
    (leaping(Arc::new(sim.clone()), &Arc::default()), sim)
}

/// Adds one exactly once: a note in the same transaction tells whether it is done.
async fn add_once(txn: &mut Txn, attempt: Attempt, note: &[u8]) -> Result<()> {
    if attempt.maybe_committed && txn.get(note, Read::Serializable).await?.is_some() {
        return Ok(());
    }
    txn.put(note, &b""[..])?;
    txn.add(b"n", 1)
}

/// The body is told, finds its own work, and leaves it at that.
pub(super) fn unknown_but_committed_happens_once(bench: &Bench<'_>) {
    let (store, sim) = faulty(bench, COMMITTED);
    let mut attempts = Vec::new();
    block_on(store.transact(Durability::Process, async |txn, attempt| {
        attempts.push((attempt.number, attempt.maybe_committed));
        add_once(txn, attempt, b"note").await
    }))
    .expect("the second try finds it done");
    assert_eq!(attempts, [(1, false), (2, true)]);
    sim.set_faults(Faults::NONE);
    assert_eq!(number(&store, b"n"), 1);
    let secret = sim.secretly_committed();
    assert_eq!(secret.len(), 1);
    assert_eq!(secret[0].0.len(), 2, "the note and the number");
}

/// The body is told, finds nothing, and does it again.
pub(super) fn unknown_and_lost_is_tried_again(bench: &Bench<'_>) {
    let (store, sim) = faulty(bench, LOST);
    let mut attempts = Vec::new();
    block_on(store.transact(Durability::Process, async |txn, attempt| {
        attempts.push((attempt.number, attempt.maybe_committed));
        if attempt.number == 3 {
            sim.set_faults(Faults::NONE);
        }
        add_once(txn, attempt, b"note").await
    }))
    .expect("the third try commits");
    assert_eq!(attempts, [(1, false), (2, true), (3, true)]);
    assert_eq!(number(&store, b"n"), 1);
    assert_eq!(sim.secretly_committed(), []);
}

/// Also when the last errors were others.
pub(super) fn unknown_stays_unknown_when_the_loop_gives_up(bench: &Bench<'_>) {
    for (faults, count) in [(LOST, 0), (COMMITTED, 4)] {
        let (store, sim) = faulty(bench, faults);
        let retry = Retry { attempts_max: 4, ..Retry::default() };
        let outcome = block_on(store.with_retry(retry.clone()).transact(
            Durability::Process,
            async |txn, attempt| {
                put(txn, &[b'k', attempt.number as u8], b"");
                Ok::<_, Error>(())
            },
        ));
        assert_refused(outcome, ErrorKind::Unknown, "only unknown");
        sim.set_faults(Faults::NONE);
        let store = leaping(Arc::new(sim), &Arc::default());
        assert_eq!(everything(&store).len(), count);

        let (store, sim) = faulty(bench, faults);
        let outcome = block_on(store.with_retry(retry).transact(
            Durability::Process,
            async |txn, attempt| {
                assert_eq!(attempt.maybe_committed, attempt.number > 1);
                put(txn, b"k", b"");
                sim.set_faults(Faults { conflict: 1, ..Faults::NONE });
                match attempt.number {
                    // The faults of the first commit are the ones that were there before.
                    1 => sim.set_faults(faults),
                    2 => {}
                    _ => return Err(Error::new(ErrorKind::Unavailable, "made up by a test")),
                }
                Ok(())
            },
        ));
        assert_refused(outcome, ErrorKind::Unknown, "unknown, then others");
    }
}

/// A final error does not undo what an earlier try may have done.
pub(super) fn unknown_and_then_a_final_error_is_unknown(bench: &Bench<'_>) {
    let (store, _) = faulty(bench, COMMITTED);
    let outcome = block_on(store.transact(Durability::Process, async |txn, attempt| {
        if attempt.number == 2 {
            return Err(Error::new(ErrorKind::Full, "made up by a test"));
        }
        put(txn, b"k", b"");
        Ok(())
    }));
    assert_refused(outcome, ErrorKind::Unknown, "the first try did commit");
}

/// Many transactions, all kinds of faults but delays: each counts once.
pub(super) fn counting_through_unknown_outcomes_is_exact(bench: &Bench<'_>) {
    const COUNT: u64 = 300;
    for seed in bench.seeds(3) {
        let faults = Faults { delay: 0, ..Faults::ALL };
        let sim = Sim::new(bench.harness().fresh(), SimClock::new(), seed, faults);
        let store = leaping(Arc::new(sim.clone()), &Arc::default());
        for index in 0..COUNT {
            let note = format!("note {index}");
            block_on(store.transact(Durability::Process, async |txn, attempt| {
                add_once(txn, attempt, note.as_bytes()).await
            }))
            .expect("it commits in the end");
        }
        sim.set_faults(Faults::NONE);
        assert_eq!(number(&store, b"n"), COUNT, "seed {seed}");
        assert!(!sim.secretly_committed().is_empty(), "seed {seed}: no fault struck");
    }
}
