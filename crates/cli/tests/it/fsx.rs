//! The file exerciser fsx: random reads, writes, mappings, truncations, holes, allocations and
//! copies of one file, each checked against what the file must hold. `exercise` adds what fsx has
//! not: zeroed ranges and O_DIRECT.
//!
//! `PROOF_FSX_SEEDS` and `PROOF_FSX_OPERATIONS` change how much is done; a failure prints the
//! command that replays it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::ground::Ground;
use crate::tool::{find, finish, has, number};

/// Every kind of operation that fsx knows. `quiet` seeds leave mapped writes to the kernel's own
/// time, the others msync each; the latter wait for the disk most of the time. `wide` ones use a
/// longer file.
fn settings(quiet: bool, wide: bool) -> String {
    let flen = if wide { 9 << 20 } else { 1 << 20 };
    format!(
        "flen = {flen}\nnomsyncafterwrite = {quiet}\n[opsize]\nmax = 131072\n[weights]\nclose_open = 1\n\
         invalidate = 1\nmapread = 10\nmapwrite = {}\nread = 10\nwrite = 10\ntruncate = 5\nfsync = 0.1\n\
         fdatasync = 0.1\nposix_fallocate = 2\npunch_hole = 5\nsendfile = 3\nposix_fadvise = 1\ncopy_file_range = 8\n",
        if quiet { 10.0 } else { 1.0 }
    )
}

fn exercise(proof: &str, seeds: impl Iterator<Item = u64>) {
    let Some(ground) = Ground::new(proof) else { return };
    if !has(proof, &["fsx"]) {
        return;
    }
    let operations = number("PROOF_FSX_OPERATIONS", 20_000);
    for seed in seeds {
        let settings = settings(seed % 5 != 0, seed % 4 == 1);
        let config = ground.beside().join(format!("fsx-{seed}.toml"));
        fs::write(&config, &settings).unwrap();
        println!("fsx seed {seed}, {operations} operations");
        let mut command = Command::new(find("fsx").unwrap());
        command.arg("-f").arg(&config).args([
            "-N",
            &operations.to_string(),
            "-S",
            &seed.to_string(),
        ]);
        command.arg("-P").arg(ground.beside()).arg(ground.at(format!("fsx-{seed}")));
        let ended = finish(&mut command, Duration::from_secs(300));
        assert!(ended.success(), "fsx seed {seed} with {settings}\n{ended}");
    }
}

#[test]
fn random_operations_find_the_file_as_it_must_be() {
    let seeds = number("PROOF_FSX_SEEDS", 20);
    // Two halves at once where there are two processors.
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || exercise("fsx", (1..=seeds).filter(move |seed| seed % 2 == half)));
        }
    });
}
