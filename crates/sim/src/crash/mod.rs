//! `sim crash`: writers on a real mount, whose daemon is killed at a random instant, mounted again and
//! checked: everything that was acknowledged is there, byte for byte. The same store goes through all
//! rounds, so that damage would add up.
#![allow(clippy::disallowed_methods, reason = "a real mount has real time and real threads")]

mod base;
mod calls;
mod choice;
mod journal;
mod mapped;
mod model;
mod outlive;
mod round;
mod shared;
mod verify;
mod writer;

use self::base::Base;
use self::choice::Bounds;
use self::journal::Journal;
use self::mapped::Mapped;
pub(crate) use self::round::Round;
use self::writer::Writer;
use crate::real::{Daemon, Place, keep, why_not};
use ::base::{Random, SeededRandom};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The directory that all writers make names in.
const SHARED: &str = "shared";
/// The log that all of them append to.
const LOG: &str = "shared/log";
/// What the kernel may cut a write at.
const PAGE: usize = 4096;
/// Bits that no new file has.
const UMASK: u32 = 0o022;
/// Writers of files.
const WRITERS: usize = 4;
/// Calls that are acknowledged in a round at most.
const CALLS_MAX: u64 = 1_500;
/// Every so many rounds the whole volume is checked.
const FSCK_EVERY: u64 = 10;
/// Once in so many rounds a daemon is killed again while it starts.
const KILLED_IN_START: u64 = 6;
/// Once in so many rounds it is told to end instead.
const ENDED: u64 = 16;
/// Memory of the engine, one of these for each mount: small, so that it folds and merges its tables all the
/// time, and is killed at that too.
const MEMORY: [&str; 3] = ["--memory=4MiB", "--memory=16MiB", "--memory=48MiB"];
/// Rounds between two lines about how far it is.
const TOLD_EVERY: u64 = 100;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How many rounds.
    pub rounds: u64,
    /// What decides the calls and the instants.
    pub seed: u64,
    /// Where to work: a new directory in it.
    pub dir: PathBuf,
    /// The mount outlives its daemons.
    pub supervised: bool,
}

/// What came of it.
#[derive(Debug, Default)]
struct Tally {
    acknowledged: u64,
    fscks: u64,
    kills: u64,
    /// Calls that the kernel has cut, of those that another daemon should have answered.
    cut: u64,
}

/// What is done in each round.
type Rounds = fn(&Options, &Place, &mut Tally, &mut dyn Write) -> Result<(), String>;

/// Runs the rounds and says whether nothing was lost.
pub fn run(options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    if let Some(why) = why_not() {
        writeln!(out, "crash: cannot run: {why}")?;
        return Ok(false);
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(UMASK));
    let scratch = tempfile::Builder::new().prefix("sim-crash-").tempdir_in(&options.dir)?;
    // The daemon tells of real paths.
    let place = Place { dir: scratch.path().canonicalize()? };
    let started = Instant::now();
    let mut tally = Tally::default();
    let (name, rounds): (_, Rounds) =
        if options.supervised { ("outlive", outlive::rounds) } else { ("crash", rounds) };
    match rounds(options, &place, &mut tally, out) {
        Ok(()) => {
            if tally.cut > 0 {
                let words =
                    "calls were being handed to a daemon when it was killed: EIO by the kernel";
                writeln!(out, "{name}: {} {words}", tally.cut)?;
            }
            writeln!(
                out,
                "{name}: {} rounds, {} calls acknowledged, 0 lost, {} kills, {} fscks clean, {} s, seed {}",
                options.rounds,
                tally.acknowledged,
                tally.kills,
                tally.fscks,
                started.elapsed().as_secs(),
                options.seed
            )?;
            Ok(true)
        }
        Err(words) => {
            writeln!(out, "{name}: LOST, seed {}: {words}", options.seed)?;
            keep(scratch, name, out)?;
            Ok(false)
        }
    }
}

