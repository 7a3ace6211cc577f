//! What must agree when the load rests: the counters with what can be seen, and after everything was
//! removed, with nothing.

use crate::real::{Place, deadline};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Keys of a volume's own that come to be when it is first used: numbers, counters, a session, and files of the
/// local home that wait to be used.
const OWN_KEYS: u64 = 16 + 4096;
/// How often counters are looked at that are not right yet.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A store whose volume is empty takes at most this, whatever it has held: the log, the memory that was
/// folded last, tables that wait to be merged.
const EMPTY_STORE_BYTES: u64 = 768 << 20;

/// What a volume has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) used_bytes: u64,
    pub(super) inodes: u64,
    pub(super) open_handles: u64,
    pub(super) sessions: u64,
}

impl Account {
    /// As the daemon has it.
    pub(super) fn told(place: &Place) -> Result<Self, String> {
        let answer = json(place, &["status", "--json"])?;
        let volume = &answer["stores"][0]["volumes"][0];
        let number =
            |value: &Value| value.as_u64().ok_or(format!("status has no number: {answer}"));
        Ok(Self {
            used_bytes: number(&volume["used_bytes"])?,
            inodes: number(&volume["inodes"])?,
            open_handles: number(&volume["mount"]["open_handles"])?,
            sessions: volume["sessions"].as_array().map_or(0, |all| all.len() as u64),
        })
    }

    /// As it can be seen: bytes and inodes of everything below the mount.
    fn seen(place: &Place) -> std::io::Result<(u64, u64)> {
        let mut inodes = BTreeSet::new();
        let (mut bytes, mut waiting) = (0, vec![place.mountpoint()]);
        inodes.insert(fs::metadata(place.mountpoint())?.ino());
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                let meta = fs::symlink_metadata(&path)?;
                if !inodes.insert(meta.ino()) {
                    continue;
                }
                if meta.is_dir() {
                    waiting.push(path);
                } else {
                    bytes += meta.blocks() * 512;
                }
            }
        }
        Ok((bytes, inodes.len() as u64))
    }
}

/// Checks, while things are there, that the counters are exact and that the volume is whole.
pub(super) fn agree(place: &Place) -> Result<Account, String> {
    collect(place)?;
    let end = deadline();
    // A large file is counted when it is settled, some seconds after it was closed.
    let told = loop {
        let told = Account::told(place)?;
        let (bytes, inodes) =
            Account::seen(place).map_err(|error| format!("cannot walk: {error}"))?;
        if (told.used_bytes, told.inodes) == (bytes, inodes) {
            break told;
        }
        if Instant::now() > end {
            return Err(format!(
                "the counters have {} bytes in {} inodes, and {bytes} bytes in {inodes} inodes are there",
                told.used_bytes, told.inodes
            ));
        }
        std::thread::sleep(LOOK_EVERY);
    };
    check(place)?;
    Ok(told)
}

/// Removes everything and checks that nothing is left of it. Returns the bytes that the store then takes.
pub(super) fn empty(place: &Place, before: Account) -> Result<u64, String> {
    let failed = |error| format!("cannot remove: {error}");
    for entry in fs::read_dir(place.mountpoint()).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(failed)?;
    }
    let jobs_left = collect(place)?;
    let after = Account::told(place)?;
    if after != before || jobs_left != 0 {
        return Err(format!("{before:?} has become {after:?} with {jobs_left} jobs left: leaked"));
    }
    let report = check(place)?;
    for (what, bound) in
        [("inodes", 1), ("entries", 0), ("blocks", 0), ("bytes", 0), ("keys", OWN_KEYS)]
    {
        // What a report does not name it does not know.
        let found = report[what].as_u64().unwrap_or(0);
        if found > bound {
            return Err(format!("{found} {what} are left of an empty volume: {report}"));
        }
    }
    let bytes = store_bytes(&place.store()).map_err(failed)?;
    if bytes > EMPTY_STORE_BYTES {
        return Err(format!("the store of an empty volume takes {bytes} bytes"));
    }
    Ok(bytes)
}

/// Collects garbage; how many jobs are left.
fn collect(place: &Place) -> Result<u64, String> {
    let report = json(place, &["gc", "--json"])?;
    report["jobs_left"].as_u64().ok_or(format!("gc says nothing of jobs: {report}"))
}

/// Checks the volume, as deep as the program can.
fn check(place: &Place) -> Result<Value, String> {
    let help = place.verb(&[OsStr::new("fsck"), OsStr::new("--help")])?;
    if help.out.contains("--deep") {
        return json(place, &["fsck", "--deep", "--json"]);
    }
    json(place, &["fsck", "--json"])
}

fn json(place: &Place, words: &[&str]) -> Result<Value, String> {
    let mountpoint = place.mountpoint();
    let mut all: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    all.push(mountpoint.as_os_str());
    let ended = place.verb(&all)?;
    if ended.code != Some(0) {
        return Err(format!("{words:?} ended with {:?}: {}", ended.code, ended.all));
    }
    serde_json::from_str(&ended.out)
        .map_err(|error| format!("{words:?} printed no JSON: {error}: {}", ended.out))
}

/// Bytes of all files of a store.
pub(super) fn store_bytes(store: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(store)? {
        // A table may go at any moment.
        bytes += entry?.metadata().map_or(0, |meta| meta.len());
    }
    Ok(bytes)
}
