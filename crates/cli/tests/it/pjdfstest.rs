//! The POSIX conformance suite pjdfstest, whole, with no exceptions: what a native filesystem
//! passes, the mount passes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::ground::Ground;
use crate::tool::{find, finish, has};

/// What passes on ext4 without a second filesystem to rename and link to, which is given here.
const PASSED_AT_LEAST: usize = 383;
/// The suite asks the C library for the most links of a file and skips this one where it has no
/// answer; it has none for any FUSE filesystem. `scale` makes many links instead.
const LINKS_MAX_UNKNOWN: &str = "link::link_count_max";

/// Runs the suite in a directory: its whole output, and the names of those that passed.
fn suite(config: &Path, place: &Path, second: &Path) -> (String, BTreeSet<String>) {
    let mut command = Command::new(find("pjdfstest").unwrap());
    command.arg("-c").arg(config).arg("-p").arg(place).arg("-s").arg(second);
    let text = finish(&mut command, Duration::from_secs(300)).all();
    let summary = text.lines().find(|line| line.starts_with("Summary"));
    println!("{}: {}", place.display(), summary.unwrap_or("no summary"));
    let passed =
        text.lines().filter_map(|line| line.strip_suffix(" ok")).map(|name| name.trim().to_owned());
    let passed = passed.collect();
    (text, passed)
}

#[test]
fn everything_that_passes_on_a_native_filesystem_passes() {
    let proof = "pjdfstest";
    let Some(ground) = Ground::new(proof) else { return };
    if !has(proof, &[proof]) {
        return;
    }
    let beside = ground.beside();
    let config = beside.join("pjdfstest.toml");
    fs::write(&config, settings()).unwrap();
    let (_, native) = suite(&config, &beside, Path::new("/dev/shm"));
    let second = if ground.is_native() { PathBuf::from("/dev/shm") } else { beside };
    let (text, passed) = suite(&config, ground.root(), &second);
    let failed = text.lines().filter(|line| !line.ends_with(" ok")).collect::<Vec<_>>().join("\n");
    assert!(text.contains("Summary: 0 failed"), "{failed}");
    let missing: Vec<_> =
        native.difference(&passed).filter(|name| *name != LINKS_MAX_UNKNOWN).collect();
    assert!(missing.is_empty(), "{missing:?} pass on the native filesystem\n{failed}");
    assert!(passed.len() >= PASSED_AT_LEAST, "only {} passed\n{failed}", passed.len());
}

/// Two users that every Debian has. The nap is longer than the clock's grain.
fn settings() -> String {
    let nobody = if group_exists("nogroup") { "nogroup" } else { "nobody" };
    let features =
        ["posix_fallocate", "rename_ctime", "stat_st_birthtime", "utime_now", "utimensat"];
    let features: String = features.iter().map(|feature| format!("{feature} = {{}}\n")).collect();
    format!(
        "[features]\n{features}\n[settings]\nnaptime = 0.01\nallow_remount = false\n\n\
         [dummy_auth]\nentries = [[\"nobody\", \"{nobody}\"], [\"daemon\", \"daemon\"]]\n"
    )
}

fn group_exists(name: &str) -> bool {
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    groups.lines().any(|line| line.split(':').next() == Some(name))
}
