//! Repairing and scrubbing a volume: everything that can be wrong is found, named and mended, and what is mended twice
//! is changed once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(dead_code, reason = "what the tests of the core share is more than is used here")]

#[path = "../it/audit.rs"]
mod audit;
#[path = "../it/check/cases.rs"]
mod cases;
#[path = "../it/check/lab.rs"]
mod lab;
#[path = "../it/probe.rs"]
mod probe;
#[path = "../it/check/rotten.rs"]
mod rotten;
#[path = "../it/world.rs"]
mod world;

mod crew;
mod cut;
mod every;
mod lost;
mod random;
mod scrub;

use audit::dump;
use fs::{Check, CheckReport, NoProgress, Repair, RepairReport, Volume};

/// What no repair can bring back.
const NOT_REPAIRABLE: &[&str] =
    &["block-missing", "block-damaged", "inline-missing", "inline-damaged"];

async fn check(volume: &Volume) -> CheckReport {
    Check::new(volume).run(&NoProgress).await.unwrap()
}

async fn repair(volume: &Volume) -> RepairReport {
    Repair::new(volume).run(&NoProgress).await.unwrap()
}

/// Repairs, and sees that nothing is left but what cannot be repaired, that the report says so, and that
/// a second repair changes nothing.
async fn repair_fully(volume: &Volume, words: &str) -> RepairReport {
    let report = repair(volume).await;
    let left: Vec<_> = report.after.findings.iter().map(|finding| finding.kind).collect();
    assert!(
        report.after.complete && left.iter().all(|kind| NOT_REPAIRABLE.contains(kind)),
        "{words}: {report:#?}"
    );
    assert_eq!(check(volume).await, report.after, "{words}");
    let settled = dump(volume).await;
    let again = repair(volume).await;
    assert!(!again.is_changed(), "{words}: {again:#?}");
    assert_eq!(again.after, report.after, "{words}");
    assert!(dump(volume).await == settled, "{words}: repairing twice changed something");
    report
}
