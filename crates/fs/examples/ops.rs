//! What one operation of the core costs on the embedded engine, without a kernel in between: nanoseconds of
//! each kind, on a volume in a directory that is removed afterwards. Made for profilers too: the function
//! `measured` holds all that is measured.
//!
//! `cargo run --release -p fs --example ops -- [--count N] [--only KIND] [--survives 1] [--dir PATH]`
#![allow(clippy::disallowed_methods, reason = "a measurement has a clock of its own")]

use base::{OsRandom, SystemClock, SystemDisk, SystemThreads, block_on};
use fs::{
    Asked, Caller, FormatOptions, Ino, OpenFlags, ROOT, RenameFlags, Result, Session,
    SessionOptions, Volume, World,
};
use std::sync::Arc;
use std::time::Instant;

struct Given {
    count: u64,
    only: Option<String>,
    survives: bool,
    dir: std::path::PathBuf,
}

fn given() -> std::result::Result<Given, String> {
    let mut given = Given { count: 20_000, only: None, survives: false, dir: std::env::temp_dir() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        let wrong = |_| format!("{word} {value}: is no number");
        match word.as_str() {
            "--count" => given.count = value.parse().map_err(wrong)?,
            "--only" => given.only = Some(value),
            "--survives" => given.survives = value == "1",
            "--dir" => given.dir = value.into(),
            _ => return Err(format!("{word} is not known")),
        }
    }
    Ok(given)
}

/// The kinds, in an order in which each finds what it needs.
const KINDS: [&str; 13] = [
    "create",
    "getattr",
    "getattr-dir",
    "lookup",
    "missing",
    "open",
    "rename",
    "unlink",
    "symlink",
    "unlink-symlink",
    "mkdir",
    "rmdir",
    "list",
];

struct Side {
    session: Session,
    caller: Caller,
    dir: Ino,
    made: Vec<Ino>,
}

impl Side {
    async fn one(&mut self, kind: &str, number: u64) -> Result<()> {
        let session = self.session.asked(Asked { number: number + 1, slot: 1, again: false });
        let (caller, dir) = (&self.caller, self.dir);
        let name = format!("f{number:07}");
        let name = name.as_bytes();
        match kind {
            "create" => {
                let (attr, handle) =
                    session.create(caller, dir, name, 0o644, OpenFlags::READ_WRITE).await?;
                self.made.push(attr.ino);
                session.release(handle).await
            }
            "getattr" => session.getattr(self.made[number as usize]).await.map(drop),
            "getattr-dir" => session.getattr(dir).await.map(drop),
            "lookup" => session.lookup(caller, dir, name).await.map(drop),
            "missing" => {
                assert!(session.lookup(caller, dir, &[b"x", name].concat()).await.is_err());
                Ok(())
            }
            "open" => {
                let ino = self.made[number as usize];
                let handle = session.open(caller, ino, OpenFlags::READ).await?;
                session.release(handle).await
            }
            "rename" => {
                let new = [b"g", name].concat();
                session.rename(caller, dir, name, dir, &new, RenameFlags::default()).await
            }
            "unlink" => session.unlink(caller, dir, &[b"g", name].concat()).await,
            "symlink" => session.symlink(caller, dir, name, b"../some/target").await.map(drop),
            "unlink-symlink" => session.unlink(caller, dir, name).await,
            "mkdir" => session.mkdir(caller, dir, name, 0o755).await.map(drop),
            "rmdir" => session.rmdir(caller, dir, name).await,
            _ => Ok(()),
        }
    }
}

/// How large the futures are, which whoever runs them has to move about.
fn print_sizes(side: &Side) {
    let (session, caller, dir) = (&side.session, &side.caller, side.dir);
    let name = &b"name"[..];
    let flags = OpenFlags::READ_WRITE;
    let handle = fs::Handle(0);
    for (kind, bytes) in [
        ("create", size_of_val(&session.create(caller, dir, name, 0o644, flags))),
        ("release", size_of_val(&session.release(handle))),
        ("getattr", size_of_val(&session.getattr(dir))),
        ("lookup", size_of_val(&session.lookup(caller, dir, name))),
        ("open", size_of_val(&session.open(caller, dir, flags))),
        (
            "rename",
            size_of_val(&session.rename(caller, dir, name, dir, name, RenameFlags::default())),
        ),
        ("unlink", size_of_val(&session.unlink(caller, dir, name))),
        ("symlink", size_of_val(&session.symlink(caller, dir, name, name))),
        ("mkdir", size_of_val(&session.mkdir(caller, dir, name, 0o755))),
        ("rmdir", size_of_val(&session.rmdir(caller, dir, name))),
    ] {
        println!("{kind:<16} {bytes:>8} bytes of future");
    }
}

#[inline(never)]
fn measured(side: &mut Side, kind: &str, count: u64) -> Result<()> {
    for number in 0..count {
        block_on(side.one(kind, number))?;
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let given = given()?;
    let dir = tempfile::tempdir_in(&given.dir)?;
    let disk = Arc::new(SystemDisk::create(dir.path())?);
    let random = Arc::new(OsRandom::new());
    let options = kv_local::Options::default();
    let engine = kv_local::Local::open(disk, Some(&SystemThreads), &*random, options)?;
    let clock = Arc::new(SystemClock::new());
    let store = kv::Store::new(Arc::new(engine.clone()), clock.clone(), random.clone());
    let world = World { store, clock, random, home: None };
    let volume = block_on(Volume::format(&world, "ops", &FormatOptions::default()))?;
    let options = SessionOptions { survives: given.survives, ..SessionOptions::default() };
    let session = block_on(Session::start(&volume, options))?;
    let caller = Caller { checked_here: false, ..Caller::root() };
    let dir_ino = block_on(session.mkdir(&caller, ROOT, b"dir", 0o755))?.ino;
    let mut side = Side { session: session.clone(), caller, dir: dir_ino, made: Vec::new() };
    print_sizes(&side);
    for kind in KINDS {
        let wanted = given.only.as_deref().is_none_or(|only| only == kind);
        let start = Instant::now();
        if wanted {
            measured(&mut side, kind, given.count)?;
            let nanos = start.elapsed().as_nanos() as f64 / given.count as f64;
            println!("{kind:<16} {nanos:>8.0} ns");
        } else {
            for number in 0..given.count {
                block_on(side.one(kind, number))?;
            }
        }
    }
    drop(side);
    block_on(session.stop())?;
    engine.close()?;
    Ok(())
}
