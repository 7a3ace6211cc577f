//! What is special to the reference engine and to the fault injector.

use base::exec::yield_now;
use base::sync::Mutex;
use base::{Clock, Scheduler, SeededRandom, SimClock, block_on};
use kv::mem::Mem;
use kv::sim::{Faults, Sim, bounds_tight};
use kv::{Durability, Engine, ErrorKind, Key, KeyRange, Read, Store, WatchTable};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn store(engine: impl Engine + 'static) -> Store {
    Store::new(Arc::new(engine), Arc::new(SimClock::new()), Arc::new(SeededRandom::new(1)))
}

fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[test]
fn a_watch_on_mem_waits_for_its_own_key() {
    let store = store(Mem::new());
    let mut watch = block_on(block_on(store.begin()).unwrap().watch(b"k")).unwrap();
    assert!(is_pending(&mut watch));
    for key in [&b"j"[..], b"k\0", b"l"] {
        let mut txn = block_on(store.begin()).unwrap();
        txn.put(key, &b""[..]).unwrap();
        block_on(txn.commit(Durability::Process)).unwrap();
        assert!(is_pending(&mut watch), "{key:?} is another key");
    }
    let mut txn = block_on(store.begin()).unwrap();
    txn.delete_range(&KeyRange::all()).unwrap();
    block_on(txn.commit(Durability::Process)).unwrap();
    assert!(!is_pending(&mut watch));
}

#[test]
fn a_closed_table_ends_its_watches_and_takes_new_ones() {
    let table = WatchTable::default();
    let watch = table.add(&Key::new(b"k"));
    table.close();
    assert!(table.is_empty());
    assert_eq!(block_on(watch).unwrap_err().kind(), ErrorKind::Closed);
    let watch = table.add(&Key::new(b"k"));
    assert!(!table.is_empty());
    table.fire(&KeyRange::point(b"k"));
    block_on(watch).unwrap();
    assert!(table.is_empty());
}

#[test]
fn a_lifetime_ends_to_the_nanosecond() {
    let clock = SimClock::new();
    let mem = Mem::new();
    let bounds = bounds_tight(mem.capabilities());
    let lifetime = bounds.txn_lifetime_max.unwrap();
    for faults in [Faults::NONE, Faults { conflict: u64::MAX, ..Faults::NONE }] {
        let sim = Sim::with_bounds(Arc::new(mem.clone()), clock.clone(), 1, faults, bounds.clone());
        let store = store(sim);
        let (mut reading, mut writing) =
            (block_on(store.begin()).unwrap(), block_on(store.begin()).unwrap());
        writing.put(b"k", &b""[..]).unwrap();
        clock.advance(lifetime);
        assert!(block_on(reading.get(b"k", Read::Snapshot)).is_ok());
        clock.advance(Duration::from_nanos(1));
        let error = block_on(reading.get(b"k", Read::Snapshot)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooOld);
        let error = block_on(writing.commit(Durability::Process)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooOld);
    }
}

#[test]
fn every_fault_strikes() {
    let clock = SimClock::new();
    let sim = Sim::new(Arc::new(Mem::new()), clock.clone(), 7, Faults::ALL);
    let store =
        Store::new(Arc::new(sim.clone()), Arc::new(clock.clone()), Arc::new(SeededRandom::new(7)));
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let mut scheduler = Scheduler::new(7, clock.clone());
    for task in 0..4u8 {
        let (store, kinds) = (store.clone(), Arc::clone(&kinds));
        scheduler.spawn(async move {
            for round in 0..200u8 {
                let outcome = async {
                    let mut txn = store.begin().await?;
                    txn.get(b"k", Read::Snapshot).await?;
                    txn.put(&[b'k', task, round], &b""[..])?;
                    yield_now().await;
                    txn.commit(Durability::Process).await
                };
                if let Err(error) = outcome.await {
                    kinds.lock().push(error.kind());
                }
            }
        });
    }
    scheduler.run().unwrap();
    assert!(clock.now() > Duration::from_secs(1), "calls took their time");
    let kinds = kinds.lock();
    for kind in [ErrorKind::Conflict, ErrorKind::Unavailable, ErrorKind::Unknown] {
        assert!(kinds.iter().filter(|other| **other == kind).count() > 10, "{kind:?}");
    }
    assert!(sim.secretly_committed().len() > 10);
}

#[test]
fn watches_fire_early_and_late() {
    let clock = SimClock::new();
    let faults = Faults { watch: 2, delay_max: Duration::from_millis(10), ..Faults::NONE };
    let sim = Sim::new(Arc::new(Mem::new()), clock.clone(), 3, faults);
    let store = store(sim);
    let (mut early, mut on_time, mut late) = (0, 0, 0);
    for round in 0..100u8 {
        let mut watch = block_on(block_on(store.begin()).unwrap().watch(b"k")).unwrap();
        if !is_pending(&mut watch) {
            early += 1;
            continue;
        }
        let mut txn = block_on(store.begin()).unwrap();
        txn.put(b"k", vec![round]).unwrap();
        block_on(txn.commit(Durability::Process)).unwrap();
        match pin!(&mut watch).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(_) => on_time += 1,
            Poll::Pending => {
                late += 1;
                clock.advance(Duration::from_secs(1));
                assert!(!is_pending(&mut watch), "late, but not for ever");
            }
        }
    }
    assert!(early > 10 && on_time > 10 && late > 10, "{early} {on_time} {late}");
}

#[test]
fn a_faulty_engine_still_tells_of_a_change_since_the_snapshot() {
    // Faults that never strike: the way of the injector, and nothing in it.
    let faults = Faults { conflict: u64::MAX, ..Faults::NONE };
    let store = store(Sim::new(Arc::new(Mem::new()), SimClock::new(), 1, faults));
    for gone in [false, true] {
        let mut old = block_on(store.begin()).unwrap();
        let mut txn = block_on(store.begin()).unwrap();
        txn.add(b"k", 1).unwrap();
        block_on(txn.commit(Durability::Process)).unwrap();
        let call = old.watch(b"k");
        if gone {
            drop(old);
        }
        let mut watch = block_on(call).unwrap();
        assert!(!is_pending(&mut watch), "the change was before the watch");
    }
}