fn rounds(
    options: &Options,
    place: &Place,
    tally: &mut Tally,
    out: &mut dyn Write,
) -> Result<(), String> {
    place.make()?;
    let random = SeededRandom::new(options.seed);
    let mut daemon = Daemon::start(place, &[])?;
    let mut cast = Cast::new(place, &random)?;
    for number in 1..=options.rounds {
        let told = |words| format!("round {number}: {words}");
        let round = Round::new(number);
        let is_ended = random.one_in(ENDED);
        cast.work(&place.mountpoint(), &round, || {
            let calls = 1 + random.below(CALLS_MAX);
            round.wait_for(calls, || daemon.has_ended())?;
            if is_ended {
                return Ok(());
            }
            round.strike();
            tally.kills += 1;
            daemon.strike()?;
            daemon.bury()
        })
        .map_err(told)?;
        if is_ended {
            daemon.end().map_err(told)?;
        }
        tally.acknowledged += round.acknowledged();
        let is_checked = number % FSCK_EVERY == 0;
        if random.one_in(KILLED_IN_START) {
            tally.kills += 1;
            let after = Duration::from_micros(random.below(40_000));
            Daemon::start_and_kill(place, after).map_err(told)?;
        }
        if is_checked {
            fsck(place, &place.store()).map_err(told)?;
        }
        let memory = MEMORY[random.below(MEMORY.len() as u64) as usize];
        daemon = Daemon::start(place, &[memory]).map_err(told)?;
        cast.verify(&place.mountpoint()).map_err(told)?;
        if is_checked {
            fsck(place, &place.mountpoint()).map_err(told)?;
            tally.fscks += 1;
        }
        if number % TOLD_EVERY == 0 {
            let (calls, bytes) = (tally.acknowledged, cast.total_bytes());
            let line =
                format!("crash: round {number}: {calls} calls acknowledged, {bytes} bytes held");
            writeln!(out, "{line}").map_err(|error| error.to_string())?;
        }
    }
    daemon.end()
}

/// Checks the volume of a store, or of a mount.
fn fsck(place: &Place, target: &Path) -> Result<(), String> {
    let ended = place.verb(&["fsck".as_ref(), target.as_os_str()])?;
    if ended.code == Some(0) {
        return Ok(());
    }
    Err(format!("fsck of {} is not clean: {}", target.display(), ended.all))
}

/// Everybody who writes.
pub(crate) struct Cast {
    writers: Vec<Writer>,
    mapped: Mapped,
    bases: Vec<Base>,
}

impl Cast {
    pub(crate) fn new(place: &Place, random: &SeededRandom) -> Result<Self, String> {
        let mountpoint = place.mountpoint();
        let failed = |error: io::Error| format!("cannot make the first directories: {error}");
        let journal = |name: &str| Journal::new(&place.dir, name);
        let small =
            Bounds { names: 60, file_bytes: 300_000, total_bytes: 3 << 20, write_bytes: 100_000 };
        // Files of several chunks.
        let large =
            Bounds { names: 8, file_bytes: 9 << 20, total_bytes: 20 << 20, write_bytes: 900_000 };
        let mut writers = Vec::new();
        for number in 0..WRITERS {
            let bounds = if number == 0 { large } else { small };
            let journal = journal(&format!("writer-{number}"))?;
            let writer = Writer::new(number, random.next_u64(), bounds, journal);
            std::fs::create_dir(mountpoint.join(writer.home())).map_err(failed)?;
            writers.push(writer);
        }
        std::fs::create_dir(mountpoint.join(SHARED)).map_err(failed)?;
        File::create(mountpoint.join(LOG)).map_err(failed)?;
        let mapped = Mapped::new(&mountpoint, random.next_u64(), journal("mapped")?)?;
        let modes = ["wal", "delete"].into_iter();
        let bases = modes.map(|mode| Base::new(&mountpoint, mode, journal(mode)?));
        Ok(Self { writers, mapped, bases: bases.collect::<Result<_, _>>()? })
    }

    /// All of them work until `end` has been done and they have noticed.
    pub(crate) fn work(
        &mut self,
        mountpoint: &Path,
        round: &Round,
        end: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for writer in &mut self.writers {
                threads.push(scope.spawn(|| writer.work(mountpoint, round)));
            }
            let mapped = &mut self.mapped;
            threads.push(scope.spawn(|| mapped.work(mountpoint, round)));
            for base in &mut self.bases {
                threads.push(scope.spawn(|| base.work(mountpoint, round)));
            }
            let ended = end();
            round.finish();
            let done = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err("a writer panicked".to_owned()))
            });
            let done: Vec<Result<(), String>> = done.collect();
            done.into_iter().collect::<Result<(), String>>().and(ended)
        })
    }

    pub(crate) fn verify(&mut self, mountpoint: &Path) -> Result<(), String> {
        shared::verify(&mountpoint.join(LOG), &mut self.writers)?;
        self.mapped.verify(mountpoint)?;
        for base in &mut self.bases {
            base.verify(mountpoint)?;
        }
        let mut found = Vec::new();
        for writer in &mut self.writers {
            found.extend(writer.verify(mountpoint).err());
        }
        if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
    }

    fn total_bytes(&self) -> usize {
        self.writers.iter().map(Writer::total_bytes).sum()
    }
}
