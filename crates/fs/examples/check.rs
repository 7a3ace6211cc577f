//! How fast a volume is checked: makes one on the embedded engine, in a directory that is removed
//! afterwards, and prints inodes a second, by one thread and by several.
//!
//! `cargo run --release -p fs --example check -- [--inodes N] [--threads N] [--dir PATH] [--parity N]`
#![allow(clippy::disallowed_methods, reason = "a measurement has a clock of its own")]

use base::{OsRandom, SystemClock, SystemDisk, SystemThreads, block_on};
use fs::{
    Caller, Check, FormatOptions, NoProgress, OpenFlags, ROOT, Result, Session, SessionOptions,
    Volume, World,
};
use std::sync::Arc;
use std::time::Instant;

/// Files of a directory.
const PER_DIRECTORY: u64 = 1000;
/// One of so many files is mapped, with this many bytes; the others are inline, with so many.
const MAPPED_EVERY: u64 = 100;
const MAPPED_BYTES: usize = 20_000;
const INLINE_BYTES: usize = 100;

struct Given {
    inodes: u64,
    threads: usize,
    parity: u8,
    dir: std::path::PathBuf,
}

fn given() -> std::result::Result<Given, String> {
    let mut given = Given { inodes: 1_000_000, threads: 2, parity: 0, dir: std::env::temp_dir() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        let wrong = |_| format!("{word} {value}: is no number");
        match word.as_str() {
            "--inodes" => given.inodes = value.parse().map_err(wrong)?,
            "--threads" => given.threads = value.parse().map_err(wrong)?,
            "--parity" => given.parity = value.parse().map_err(wrong)?,
            "--dir" => given.dir = value.into(),
            _ => return Err(format!("{word} is not known")),
        }
    }
    Ok(given)
}

async fn fill(volume: &Volume, inodes: u64) -> Result<()> {
    let session = Session::start(volume, SessionOptions::default()).await?;
    let root = Caller::root();
    let small: Vec<u8> = (0..INLINE_BYTES).map(|at| (at * 31) as u8 | 1).collect();
    let large: Vec<u8> = (0..MAPPED_BYTES).map(|at| (at * at / 7) as u8 | 1).collect();
    let mut parent = ROOT;
    for number in 1..inodes {
        let name = format!("file-{number}");
        if number % PER_DIRECTORY == 1 {
            parent = session.mkdir(&root, ROOT, name.as_bytes(), 0o755).await?.ino;
            continue;
        }
        let made = session.create(&root, parent, name.as_bytes(), 0o644, OpenFlags::READ_WRITE);
        let (_, handle) = made.await?;
        let bytes = if number % MAPPED_EVERY == 0 { &large } else { &small };
        session.write(&root, handle, 0, bytes).await?;
        session.release(handle).await?;
    }
    session.stop().await
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn measure(volume: &Volume, threads: usize) -> Result<()> {
    let begun = Instant::now();
    let check = Check::new(volume).threads(threads, Arc::new(SystemThreads));
    let report = block_on(check.run(&NoProgress))?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "check by {threads} threads: {} inodes, {} names, {} blocks, {} keys, {} findings in {seconds:.2} s: \
         {:.0} inodes/s",
        report.inodes,
        report.entries,
        report.blocks,
        report.keys,
        report.findings_total,
        report.inodes as f64 / seconds
    );
    Ok(())
}

fn run(given: &Given) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir_in(&given.dir)?;
    let disk = Arc::new(SystemDisk::open(place.path())?);
    let random = Arc::new(OsRandom::new());
    let clock = Arc::new(SystemClock::new());
    let open = || {
        let options = kv_local::Options::default();
        kv_local::Local::open(disk.clone(), Some(&SystemThreads), &*random, options)
    };
    let engine = open()?;
    let world = |engine: &kv_local::Local| World {
        store: kv::Store::new(Arc::new(engine.clone()), clock.clone(), random.clone()),
        clock: clock.clone(),
        random: random.clone(),
        home: None,
    };
    let options = FormatOptions { parity_group: given.parity, ..FormatOptions::default() };
    let begun = Instant::now();
    let volume = block_on(Volume::format(&world(&engine), "v", &options))?;
    block_on(fill(&volume, given.inodes))?;
    drop(volume);
    engine.close()?;
    println!("made {} inodes in {:.1} s", given.inodes, begun.elapsed().as_secs_f64());
    // As after a start: nothing is in memory.
    let engine = open()?;
    let volume = block_on(Volume::open(&world(&engine), "v"))?;
    let before = resident_kib();
    for threads in [given.threads, 1, given.threads] {
        measure(&volume, threads)?;
    }
    println!("most memory in use: {} MiB, of which {} before", resident_kib() >> 10, before >> 10);
    drop(volume);
    engine.close()?;
    Ok(())
}

fn main() -> std::process::ExitCode {
    let ended = given().map_err(Into::into).and_then(|given| run(&given));
    match ended {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
