//! Scrubbing: everything is read, damage is named and mended where parity can, and who was stopped or
//! died is gone on from.

use crate::audit::dump;
use crate::check;
use crate::lab::{BLOCK, Lab, MIB};
use crate::world::*;
use base::sync::Mutex;
use base::{Clock, Scheduler, block_on};
use fs::schema::*;
use fs::*;
use kv::{Engine, Fut, Key, Query};
use std::sync::Arc;
use std::time::Duration;

async fn scrub(volume: &Volume) -> ScrubRecord {
    let session = private_session(volume).await;
    let record = session.scrub(&ScrubOptions::default(), &NoProgress).await.unwrap();
    session.stop().await.unwrap();
    record
}

fn named(record: &ScrubRecord) -> Vec<(&str, String)> {
    let path = |finding: &ScrubFinding| String::from_utf8_lossy(&finding.path).into_owned();
    record.findings.iter().map(|finding| (finding.kind.as_str(), path(finding))).collect()
}

/// A file of many chunks, a block in each.
async fn wide(session: &Session, name: &[u8], chunks: u64) -> Ino {
    let flags = OpenFlags::READ_WRITE;
    let (attr, handle) = session.create(&root(), ROOT, name, 0o644, flags).await.unwrap();
    for chunk in 0..chunks {
        session.write(&root(), handle, chunk * MIB, b"a block").await.unwrap();
    }
    session.release(handle).await.unwrap();
    attr.ino
}

async fn wide_volume(bench: &Bench) -> (Volume, Ino) {
    let options = FormatOptions { chunk_bytes: MIB as u32, ..FormatOptions::default() };
    let volume = bench.volume_with(&options).await;
    let session = private_session(&volume).await;
    let ino = wide(&session, b"wide", 300).await;
    settle(&session).await;
    session.stop().await.unwrap();
    (volume, ino)
}

#[test]
fn all_of_a_sound_volume_is_read() {
    block_on(async {
        for parity in [0, 4] {
            let lab = Lab::new(parity).await;
            let session = private_session(&lab.volume).await;
            let record = session.scrub(&ScrubOptions::default(), &NoProgress).await.unwrap();
            let found = dump(&lab.volume).await;
            let bytes: usize = found.iter().map(|(key, value)| key.len() + value.len()).sum();
            assert_eq!((record.state, record.damaged, record.repaired), (ScrubState::Done, 0, 0));
            assert_eq!(record.keys, found.len() as u64);
            // All but how long its own record is by now.
            assert!(record.bytes.abs_diff(bytes as u64) < 100, "{} of {bytes}", record.bytes);
            assert_eq!(lab.volume.scrub_status().await.unwrap(), Some(record));
            session.stop().await.unwrap();
            assert!(check(&lab.volume).await.is_clean());
        }
    });
}

#[test]
fn damage_is_named_by_kind_and_path() {
    block_on(async {
        let lab = Lab::new(0).await;
        lab.spoil(vec![
            lab.flip(Parsed::Inline { blob: lab.small }),
            lab.flip(lab.block(0, 254)),
            (lab.block(1, 1), None),
            lab.flip(Parsed::Inode { ino: lab.empty }),
            lab.flip(Parsed::Xattr { ino: lab.tagged, name: b"user.a".to_vec() }),
            lab.flip(Parsed::Entry { parent: lab.sub, name: b"other".to_vec() }),
        ])
        .await;
        let record = scrub(&lab.volume).await;
        assert_eq!((record.state, record.damaged, record.repaired), (ScrubState::Done, 6, 0));
        let wanted = [
            ("inline-damaged", "/small"),
            ("block-damaged", "/large"),
            ("block-missing", "/large"),
            ("damaged-record", "/dir/sub"),
            ("damaged-record", "/dir/empty"),
            ("damaged-record", "/tagged"),
        ];
        assert_eq!(named(&record), wanted.map(|(kind, path)| (kind, path.to_owned())));
        assert_eq!(record.findings[1].ino, lab.large);
        // It is kept, and a new one finds the same.
        assert_eq!(lab.volume.scrub_status().await.unwrap().unwrap().findings, record.findings);
        assert_eq!(scrub(&lab.volume).await.findings, record.findings);
    });
}

