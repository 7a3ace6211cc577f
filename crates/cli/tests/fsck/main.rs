//! `fsck --repair` and `scrub`, by the built program on stores that were damaged behind its back.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod store;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use store::{Damage, fill, names, spoil};

/// Somebody with a store, and what the program says to them.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fill(&dir.path().join("store"));
        Self { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn word(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    /// Runs the program; gives its exit code, what it printed and what it complained of.
    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seamount"));
        command.args(words).env("HOME", self.dir.path()).stdin(Stdio::null());
        let ended = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = ended.status.code().unwrap();
        let (out, err) = (text(&ended.stdout), text(&ended.stderr));
        assert!(!err.contains("panicked"), "{words:?}: {err}");
        (code, out, err)
    }

    fn json(&self, words: &[&str], code: i32) -> Value {
        let (ended, out, err) = self.run(&[words, &["--json"]].concat());
        assert_eq!(ended, code, "{words:?}: {out}{err}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
    }
}

#[test]
fn a_repair_is_asked_for_done_once_and_told_by_the_exit_code() {
    let home = Home::new();
    let store = home.word("store");
    assert_eq!(home.json(&["fsck", &store, "--repair", "--yes"], 0)["repaired_total"], 0);
    spoil(&home.at("store"), &[Damage::NameGone]);
    let (code, out, err) = home.run(&["fsck", &store]);
    assert_eq!(code, 5, "{out}{err}");
    assert!(out.contains("inode-without-entry") && err.contains("--dry-run"), "{out}{err}");
    // Nobody can be asked, and nothing is changed unasked.
    let (code, out, err) = home.run(&["fsck", &store, "--repair"]);
    assert!(code == 2 && err.contains("--yes"), "{code}: {out}{err}");
    let (code, out, err) = home.run(&["fsck", &store, "--repair", "--dry-run"]);
    assert!(code == 5 && out.contains("would be repaired"), "{code}: {out}{err}");
    assert!(out.contains("lost+found"), "{out}{err}");
    assert_eq!(home.json(&["fsck", &store], 5)["findings_total"], 1);
    let (code, out, err) = home.run(&["fsck", &store, "--repair", "--yes"]);
    assert!(code == 9 && err.contains("all repaired"), "{code}: {out}{err}");
    assert!(out.contains("all is well") && out.contains("inode-without-entry"), "{out}");
    assert_eq!(home.json(&["fsck", &store], 0)["findings_total"], 0);
    let again = home.json(&["fsck", &store, "--repair", "--yes"], 0);
    assert_eq!((&again["repaired_total"], &again["found_total"]), (&0.into(), &0.into()));
    let found = names(&home.at("store"), b"lost+found");
    assert!(found.len() == 1 && found[0].starts_with('#'), "{found:?}");
}

#[test]
fn lost_bytes_are_named_and_stay_lost() {
    let home = Home::new();
    let store = home.word("store");
    spoil(&home.at("store"), &[Damage::Block, Damage::NameGone]);
    let report = home.json(&["fsck", &store, "--repair", "--yes"], 5);
    assert_eq!(report["findings_total"], 1, "{report}");
    assert_eq!(report["findings"][0]["kind"], "block-damaged");
    assert!(report["repaired_total"].as_u64().unwrap() > 0);
    let (code, _, err) = home.run(&["fsck", &store, "--repair", "--yes"]);
    assert!(code == 5 && err.contains("restore"), "{code}: {err}");
    // A scrub says which file it is, and goes on saying so.
    for words in [&["scrub", &store][..], &["scrub", &store, "--status"]] {
        let report = home.json(words, 5);
        assert_eq!((&report["state"], &report["damaged"]), (&"done".into(), &1.into()));
        assert_eq!(report["findings"][0]["path"], "/large", "{report}");
    }
    let (_, out, err) = home.run(&["scrub", &store, "--status"]);
    assert!(out.contains("/large") && err.contains("damaged places"), "{out}{err}");
}

#[test]
fn a_scrub_of_a_sound_volume_ends_well() {
    let home = Home::new();
    let store = home.word("store");
    assert_eq!(home.json(&["scrub", &store, "--status"], 0)["state"], "never");
    let report = home.json(&["scrub", &store, "--rate", "100MiB/s"], 0);
    assert_eq!((&report["state"], &report["damaged"]), (&"done".into(), &0.into()));
    assert!(report["bytes"].as_u64().unwrap() > 300_000, "{report}");
    assert_eq!(home.json(&["scrub", &store, "--status"], 0)["bytes"], report["bytes"]);
    let (code, _, err) = home.run(&["scrub", &store, "--background"]);
    assert!(code == 8 && err.contains("not mounted"), "{code}: {err}");
    assert_eq!(home.run(&["scrub", &store, "--rate", "0"]).0, 2);
    assert_eq!(home.json(&["fsck", &store], 0)["findings_total"], 0);
}

#[test]
fn a_mounted_volume_is_scrubbed_in_the_background_and_not_repaired() {
    let root = rustix::process::geteuid().is_root();
    if !root || rustix::fs::access("/dev/fuse", rustix::fs::Access::WRITE_OK).is_err() {
        eprintln!("SKIPPED: root and /dev/fuse are needed to mount");
        return;
    }
    let home = Home::new();
    let (store, mount) = (home.word("store"), home.word("m"));
    let (code, out, err) = home.run(&["mount", "--background", &store, &mount]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, _, err) = home.run(&["fsck", &mount, "--repair", "--yes"]);
    assert!(code == 4 && err.contains("umount"), "{code}: {err}");
    assert_eq!(home.json(&["fsck", &mount], 0)["findings_total"], 0);
    let begun = home.json(&["scrub", &mount, "--background", "--rate", "20KiB/s"], 0);
    assert_eq!(begun["volume"], "default");
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = |state: &str| loop {
        let report = home.json(&["scrub", &mount, "--status"], 0);
        if report["state"] == state && report["bytes"].as_u64().unwrap() > 0 {
            break report;
        }
        assert!(Instant::now() < deadline, "{report}");
        std::thread::sleep(Duration::from_millis(50));
    };
    status("running");
    let (code, _, err) = home.run(&["scrub", &mount]);
    assert!(code == 4 && err.contains("already"), "{code}: {err}");
    // Programs go on.
    std::fs::write(home.at("m/new"), "while it is scrubbed").unwrap();
    home.json(&["scrub", &mount, "--stop"], 0);
    let stopped = status("stopped");
    // The thread takes notice by itself; then the next one goes on.
    let done = loop {
        let (code, out, err) = home.run(&["scrub", &mount, "--json"]);
        if code == 0 {
            break serde_json::from_str::<Value>(&out).unwrap();
        }
        assert!(code == 4 && Instant::now() < deadline, "{code}: {out}{err}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!((&done["state"], &done["damaged"]), (&"done".into(), &0.into()));
    assert_eq!(done["began"], stopped["began"]);
    // One that is under way does not keep the volume from being unmounted.
    home.json(&["scrub", &mount, "--background", "--rate", "20KiB/s"], 0);
    let (code, out, err) = home.run(&["umount", &mount]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(home.json(&["scrub", &store, "--status"], 0)["state"], "stopped");
    assert_eq!(home.json(&["fsck", &store], 0)["findings_total"], 0);
}
