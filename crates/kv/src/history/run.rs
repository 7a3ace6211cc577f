//! Runs a plan and writes its history down.

use super::model::{self, Entry};
use super::workload::{Plan, Worker};
use super::{History, Recorder};
use crate::sim::{Faults, Sim};
use crate::{Engine, KeyRange, Op, Query, Read, Result, Store, Version};
use base::sync::Mutex;
use base::{Clock, Random, Scheduler, SeededRandom, SimClock, Spawn, block_on};
use std::sync::Arc;

/// Runs a plan on a schedule from `seed`, with the faults that `sim` has, on its clock. Everything
/// that happens is a function of the seed. The faults are switched off for the last look.
///
/// The error is text for people: the run got stuck, or the store could not be read at its end.
pub fn simulate(sim: &Sim, clock: &SimClock, seed: u64, plan: &Plan) -> Result<History, String> {
    let random = SeededRandom::new(seed);
    let recorder = Arc::new(Recorder::default());
    let mut scheduler = Scheduler::new(random.next_u64(), clock.clone());
    let engine: Arc<dyn Engine> = Arc::new(sim.clone());
    for worker in workers(&engine, Arc::new(clock.clone()), &recorder, &random, plan) {
        scheduler.spawn(worker.run());
    }
    scheduler
        .run()
        .map_err(|stuck| format!("{} tasks wait for something that never comes", stuck.tasks))?;
    sim.set_faults(Faults::NONE);
    let end = everything(&engine).map_err(|error| format!("the last look failed: {error}"))?;
    Ok(History { records: recorder.take(), secret: sim.secretly_committed(), end })
}

/// Runs a plan on real threads, one for each task. The seed fixes what each thread does, not when.
/// When they are done, `settle` calms the engine for the last look and tells which commits happened
/// although their caller was not told; none for an engine that tells everything.
pub fn on_threads(
    engine: &Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    threads: &dyn Spawn,
    seed: u64,
    plan: &Plan,
    settle: impl FnOnce() -> Vec<(Vec<Op>, Version)>,
) -> Result<History, String> {
    let random = SeededRandom::new(seed);
    let recorder = Arc::new(Recorder::default());
    let finished = Arc::new(Mutex::new(0));
    let mut joiners = Vec::new();
    for worker in workers(engine, clock, &recorder, &random, plan) {
        let finished = Arc::clone(&finished);
        let body = Box::new(move || {
            block_on(worker.run());
            *finished.lock() += 1;
        });
        let joiner = threads.spawn("history", body);
        joiners.push(joiner.map_err(|error| format!("no thread: {error}"))?);
    }
    for joiner in joiners {
        joiner.join();
    }
    if *finished.lock() != plan.tasks {
        return Err("a thread panicked".to_owned());
    }
    let secret = settle();
    let end = everything(engine).map_err(|error| format!("the last look failed: {error}"))?;
    Ok(History { records: recorder.take(), secret, end })
}

fn workers(
    engine: &Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    recorder: &Arc<Recorder>,
    random: &SeededRandom,
    plan: &Plan,
) -> Vec<Worker> {
    let shared = Arc::new(random.fork());
    (0..plan.tasks)
        .map(|task| Worker {
            store: Store::new(Arc::clone(engine), Arc::clone(&clock), shared.clone()),
            clock: Arc::clone(&clock),
            recorder: Arc::clone(recorder),
            plan: plan.clone(),
            task,
            random: random.fork(),
        })
        .collect()
}

fn everything(engine: &Arc<dyn Engine>) -> Result<Vec<Entry>> {
    block_on(async {
        let clock = Arc::new(SimClock::new());
        let random = Arc::new(SeededRandom::new(0));
        let mut txn = Store::new(Arc::clone(engine), clock, random).begin().await?;
        let mut entries = Vec::new();
        let mut next = Some(Query::new(KeyRange::all()));
        while let Some(query) = next {
            let page = txn.range(&query, Read::Snapshot).await?;
            entries.extend(model::entries(&page));
            next = if page.more { query.behind(&page) } else { None };
        }
        Ok(entries)
    })
}