#[test]
fn parity_mends_one_block_of_each_group_and_is_mended_itself() {
    block_on(async {
        let lab = Lab::new(4).await;
        // The first chunk's blocks 253 to 255 are one group, the second's 0 to 2 another.
        lab.spoil(vec![
            lab.flip(lab.block(0, 254)),
            (lab.block(1, 1), None),
            lab.flip(Parsed::Inline { blob: lab.small }),
        ])
        .await;
        let record = scrub(&lab.volume).await;
        assert_eq!((record.damaged, record.repaired), (1, 2), "{record:?}");
        assert_eq!(named(&record), [("inline-damaged", "/small".to_owned())]);
        lab.spoil(vec![lab.flip(lab.parity(0, 63)), (lab.parity(1, 0), None)]).await;
        let record = scrub(&lab.volume).await;
        assert_eq!((record.damaged, record.repaired), (1, 2), "{record:?}");
        let left = check(&lab.volume).await;
        assert_eq!(left.findings_total, 1, "{left:?}");
        // Two of a group are too many.
        lab.spoil(vec![lab.flip(lab.block(0, 253)), lab.flip(lab.block(0, 255))]).await;
        let record = scrub(&lab.volume).await;
        assert_eq!((record.damaged, record.repaired), (3, 0), "{record:?}");
    });
}

/// Ends work after so many steps.
struct Steps(Mutex<u64>);

impl Progress for Steps {
    fn advance(&self, _done: u64, _total: Option<u64>) {
        let mut left = self.0.lock();
        *left = left.saturating_sub(1);
    }

    fn goes_on(&self) -> bool {
        *self.0.lock() > 0
    }
}

#[test]
fn who_is_stopped_goes_on_where_it_was() {
    block_on(async {
        let bench = Bench::mem();
        let (volume, _) = wide_volume(&bench).await;
        let mut rounds = 0;
        let mut last = ScrubRecord::default();
        while last.state != ScrubState::Done || rounds == 0 {
            let session = private_session(&volume).await;
            let steps = Steps(Mutex::new(50));
            let record = session.scrub(&ScrubOptions::default(), &steps).await.unwrap();
            assert!(record.keys > last.keys && record.next != last.next);
            assert_eq!(volume.scrub_status().await.unwrap().unwrap(), record);
            session.stop().await.unwrap();
            (last, rounds) = (record, rounds + 1);
        }
        assert!(rounds > 5, "{rounds}");
        // Each once, but for those that sessions wrote meanwhile.
        assert!(last.keys.abs_diff(dump(&volume).await.len() as u64) < 20, "{last:?}");
        // Told to, it begins anew.
        let session = private_session(&volume).await;
        let steps = Steps(Mutex::new(50));
        session.scrub(&ScrubOptions::default(), &steps).await.unwrap();
        let anew = ScrubOptions { restart: true, ..ScrubOptions::default() };
        let record = session.scrub(&anew, &NoProgress).await.unwrap();
        assert_eq!(record.keys, dump(&volume).await.len() as u64);
    });
}

#[test]
fn who_died_is_gone_on_from_and_nothing_that_it_found_is_forgotten() {
    for cut in 2..9 {
        let bench = Bench::mem();
        block_on(async {
            let (volume, ino) = wide_volume(&bench).await;
            let place = BlockPlace { slot: 0, blob: ino, chunk: 3, block: 0, generation: 0 };
            let mut txn = volume.world().store.begin().await.unwrap();
            txn.put(&volume.keys().unparse(&Parsed::Block(place)), &b"rubbish"[..]).unwrap();
            txn.commit(kv::Durability::Process).await.unwrap();
            let (world, probe) = bench.probed();
            let through = Volume::open(&world, "test").await.unwrap();
            let session = private_session(&through).await;
            probe.cut_after(cut);
            let died = session.scrub(&ScrubOptions::default(), &NoProgress).await;
            let left = volume.scrub_status().await.unwrap().unwrap();
            assert_eq!(died.is_err(), left.state == ScrubState::Running, "cut {cut}");
            drop(session);
            let session = private_session(&volume).await;
            let record = session.scrub(&ScrubOptions::default(), &NoProgress).await.unwrap();
            assert_eq!(record.state, ScrubState::Done, "cut {cut}");
            assert_eq!(named(&record), [("block-damaged", "/wide".to_owned())], "cut {cut}");
            if died.is_err() && left.keys > 0 {
                // What was done before it died was not done again.
                assert_eq!(record.began, left.began, "cut {cut}");
                assert!(record.keys < 300 * 3, "cut {cut}: {}", record.keys);
            }
        });
    }
}

