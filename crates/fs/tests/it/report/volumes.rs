//! Volumes as wholes: their options changed, and volumes destroyed.

use super::*;
use crate::audit::dump;
use fs::schema::Keys;
use kv::Capabilities;
use kv::sim::bounds_tight;
use std::time::Duration;

fn shared_bounds(of: &Capabilities) -> Capabilities {
    Capabilities { shared: true, ..of.clone() }
}

#[test]
fn options_can_be_changed() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let none = VolumeChanges::default();
        let same = Volume::set_options(&bench.world, "test", &none).await.unwrap();
        assert_eq!(same.record(), volume.record());
        let changes = VolumeChanges {
            capacity_bytes: Some(1 << 20),
            inodes_max: Some(10),
            codec: Some(Codec::Zstd),
        };
        let changed = Volume::set_options(&bench.world, "test", &changes).await.unwrap();
        let found = Volume::open(&bench.world, "test").await.unwrap();
        assert_eq!(found.record(), changed.record());
        let mut wanted = volume.record().clone();
        (wanted.capacity_bytes, wanted.inodes_max, wanted.codec) = (1 << 20, 10, Codec::Zstd);
        assert_eq!(*found.record(), wanted);
        let session = private_session(&found).await;
        assert_eq!(session.statfs().await.unwrap().blocks, 256);
        let unbounded = VolumeChanges { capacity_bytes: Some(0), ..none };
        let free = Volume::set_options(&bench.world, "test", &unbounded).await.unwrap();
        assert_eq!((free.record().capacity_bytes, free.record().inodes_max), (0, 10));
        let missing = Volume::set_options(&bench.world, "other", &none).await.unwrap_err();
        assert_eq!(missing.kind(), Kind::NotFound);
    });
}

/// A volume with something of everything, whose session was stopped.
async fn furnished(world: &World, name: &str) -> Volume {
    let options = FormatOptions { chunk_bytes: MIB as u32, ..FormatOptions::default() };
    let volume = Volume::format(world, name, &options).await.unwrap();
    let session = Session::start(&volume, SessionOptions::default()).await.unwrap();
    tree(&session, 3, 600).await;
    litter(&session).await;
    session.stop().await.unwrap();
    volume
}

async fn all_keys(world: &World) -> usize {
    let mut txn = world.store.begin().await.unwrap();
    let query = kv::Query::new(kv::KeyRange::all());
    txn.range(&kv::Query { bytes: 1 << 30, ..query }, kv::Read::Snapshot).await.unwrap().len()
}

#[test]
fn a_destroyed_volume_leaves_nothing_and_others_alone() {
    block_on(async {
        let bench = Bench::mem();
        let first = furnished(&bench.world, "first").await;
        let kept = dump(&first).await;
        let doomed = furnished(&bench.world, "doomed").await;
        let last = furnished(&bench.world, "last").await;
        let last_kept = dump(&last).await;
        let count = dump(&doomed).await.len() as u64;
        let told = Told::until(u64::MAX);
        let removed = Volume::destroy(&bench.world, "doomed", &told).await.unwrap();
        // The epoch went with the mark, and the name is counted.
        assert_eq!(removed, count);
        assert_eq!(*told.last.lock(), removed);
        assert_eq!(dump(&doomed).await.len(), 0);
        assert_eq!(dump(&first).await, kept);
        assert_eq!(dump(&last).await, last_kept);
        assert_eq!(Volume::list(&bench.world).await.unwrap(), ["first", "last"]);
        let again = Volume::destroy(&bench.world, "doomed", &NoProgress).await.unwrap_err();
        assert_eq!(again.kind(), Kind::NotFound);
        Volume::destroy(&bench.world, "first", &NoProgress).await.unwrap();
        Volume::destroy(&bench.world, "last", &NoProgress).await.unwrap();
        assert_eq!(all_keys(&bench.world).await, 0);
        let gone = Session::start(&doomed, SessionOptions::default()).await.unwrap_err();
        assert_eq!(gone.kind(), Kind::NotFound);
        // Another one with its number: still not the one that was opened.
        for name in ["a", "b", "c"] {
            Volume::format(&bench.world, name, &FormatOptions::default()).await.unwrap();
        }
        let gone = Session::start(&doomed, SessionOptions::default()).await.unwrap_err();
        assert_eq!(gone.kind(), Kind::NotFound);
    });
}

#[test]
fn a_destruction_cut_anywhere_leaves_the_whole_or_what_a_second_one_finishes() {
    for cut in 0.. {
        println!("cut after {cut} commits");
        let bench = Bench::sim(1, unbounded);
        let finished = block_on(async {
            let volume = furnished(&bench.world, "test").await;
            let before = dump(&volume).await;
            let (world, probe) = bench.probed();
            probe.cut_after(cut);
            if Volume::destroy(&world, "test", &NoProgress).await.is_ok() {
                return true;
            }
            let opened = Volume::open(&bench.world, "test").await;
            match cut {
                0 => {
                    opened.unwrap();
                    assert_eq!(dump(&volume).await, before);
                }
                _ => assert_eq!(opened.unwrap_err().kind(), Kind::Format),
            }
            // Nobody can take the name or the number meanwhile.
            let taken = Volume::format(&bench.world, "test", &FormatOptions::default()).await;
            assert_eq!(taken.unwrap_err().kind(), Kind::Exists);
            let other = Volume::format(&bench.world, "other", &FormatOptions::default()).await;
            assert_ne!(other.unwrap().keys(), volume.keys());
            let changed =
                Volume::set_options(&bench.world, "test", &VolumeChanges::default()).await;
            assert_eq!(changed.is_ok(), cut == 0);
            Volume::destroy(&bench.world, "test", &NoProgress).await.unwrap();
            assert_eq!(dump(&volume).await.len(), 0);
            assert_eq!(Volume::list(&bench.world).await.unwrap(), ["other"]);
            false
        });
        if finished {
            assert!(cut > 3, "it takes several commits");
            break;
        }
    }
}

