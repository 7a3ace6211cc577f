//! Every kind of finding, brought about on purpose.

use crate::audit::dump;
use crate::cases::{self, Case};
use crate::lab::Lab;
use crate::rotten::Rotten;
use crate::world::*;
use crate::{NOT_REPAIRABLE, check, repair, repair_fully};
use base::block_on;
use fs::*;
use std::sync::Arc;

/// What the lab's files held before they were spoilt. Nothing else may be read from them; an error may.
async fn no_wrong_bytes(lab: &Lab, words: &str) {
    let session = private_session(&lab.volume).await;
    let large_at = crate::lab::MIB - 3 * crate::lab::BLOCK;
    let mut large = vec![0; large_at as usize];
    large.extend(pattern(2, 6 * crate::lab::BLOCK as usize - 5));
    let files = [
        (lab.small, pattern(1, 100)),
        (lab.large, large),
        (lab.linked, b"two names".to_vec()),
        (lab.tagged, b"x".to_vec()),
        (lab.empty, Vec::new()),
    ];
    for (ino, wanted) in files {
        let Ok(handle) = session.open(&root(), ino, OpenFlags::READ).await else { continue };
        if let Ok(bytes) = session.read(handle, 0, 1 << 22).await {
            assert!(bytes == wanted, "{words}: inode {ino} has {} bytes", bytes.len());
        }
        session.release(handle).await.unwrap();
    }
    settle(&session).await;
    session.stop().await.unwrap();
    let after = check(&lab.volume).await;
    let left = after.findings.iter().filter(|left| !NOT_REPAIRABLE.contains(&left.kind));
    assert_eq!(left.count(), 0, "{words}: used after the repair: {after:#?}");
}

fn all(cases: &[Case], parity_group: u8) {
    block_on(async {
        for (number, (kinds, said, spoil)) in cases.iter().enumerate() {
            let words = format!("case {number}, {kinds:?} {said:?}");
            let lab = Lab::new(parity_group).await;
            let found = lab.check(spoil(&lab)).await;
            assert!(!found.is_empty(), "{words}");
            let spoilt = dump(&lab.volume).await;
            let planned = Repair::new(&lab.volume).dry_run(true).run(&NoProgress).await.unwrap();
            assert!(dump(&lab.volume).await == spoilt, "{words}: a dry run changes nothing");
            let report = repair_fully(&lab.volume, &words).await;
            assert_eq!(report.before.findings, found, "{words}");
            let lost = kinds.iter().all(|kind| NOT_REPAIRABLE.contains(kind)) && parity_group == 0;
            assert_eq!(report.after.is_clean(), !lost, "{words}: {report:#?}");
            assert_eq!(report.is_changed(), !lost, "{words}: {report:#?}");
            assert_eq!(planned.is_changed(), !lost, "{words}: {planned:#?}");
            no_wrong_bytes(&lab, &words).await;
        }
    });
}

#[test]
fn wrong_names_are_repaired() {
    all(cases::NAMES, 0);
}

#[test]
fn wrong_records_are_repaired() {
    all(cases::RECORDS, 0);
}

#[test]
fn wrong_data_is_repaired() {
    all(cases::DATA, 0);
}

#[test]
fn wrong_data_is_repaired_beside_parity() {
    all(cases::NAMES, 4);
    all(cases::RECORDS, 4);
}

#[test]
fn wrong_parity_is_repaired_and_lost_blocks_come_back() {
    all(cases::PARITY, 4);
}

#[test]
fn keys_that_are_none_go() {
    block_on(async {
        for tail in [&b"A"[..], b"Mx", b"i\0", b"i\0\0\0\0\0\0\0\x01\x09", b"d", b"cc", b"pp", b"z"]
        {
            let lab = Lab::new(0).await;
            let before = dump(&lab.volume).await;
            let key = [&lab.volume.keys().all().start[..], tail].concat();
            lab.check_raw([(key, Some(vec![1]))].into_iter()).await;
            repair_fully(&lab.volume, &tail.escape_ascii().to_string()).await;
            assert!(dump(&lab.volume).await == before);
        }
    });
}

#[test]
fn a_sound_volume_is_not_touched() {
    block_on(async {
        for (number, change) in cases::LEGAL.iter().enumerate() {
            let lab = Lab::new(0).await;
            lab.check(change(&lab)).await;
            let before = dump(&lab.volume).await;
            let report = repair(&lab.volume).await;
            assert!(!report.is_changed() && report.after.is_clean(), "case {number}");
            assert!(dump(&lab.volume).await == before, "case {number}");
        }
    });
}

#[test]
fn what_the_store_cannot_read_is_told_and_nothing_is_changed() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let session = private_session(&volume).await;
        file(&session, ROOT, b"f", &pattern(1, 100_000)).await;
        let engine = Arc::clone(bench.world.store.engine());
        // It panics when something is written.
        let world = bench.through(Arc::new(Rotten(engine)));
        let volume = Volume::open(&world, "test").await.unwrap();
        let report = repair(&volume).await;
        assert!(!report.is_changed() && !report.after.complete);
        assert_eq!(report.after.findings[0].kind, "unreadable");
    });
}

#[test]
fn a_volume_in_use_is_not_repaired() {
    // On a store that others may use.
    let bench = Bench::sim(1, |of| kv::Capabilities { shared: true, ..of.clone() });
    let clock = bench.clock.clone();
    run(&clock, async move {
        let volume = bench.volume().await;
        let session = shared_session(&volume).await;
        let mut txn = volume.world().store.begin().await.unwrap();
        txn.put(&[&volume.keys().all().start[..], b"z"].concat(), &b"x"[..]).unwrap();
        txn.commit(kv::Durability::Process).await.unwrap();
        let alive = session.clone();
        let other = volume.clone();
        let both = std::pin::pin!(async move {
            for _ in 0..5 {
                other.world().clock.sleep(std::time::Duration::from_millis(700)).await;
                alive.beat().await.unwrap();
            }
        });
        let repairing = Repair::new(&volume);
        let repairing = std::pin::pin!(repairing.run(&NoProgress));
        let (_, error) = futures_of(both, repairing).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), Kind::Busy, "{error}");
        assert!(error.to_string().contains("unmount"), "{error}");
        session.stop().await.unwrap();
        assert!(Repair::new(&volume).run(&NoProgress).await.unwrap().after.is_clean());
    });
}

/// Runs two futures to their ends, in turns.
async fn futures_of<A, B>(
    mut left: std::pin::Pin<&mut impl Future<Output = A>>,
    mut right: std::pin::Pin<&mut impl Future<Output = B>>,
) -> (A, B) {
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(move |context| {
        use std::task::Poll;
        if first.is_none()
            && let Poll::Ready(value) = left.as_mut().poll(context)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = right.as_mut().poll(context)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}