#[test]
fn a_pace_is_kept() {
    let bench = Bench::sim(5, unbounded);
    let clock = bench.clock.clone();
    run(&clock, async move {
        let (volume, _) = wide_volume(&bench).await;
        let session = private_session(&volume).await;
        for rate in [1000, 20_000] {
            let begun = bench.clock.now();
            let options = ScrubOptions { rate_bytes: Some(rate), restart: true };
            let record = session.scrub(&options, &NoProgress).await.unwrap();
            let took = bench.clock.now() - begun;
            let worth = Duration::from_secs_f64(record.bytes as f64 / rate as f64);
            assert!(took >= worth, "{took:?} of {worth:?}");
            assert!(took <= worth + Duration::from_secs(1), "{took:?} of {worth:?}");
        }
    });
}

#[test]
fn another_can_stop_it_and_see_how_far_it_is() {
    let bench = Bench::sim(6, unbounded);
    let clock = bench.clock.clone();
    let (volume, _) = run(&clock, {
        let bench = Bench { world: bench.world.clone(), clock: clock.clone(), sim: None };
        async move { wide_volume(&bench).await }
    });
    let mut scheduler = Scheduler::new(1, clock.clone());
    let one = volume.clone();
    let scrubbing = spawn(&mut scheduler, async move {
        let session = shared_session(&one).await;
        let options = ScrubOptions { rate_bytes: Some(1000), restart: false };
        session.scrub(&options, &NoProgress).await.unwrap()
    });
    let time = clock.clone();
    let stopping = spawn(&mut scheduler, async move {
        let session = shared_session(&volume).await;
        assert!(!session.stop_scrub().await.unwrap() || time.now() > Duration::ZERO);
        time.sleep(Duration::from_secs(10)).await;
        let seen = volume.scrub_status().await.unwrap().unwrap();
        let busy = session.scrub(&ScrubOptions::default(), &NoProgress).await.unwrap_err();
        let stopped = session.stop_scrub().await.unwrap();
        (seen, busy, stopped, time.now())
    });
    scheduler.run().unwrap();
    let (seen, busy, stopped, _) = stopping.take();
    let record = scrubbing.take();
    assert!(stopped && seen.state == ScrubState::Running && seen.keys > 0);
    assert_eq!(busy.kind(), Kind::Busy);
    assert_eq!(record.state, ScrubState::Stopped);
    assert!(record.keys < 200, "it took notice: {}", record.keys);
}

#[test]
fn what_is_written_meanwhile_is_no_damage() {
    for seed in 0..6 {
        println!("seed {seed}");
        let bench = Bench::sim(seed, unbounded);
        let clock = bench.clock.clone();
        let parity = if seed % 2 == 0 { 4 } else { 0 };
        let volume = block_on(async {
            let options = FormatOptions {
                chunk_bytes: MIB as u32,
                block_bytes: Some(BLOCK as u32),
                parity_group: parity,
                ..FormatOptions::default()
            };
            bench.volume_with(&options).await
        });
        block_on(async {
            let session = shared_session(&volume).await;
            for number in 0..6_u8 {
                file(&session, ROOT, &[b'a' + number], &pattern(number, 30_000)).await;
            }
            wide(&session, b"wide", 40).await;
        });
        bench.stir();
        let mut scheduler = Scheduler::new(seed, clock);
        let (one, other) = (volume.clone(), volume.clone());
        let scrubs = spawn(&mut scheduler, async move {
            let session = shared_session(&one).await;
            let mut records = Vec::new();
            for _ in 0..3 {
                let again = ScrubOptions { restart: true, ..ScrubOptions::default() };
                records.push(session.scrub(&again, &NoProgress).await.unwrap());
            }
            records
        });
        scheduler.spawn(async move {
            let session = shared_session(&other).await;
            for round in 0..12_u8 {
                let name = [b'a' + round % 6];
                session.unlink(&root(), ROOT, &name).await.unwrap();
                let ino = file(&session, ROOT, &name, &pattern(round, 700_000)).await;
                let set = SetAttr { size: Some(5000), ..SetAttr::default() };
                session.setattr(&root(), ino, &set, None).await.unwrap();
                session.maintain().await.unwrap();
            }
        });
        scheduler.run().unwrap();
        for record in scrubs.take() {
            let done = (record.state, record.damaged, record.repaired);
            assert_eq!(done, (ScrubState::Done, 0, 0), "seed {seed}: {record:?}");
        }
    }
}

