//! Short forms of what `sim cuts`, `sim faults` and `sim rot` do at full size.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use sim::{cuts, faults, rot};

/// Runs a trial, and fails with what it said. Gives that.
fn passes(run: impl FnOnce(&mut Vec<u8>) -> std::io::Result<bool>) -> String {
    let mut out = Vec::new();
    let passed = run(&mut out).unwrap();
    let said = String::from_utf8_lossy(&out);
    println!("{said}");
    assert!(passed, "{said}");
    said.into_owned()
}

#[test]
fn power_cut_anywhere_loses_nothing() {
    // The first two make changes without a transaction where they can, the last one never does.
    for (start, short) in [(1, true), (3, true), (5, false)] {
        let plan = cuts::Plan { start, seeds: 1, steps: 120, home_steps: 0, every: 3 };
        let said = passes(|out| cuts::run(&plan, out));
        let none = said.contains(", 0 changes the short way");
        assert_eq!(none, !short, "{said}");
    }
}

#[test]
fn a_bad_disk_loses_nothing() {
    let plan = faults::Plan { start: 3, seeds: 1, steps: 90, home_steps: 0, every: 11 };
    passes(|out| faults::run(&plan, out));
}

#[test]
fn rot_is_noticed_or_harmless_and_the_rest_is_recovered() {
    let sparse =
        rot::Plan { start: 3, seeds: 1, flip_every: 997, page_every: 11, ..rot::Plan::FULL };
    passes(|out| rot::run(&rot::Plan { steps: 90, home_steps: 0, ..sparse }, out));
}

#[test]
fn power_cut_anywhere_loses_nothing_of_a_home() {
    let plan = cuts::Plan { start: 1, seeds: 1, steps: 0, home_steps: 110, every: 31 };
    passes(|out| cuts::run(&plan, out));
}

#[test]
fn a_bad_disk_loses_nothing_of_a_home() {
    let plan = faults::Plan { start: 2, seeds: 1, steps: 0, home_steps: 100, every: 29 };
    passes(|out| faults::run(&plan, out));
}

#[test]
fn rot_of_a_home_is_that_of_the_file_alone() {
    let plan = rot::Plan {
        start: 1,
        seeds: 1,
        steps: 0,
        home_steps: 100,
        flip_every: 997,
        page_every: 23,
    };
    passes(|out| rot::run(&plan, out));
}
