//! Short runs of every scenario, and that a seed is a run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test binary")]

use base::{OsRandom, Random};
use sim::scenario;
use sim::seeds::{run, trial};
use std::process::Command;

#[test]
fn two_hundred_seeds_and_some_new_ones_pass() {
    for scenario in scenario::ALL {
        // Far from the fixed ones, and another place each time. The report names what fails.
        let fresh = 1_000_000 + OsRandom::new().below(1 << 40);
        for (start, seeds) in [(1, 200), (fresh, 50)] {
            println!("{}: seeds from {start}", scenario.name);
            let mut out = Vec::new();
            let report = run(scenario, start, seeds, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(report.run, seeds);
            assert!(report.failed.is_empty(), "{text}");
            let last = format!("{}: seeds run {seeds}, failed 0", scenario.name);
            assert!(text.contains(&last), "{text}");
        }
    }
}

#[test]
fn a_seed_replays_byte_for_byte() {
    for scenario in scenario::ALL {
        for seed in 1..=40 {
            let (one, other) = (trial(scenario, seed), trial(scenario, seed));
            assert_eq!(one.trace, other.trace, "seed {seed}");
            assert_eq!(one.digest(), other.digest(), "seed {seed}");
            assert_ne!(one.digest(), trial(scenario, seed + 1).digest());
            assert!(one.trace.lines().count() > 10, "seed {seed}: {}", one.trace);
        }
    }
}

fn command(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(args).output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn the_command_reports_and_replays() {
    let (code, out, _) = command(&["kv", "--seeds", "5"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("kv: seeds run 5, failed 0"), "{out}");
    let (code, one, _) = command(&["kv", "--seed", "3"]);
    assert_eq!(code, Some(0));
    assert!(one.contains("kv: seed 3 digest "), "{one}");
    // Another process, the same bytes.
    assert_eq!(command(&["kv", "--seed", "3"]).1, one);
}

#[test]
fn bad_input_is_told() {
    for args in [&["nonsense"][..], &[], &["kv", "--seeds", "x"], &["kv", "--what"]] {
        let (code, out, error) = command(args);
        assert_eq!((code, &*out), (Some(2), ""), "{args:?}");
        assert!(error.contains("usage:"), "{args:?}: {error}");
    }
    assert_eq!(command(&["help"]).0, Some(0));
}
