//! Short forms of the rounds on real mounts. Without `/dev/fuse` or root they are skipped, loudly.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test binary")]

use std::fs::File;
use std::io::Write as _;
use std::process::Command;

/// Runs the command and gives what it printed; `None` when it cannot run here.
fn sim(proof: &str, args: &[&str]) -> Option<String> {
    if let Some(why) = sim::real::why_not() {
        skip(proof, why);
        return None;
    }
    if !Command::new("sqlite3").arg("--version").output().is_ok_and(|done| done.status.success()) {
        skip(proof, "no program sqlite3 (./test installs it)");
        return None;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}\n{text}{errors}", output.status);
    println!("{text}");
    Some(text)
}

/// The line goes past the capture of the test harness, and to the file that `./test` prints at its end.
fn skip(proof: &str, why: &str) {
    let line = format!("SKIPPED: {proof}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("PROOF_SKIPPED")
        && let Ok(mut file) = File::options().append(true).create(true).open(path)
    {
        let _ = file.write_all(line.as_bytes());
    }
}

#[test]
fn a_daemon_that_is_killed_again_and_again_loses_nothing() {
    let Some(text) = sim("sim crash", &["crash", "--rounds", "20"]) else { return };
    assert!(text.contains("crash: 20 rounds, ") && text.contains(" 0 lost"), "{text}");
    assert!(text.contains(" 2 fscks clean"), "{text}");
}

#[test]
fn programs_outlive_a_daemon_that_is_killed_again_and_again() {
    let Some(text) = sim("sim outlive", &["outlive", "--rounds", "5"]) else { return };
    assert!(text.contains("outlive: 5 rounds, ") && text.contains(" 0 lost"), "{text}");
}

#[test]
fn mixed_load_loses_nothing_and_leaks_nothing() {
    let Some(text) = sim("sim soak", &["soak", "--seconds", "10"]) else { return };
    assert!(text.contains("nothing lost") && text.contains("nothing leaked"), "{text}");
}

#[test]
fn much_at_once_stays_in_the_bound_of_memory() {
    let words = ["load", "--files", "5000", "--open", "2000", "--writers", "64"];
    let Some(text) = sim("sim load", &words) else { return };
    assert_eq!(
        text.lines().filter(|line| line.contains("bound of 300 MiB held")).count(),
        3,
        "{text}"
    );
}
