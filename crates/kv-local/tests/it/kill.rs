//! kill -9, for real: a process commits and tells; it is killed; everything that it told is there.

use base::block_on;
use bytes::Bytes;
use kv::{Commit, Durability, Engine, Key, Op};
use kv_local::{Local, Options};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const STORE: &str = "SEAMOUNT_TEST_STORE";

fn open(path: &Path) -> Local {
    Local::open_dir(path, Options { memory_bytes: 4 << 20, level_scale: 64 }).unwrap()
}

/// The process that is killed: this test, run again with a store to write to.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let local = open(Path::new(&path));
    let mut out = std::io::stdout();
    for number in local.stats().version.. {
        let snapshot = block_on(local.snapshot()).unwrap();
        let value = Bytes::from(vec![number as u8; 100 + number as usize % 900]);
        let ops = vec![
            Op::Put(Key::new(b"last"), Bytes::copy_from_slice(&number.to_le_bytes())),
            Op::Put(Key::new(&(number % 5_000).to_be_bytes()), value),
        ];
        let durability = if number % 500 == 0 { Durability::Synced } else { Durability::Process };
        let commit = Commit { reads: vec![], writes: vec![], ops, durability, frees: false };
        block_on(local.commit(snapshot, commit)).unwrap();
        // The line break first: the test runner's own words may stand on the line.
        writeln!(out, "\ncommitted {number}").unwrap();
    }
}

#[test]
fn what_a_killed_process_told_is_there() {
    let dir = tempfile::tempdir().unwrap();
    for (round, commits) in [3_000, 500, 7, 6_000, 1].into_iter().enumerate() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::writer", "--nocapture"])
            .env(STORE, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told: Option<u64> = None;
        let mut seen = 0;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in &mut lines {
            if let Some(number) = line.unwrap().strip_prefix("committed ") {
                told = Some(number.parse().unwrap());
                seen += 1;
                if seen == commits {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        let told = told.unwrap();
        let local = open(dir.path());
        let snapshot = block_on(local.snapshot()).unwrap();
        let last = block_on(snapshot.get(b"last")).unwrap().unwrap();
        let last = u64::from_le_bytes(last[..].try_into().unwrap());
        assert!(last >= told, "round {round}: {told} was told, {last} is there");
        assert_eq!(local.stats().version, last + 1, "round {round}: each is whole");
        for number in last.saturating_sub(4_999)..=last {
            let value = block_on(snapshot.get(&(number % 5_000).to_be_bytes())).unwrap().unwrap();
            let expected = vec![number as u8; 100 + number as usize % 900];
            assert!(value[..] == expected[..], "round {round}: {number}");
        }
    }
}
