//! Waiting for a counter: writers raise it, exactly as often as they mean to, and waiters look,
//! watch and wait until it is there. Whatever the watches do, everybody comes to an end.

use super::setup::Setup;
use base::exec::yield_now;
use base::sync::Mutex;
use base::{Clock, Random, Scheduler, SeededRandom, SimClock, block_on};
use kv::sim::Faults;
use kv::{Durability, Error, Read, Retry, Store};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

const COUNTER: &[u8] = b"counter";

/// One seed's share of this.
pub fn run(setup: &Setup, random: &SeededRandom, trace: &mut String) -> Result<(), String> {
    let (writers, waiters, each) = (1 + random.below(3), 1 + random.below(3), 1 + random.below(8));
    let target = writers * each;
    let clock = SimClock::new();
    let sim = setup.open(&clock, random.next_u64())?;
    // Nobody gives up here: the faults come by chance, and chance lets everybody through.
    let patient = Retry { attempts_max: u32::MAX, deadline: Duration::MAX, ..Retry::default() };
    let (shared_clock, shared_random) = (Arc::new(clock.clone()), Arc::new(random.fork()));
    let store = Store::new(Arc::new(sim.clone()), shared_clock, shared_random).with_retry(patient);
    let log = Arc::new(Mutex::new(String::new()));
    let mut scheduler = Scheduler::new(random.next_u64(), clock.clone());
    for index in 0..writers {
        let writer = Writer {
            store: store.clone(),
            clock: clock.clone(),
            random: random.fork(),
            index,
            log: Arc::clone(&log),
        };
        scheduler.spawn(writer.run(each));
    }
    for index in 0..waiters {
        let waiter = Waiter {
            store: store.clone(),
            clock: clock.clone(),
            random: random.fork(),
            index,
            log: Arc::clone(&log),
        };
        scheduler.spawn(waiter.run(target));
    }
    let outcome = scheduler.run();
    let log = log.lock();
    let _ = writeln!(trace, "{writers} writers to {target}, {waiters} waiters\n{log}");
    outcome.map_err(|stuck| format!("{} tasks wait for ever", stuck.tasks))?;
    if let Some(line) = log.lines().find(|line| line.contains("WRONG")) {
        return Err(line.to_owned());
    }
    sim.set_faults(Faults::NONE);
    let end = block_on(async {
        let mut txn = store.begin().await?;
        txn.get(COUNTER, Read::Snapshot).await
    });
    let end = end.map_err(|error| format!("the last look failed: {error}"))?;
    match number(end.as_deref()) {
        end if end == target => Ok(()),
        end => Err(format!("the counter is {end}, not {target}")),
    }
}

fn number(value: Option<&[u8]>) -> u64 {
    value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn note(log: &Mutex<String>, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(log.lock(), "{text}");
}

struct Writer {
    store: Store,
    clock: SimClock,
    random: SeededRandom,
    index: u64,
    log: Arc<Mutex<String>>,
}

impl Writer {
    async fn run(self, each: u64) {
        for round in 0..each {
            if self.random.one_in(2) {
                self.clock.sleep(Duration::from_micros(self.random.below(100_000))).await;
            }
            let name = format!("done {} {round}", self.index);
            let name = name.as_bytes();
            let raised =
                self.store.transact_send(Durability::Process, |mut txn, attempt| async move {
                    // After an unknown outcome, the note tells whether it is done.
                    if attempt.maybe_committed && txn.get(name, Read::Serializable).await?.is_some()
                    {
                        return Ok((txn, attempt));
                    }
                    txn.put(name, &b""[..])?;
                    txn.add(COUNTER, 1)?;
                    Ok::<_, Error>((txn, attempt))
                });
            match raised.await {
                Ok(done) => note(
                    &self.log,
                    format_args!("writer {} at {}: {:?}", self.index, done.version, done.value),
                ),
                Err(error) => note(&self.log, format_args!("WRONG: a writer gave up: {error:?}")),
            }
        }
    }
}

struct Waiter {
    store: Store,
    clock: SimClock,
    random: SeededRandom,
    index: u64,
    log: Arc<Mutex<String>>,
}

impl Waiter {
    async fn run(self, target: u64) {
        let mut last = 0;
        loop {
            let now = match self.look_and_wait(target).await {
                Ok(now) => now,
                Err(error) if error.kind().is_retryable() => {
                    self.clock.sleep(Duration::from_millis(1)).await;
                    continue;
                }
                Err(error) => {
                    return note(&self.log, format_args!("WRONG: a waiter failed: {error:?}"));
                }
            };
            note(&self.log, format_args!("waiter {} saw {now}", self.index));
            if now < last {
                note(&self.log, format_args!("WRONG: after {last} it saw {now}"));
            }
            if now >= target {
                return;
            }
            last = now;
            yield_now().await;
        }
    }

    /// Looks; when it is not there yet, waits until somebody may have changed it.
    async fn look_and_wait(&self, target: u64) -> kv::Result<u64> {
        let mut txn = self.store.begin().await?;
        let now = number(txn.get(COUNTER, Read::Snapshot).await?.as_deref());
        if now < target {
            let watch = txn.watch(COUNTER);
            // The watch does not need the transaction any more, whenever it is gone.
            let watch = match self.random.one_in(2) {
                true => {
                    drop(txn);
                    watch.await?
                }
                false => watch.await?,
            };
            watch.await?;
        }
        Ok(now)
    }
}
