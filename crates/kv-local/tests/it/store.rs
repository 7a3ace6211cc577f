//! Whole stores in real directories: locking, versions of the format, what is not a store.

use base::block_on;
use bytes::Bytes;
use kv::{Commit, Durability, Engine, ErrorKind, Key, Op};
use kv_local::{Local, Options};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn open(path: &Path) -> kv::Result<Local> {
    Local::open_dir(path, Options { memory_bytes: 1 << 20, level_scale: 1 })
}

fn put(local: &Local, key: &[u8], value: &[u8], durability: Durability) -> kv::Result<u64> {
    let snapshot = block_on(local.snapshot())?;
    let ops = vec![Op::Put(Key::new(key), Bytes::copy_from_slice(value))];
    block_on(
        local.commit(
            snapshot,
            Commit { reads: vec![], writes: vec![], ops, durability, frees: false },
        ),
    )
}

fn get(local: &Local, key: &[u8]) -> Option<Bytes> {
    block_on(block_on(local.snapshot()).unwrap().get(key)).unwrap()
}

#[test]
fn a_second_owner_is_refused_and_told_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let words = error.to_string();
    assert!(words.contains(&format!("process {}", std::process::id())), "{words}");
    first.close().unwrap();
    open(dir.path()).unwrap();
}

#[test]
fn files_are_private_to_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let local = open(&path).unwrap();
    put(&local, b"key", b"value", Durability::Synced).unwrap();
    local.flush().unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
    }
}

#[test]
fn what_is_there_after_a_reopen_is_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path()).unwrap();
    // Enough for several folds and a merge.
    for number in 0..20_000u32 {
        let key = (number % 7_000).to_be_bytes();
        put(&local, &key, &[number as u8; 60], Durability::Process).unwrap();
    }
    let stats = local.stats();
    assert!(stats.tables > 0, "{stats:?}");
    local.close().unwrap();
    let local = open(dir.path()).unwrap();
    for number in 13_000..20_000u32 {
        let value = get(&local, &(number % 7_000).to_be_bytes());
        assert_eq!(value.as_deref(), Some(&[number as u8; 60][..]), "{number}");
    }
}

#[test]
fn a_key_that_is_written_for_ever_does_not_fill_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path()).unwrap();
    for number in 0..20_000u32 {
        put(&local, b"counter", &number.to_le_bytes(), Durability::Process).unwrap();
    }
    local.flush().unwrap();
    let used: u64 = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(used < 1 << 20, "20,000 writes of one key left {used} bytes");
    assert_eq!(get(&local, b"counter").as_deref(), Some(&19_999u32.to_le_bytes()[..]));
}

#[test]
fn a_store_from_the_future_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().close().unwrap();
    let file = dir.path().join("format");
    let mut bytes = std::fs::read(&file).unwrap();
    let half = bytes.len() / 2;
    // The version stands behind the magic number; the checksum covers it.
    for copy in [0, half] {
        bytes[copy + 8] = 9;
        let hash = base::checksum::hash64(
            u64::from_le_bytes(bytes[copy..copy + 8].try_into().unwrap()),
            &bytes[copy..copy + 40],
        );
        bytes[copy + 40..copy + 48].copy_from_slice(&hash.to_le_bytes());
    }
    std::fs::write(&file, bytes).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let words = error.to_string();
    assert!(words.contains("its format is 9") && words.contains("newer"), "{words}");
}

#[test]
fn a_directory_that_is_something_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
    let error = open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("thesis.txt"), "{error}");
    assert_eq!(std::fs::read(dir.path().join("thesis.txt")).unwrap(), b"years of work");

    let file = dir.path().join("thesis.txt");
    let error = open(&file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[test]
fn a_closed_store_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path()).unwrap();
    let other = local.clone();
    let reader = block_on(other.snapshot()).unwrap();
    local.close().unwrap();
    let error = put(&other, b"key", b"value", Durability::Process).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(block_on(reader.get(b"key")).unwrap(), None, "what was open can be read");
}

/// The logs that are there, by the host's number of the file.
fn logs(path: &Path) -> BTreeMap<u64, String> {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    let named = entries
        .map(|entry| (entry.metadata().unwrap().ino(), entry.file_name().into_string().unwrap()));
    named.filter(|(_, name)| name.starts_with("log-")).collect()
}

#[test]
fn a_log_is_written_over_one_that_is_not_needed_and_nothing_of_that_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path()).unwrap();
    let mut seen: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for round in 0_u32..6 {
        // As long as the ones before, so that records of old logs stand right behind the last new one.
        for key in 0..20_u32 {
            let value = [round.to_le_bytes(), key.to_le_bytes()].concat();
            put(&local, &key.to_le_bytes(), &value, Durability::Process).unwrap();
        }
        for (file, name) in logs(dir.path()) {
            let names = seen.entry(file).or_default();
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        // What the next life would find if this one were killed here.
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        let next = open(copy.path()).unwrap();
        for key in 0..20_u32 {
            let value = [round.to_le_bytes(), key.to_le_bytes()].concat();
            assert_eq!(
                get(&next, &key.to_le_bytes()).as_deref(),
                Some(&value[..]),
                "{round} {key}"
            );
        }
        assert!(!copy.path().join("spare").exists());
        drop(next);
        // Fewer in the last ones.
        put(&local, b"last", &round.to_le_bytes(), Durability::Process).unwrap();
        local.flush().unwrap();
        assert!(dir.path().join("spare").exists(), "round {round}");
    }
    assert!(seen.values().any(|names| names.len() > 1), "{seen:?}");
    local.close().unwrap();
    assert!(!dir.path().join("spare").exists());
    let local = open(dir.path()).unwrap();
    assert_eq!(get(&local, b"last").as_deref(), Some(&5_u32.to_le_bytes()[..]));
}