#[test]
fn a_destruction_that_is_stopped_can_be_finished() {
    block_on(async {
        let bench = Bench::mem();
        let volume = furnished(&bench.world, "test").await;
        let session = private_session(&volume).await;
        let stopped = Volume::destroy(&bench.world, "test", &Told::until(1)).await.unwrap_err();
        assert_eq!(stopped.kind(), Kind::Interrupted);
        // Whoever still has it open can change nothing.
        let refused = session.mkdir(&root(), ROOT, b"late", 0o755).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Stale);
        let late = Session::start(&volume, SessionOptions::default()).await.unwrap();
        assert!(late.mkdir(&root(), ROOT, b"late", 0o755).await.is_err());
        Volume::destroy(&bench.world, "test", &NoProgress).await.unwrap();
        assert_eq!(dump(&volume).await.len(), 0);
    });
}

#[test]
fn a_volume_with_a_damaged_or_missing_record_can_be_destroyed_and_a_newer_one_not() {
    block_on(async {
        let bench = Bench::mem();
        let volume = furnished(&bench.world, "test").await;
        let key = volume.keys().unparse(&Parsed::Volume);
        let put = async |bytes: Option<Vec<u8>>| {
            let mut txn = bench.world.store.begin().await.unwrap();
            match bytes {
                Some(bytes) => txn.put(&key, bytes).unwrap(),
                None => txn.delete(&key).unwrap(),
            }
            txn.commit(kv::Durability::Process).await.unwrap();
        };
        let mut newer = volume.record().clone();
        newer.features_refuse = 4;
        put(Some(newer.encode(&key))).await;
        let before = dump(&volume).await;
        let refused = Volume::destroy(&bench.world, "test", &NoProgress).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Format);
        assert_eq!(dump(&volume).await, before);
        for record in [None, Some(b"nonsense".to_vec())] {
            put(record).await;
            Volume::destroy(&bench.world, "test", &NoProgress).await.unwrap();
            assert_eq!(all_keys(&bench.world).await, 0);
            furnished(&bench.world, "test").await;
        }
    });
}

#[test]
fn a_volume_in_use_on_a_shared_store_is_not_destroyed_and_one_of_the_dead_is() {
    let bench = Bench::sim(1, shared_bounds);
    let volume = block_on(bench.volume());
    let options = SessionOptions { host: "north".into(), pid: 42, ..shared() };
    let session = block_on(Session::start(&volume, options)).unwrap();
    block_on(tree(&session, 1, 30));
    let mut scheduler = Scheduler::new(1, bench.clock.clone());
    let clock = Arc::clone(&bench.world.clock);
    let beating = session.clone();
    spawn(&mut scheduler, async move {
        for _ in 0..10 {
            clock.sleep(Duration::from_secs(10)).await;
            beating.beat().await.unwrap();
        }
    });
    let world = bench.world.clone();
    let out =
        spawn(&mut scheduler, async move { Volume::destroy(&world, "test", &NoProgress).await });
    scheduler.run().unwrap();
    let error = out.take().unwrap_err();
    assert_eq!(error.kind(), Kind::Busy);
    assert!(error.to_string().contains("process 42 on \"north\""), "{error}");
    block_on(audit(&volume, false));
    block_on(session.mkdir(&root(), ROOT, b"still", 0o755)).unwrap();
    // From here on it is silent.
    let world = bench.world.clone();
    let removed =
        run(&bench.clock, async move { Volume::destroy(&world, "test", &NoProgress).await });
    assert!(removed.unwrap() > 30);
    assert_eq!(block_on(all_keys(&bench.world)), 0);
    assert_eq!(
        block_on(session.mkdir(&root(), ROOT, b"late", 0o755)).unwrap_err().kind(),
        Kind::Stale
    );
}

#[test]
fn destroying_works_within_tight_bounds() {
    block_on(async {
        let bench = Bench::sim(5, |of| Capabilities { shared: false, ..bounds_tight(of) });
        let options = FormatOptions { chunk_bytes: MIB as u32, ..FormatOptions::default() };
        let volume = Volume::format(&bench.world, "test", &options).await.unwrap();
        let session = private_session(&volume).await;
        tree(&session, 2, 100).await;
        session.stop().await.unwrap();
        Volume::destroy(&bench.world, "test", &NoProgress).await.unwrap();
        assert_eq!(all_keys(&bench.world).await, 0);
    });
}

#[test]
fn a_number_under_which_something_is_left_is_not_given_out() {
    block_on(async {
        let bench = Bench::mem();
        let key = Keys::new(1).unparse(&Parsed::Session { session: 9 });
        let mut txn = bench.world.store.begin().await.unwrap();
        txn.put(&key, &b"left"[..]).unwrap();
        txn.commit(kv::Durability::Process).await.unwrap();
        assert_eq!(bench.volume().await.keys(), Keys::new(2));
    });
}
