//! Several threads check as one does.

use crate::cases;
use crate::lab::Lab;
use crate::world::*;
use base::{SystemThreads, block_on};
use fs::*;
use std::sync::Arc;

async fn by(volume: &Volume, threads: usize) -> CheckReport {
    Check::new(volume).threads(threads, Arc::new(SystemThreads)).run(&NoProgress).await.unwrap()
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let all = [cases::NAMES, cases::RECORDS, cases::DATA, cases::PARITY].concat();
    block_on(async {
        for (number, (kinds, _, spoil)) in all.iter().enumerate() {
            let parity = if number + cases::PARITY.len() >= all.len() { 4 } else { 0 };
            let lab = Lab::new(parity).await;
            lab.spoil(spoil(&lab)).await;
            let alone = Check::new(&lab.volume).run(&NoProgress).await.unwrap();
            assert!(!alone.is_clean(), "{kinds:?}");
            for threads in [1, 2, 4] {
                assert_eq!(by(&lab.volume, threads).await, alone, "{kinds:?} by {threads}");
            }
        }
    });
}

#[test]
fn many_inodes_are_counted_by_all() {
    block_on(async {
        let volume = Bench::mem().volume().await;
        let session = private_session(&volume).await;
        let mut parent = ROOT;
        for number in 0..9000_u32 {
            let name = format!("n{number}");
            if number % 1000 == 0 {
                parent = session.mkdir(&root(), parent, name.as_bytes(), 0o755).await.unwrap().ino;
            }
            file(&session, parent, name.as_bytes(), &name.as_bytes()[..(number % 3) as usize])
                .await;
        }
        settle(&session).await;
        session.stop().await.unwrap();
        let alone = by(&volume, 1).await;
        assert_eq!((alone.inodes, alone.findings_total), (9010, 0), "{:?}", alone.findings);
        // Wrong in many parts: every third name goes.
        let mut txn = volume.world().store.begin().await.unwrap();
        let found = crate::audit::dump(&volume).await;
        let entries = found.keys().filter(|key| key[2] == b'd');
        entries.step_by(3).for_each(|key| txn.delete(key).unwrap());
        txn.commit(kv::Durability::Process).await.unwrap();
        let alone = by(&volume, 1).await;
        assert!(alone.findings_total > 3000);
        assert_eq!(by(&volume, 4).await, alone);
        assert_eq!(by(&volume, 7).await, alone);
    });
}

#[test]
fn a_snapshot_that_does_not_last_is_taken_anew_when_nobody_changes_anything() {
    use kv::sim::bounds_tight;
    let bench = Bench::sim(3, bounds_tight);
    let clock = bench.clock.clone();
    run(&clock, async move {
        let options = FormatOptions { chunk_bytes: 1 << 20, ..FormatOptions::default() };
        let volume = bench.volume_with(&options).await;
        let session = shared_session(&volume).await;
        for number in 0..200_u8 {
            file(&session, ROOT, format!("f{number}").as_bytes(), &pattern(number, 5000)).await;
        }
        settle(&session).await;
        // Each call takes so long that no snapshot lasts to the end.
        let slow = kv::sim::Faults {
            delay: 1,
            delay_max: std::time::Duration::from_secs(2),
            ..kv::sim::Faults::NONE
        };
        bench.sim.as_ref().unwrap().set_faults(slow);
        let error = Check::new(&volume).run(&NoProgress).await.unwrap_err();
        assert!(error.to_string().contains("unmount the volume"), "{error}");
        bench.calm();
        session.stop().await.unwrap();
        bench.sim.as_ref().unwrap().set_faults(slow);
        let report = Check::new(&volume).run(&NoProgress).await.unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        assert_eq!(report.inodes, 201);
    });
}