/// An engine that cannot read one key any more, until it is written again.
#[derive(Debug, Clone)]
struct Spotted {
    inner: Arc<dyn Engine>,
    spot: Arc<Mutex<Option<Vec<u8>>>>,
}

#[derive(Debug)]
struct SpottedSnapshot(Box<dyn kv::Snapshot>, Option<Vec<u8>>);

impl Engine for Spotted {
    fn capabilities(&self) -> &kv::Capabilities {
        self.inner.capabilities()
    }

    fn snapshot(&self) -> Fut<'static, kv::Result<Box<dyn kv::Snapshot>>> {
        let spot = self.spot.lock().clone();
        self.inner.snapshot().map(|snapshot| {
            let snapshot: Box<dyn kv::Snapshot> = Box::new(SpottedSnapshot(snapshot?, spot));
            Ok(snapshot)
        })
    }

    fn commit(
        &self,
        snapshot: Box<dyn kv::Snapshot>,
        commit: kv::Commit,
    ) -> Fut<'static, kv::Result<kv::Version>> {
        let snapshot: Box<dyn std::any::Any> = snapshot;
        let snapshot = snapshot.downcast::<SpottedSnapshot>().unwrap();
        let mut spot = self.spot.lock();
        let written =
            |op: &kv::Op| matches!(op, kv::Op::Put(key, _) if Some(&key[..]) == spot.as_deref());
        if commit.ops.iter().any(written) {
            *spot = None;
        }
        drop(spot);
        self.inner.commit(snapshot.0, commit)
    }

    fn sync(&self) -> Fut<'static, kv::Result<()>> {
        self.inner.sync()
    }

    fn watch(&self, key: &Key, since: kv::Version) -> Fut<'static, kv::Result<kv::Watch>> {
        self.inner.watch(key, since)
    }
}

fn rotten<T>() -> Fut<'static, kv::Result<T>>
where
    T: Send + 'static,
{
    Fut::ready(Err(kv::Error::new(kv::ErrorKind::Corrupt, "table 7 is damaged")))
}

impl kv::Snapshot for SpottedSnapshot {
    fn version(&self) -> kv::Version {
        self.0.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Fut<'a, kv::Result<Option<bytes::Bytes>>> {
        if self.1.as_deref() == Some(key) { rotten() } else { self.0.get(key) }
    }

    fn range<'a>(&'a self, query: &'a Query) -> Fut<'a, kv::Result<kv::Page>> {
        let spot = self.1.as_ref().is_some_and(|spot| query.range.contains(&Key::new(spot)));
        let ends_before = spot && query.limit == 1;
        if spot && !ends_before { rotten() } else { self.0.range(query) }
    }
}

#[test]
fn what_the_store_cannot_read_is_named_and_the_rest_is_read() {
    block_on(async {
        for parity in [0, 4] {
            let lab = Lab::new(parity).await;
            let world = lab.volume.world();
            let spot = |at: &Parsed| Some(lab.volume.keys().unparse(at).to_vec());
            let engine = Spotted {
                inner: Arc::clone(world.store.engine()),
                spot: Arc::new(Mutex::new(spot(&lab.block(0, 254)))),
            };
            let store =
                kv::Store::new(Arc::new(engine.clone()), world.clock.clone(), world.random.clone());
            let world = World { store, ..world.clone() };
            let volume = Volume::open(&world, "test").await.unwrap();
            let record = scrub(&volume).await;
            assert_eq!(record.state, ScrubState::Done);
            if parity > 0 {
                assert_eq!((record.damaged, record.repaired), (0, 1), "{record:?}");
                continue;
            }
            assert_eq!(named(&record), [("unreadable", "/large".to_owned())], "{record:?}");
            assert!(record.findings[0].what.contains("table 7"), "{record:?}");
            // A record: its neighbours cannot be read with it, and are not silently passed over.
            *engine.spot.lock() = spot(&Parsed::Inode { ino: lab.tagged });
            let record = scrub(&volume).await;
            assert!(record.damaged > 0 && record.state == ScrubState::Done, "{record:?}");
            assert!(record.findings.iter().all(|finding| finding.kind == "unreadable"));
        }
    });
}
