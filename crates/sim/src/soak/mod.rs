//! `sim soak`: mixed load on one mount for a long time. What was written is there, the daemon grows in
//! nothing after its warm-up, and when everything is removed nothing is left.
#![allow(clippy::disallowed_methods, reason = "a real mount has real time and real threads")]

mod accounts;
mod load;
mod samples;

use self::accounts::{Account, agree, empty, store_bytes};
use self::load::CYCLES;
use self::samples::Growth;
pub(crate) use self::samples::Sample;
use crate::crash::{Cast, Round};
use crate::real::{Daemon, Place, keep, why_not};
use base::{Random, SeededRandom};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The load rests after this time, and everything is compared.
const PHASE: Duration = Duration::from_secs(300);
/// What may grow at first: caches, pools. A short run has a sixth of its time.
const WARM_UP: Duration = Duration::from_secs(300);
/// How often the daemon is looked at.
const SAMPLE_EVERY: Duration = Duration::from_secs(2);

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long.
    pub time: Duration,
    /// What decides the calls.
    pub seed: u64,
    /// Where to work: a new directory in it.
    pub dir: PathBuf,
}

impl Options {
    /// Whether there is time enough in which something could be said to grow.
    fn can_grow(&self) -> bool {
        self.time >= 2 * WARM_UP
    }
}

/// What came of it.
#[derive(Debug, Default)]
struct Tally {
    acknowledged: u64,
    rests: u64,
    samples: Vec<Sample>,
    growth: Option<Growth>,
    /// The most that the store took, and what it took when it was empty.
    store_most_bytes: u64,
    store_empty_bytes: u64,
    peak_bytes: u64,
}

/// Runs the load and says whether all was well.
pub fn run(options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    if let Some(why) = why_not() {
        writeln!(out, "soak: cannot run: {why}")?;
        return Ok(false);
    }
    let scratch = tempfile::Builder::new().prefix("sim-soak-").tempdir_in(&options.dir)?;
    let place = Place { dir: scratch.path().canonicalize()? };
    let mut tally = Tally::default();
    let done = soak(options, &place, &mut tally, out);
    if let Some(growth) = &tally.growth {
        writeln!(out, "soak: {growth}")?;
    }
    match done {
        Ok(()) => {
            writeln!(
                out,
                "soak: {} s, {} calls, {} rests, nothing lost, {}, nothing leaked, peak memory {} MiB, \
                 store {} MiB at most and {} MiB when empty, seed {}",
                options.time.as_secs(),
                tally.acknowledged,
                tally.rests,
                if options.can_grow() { "no growth" } else { "too short to grow" },
                tally.peak_bytes >> 20,
                tally.store_most_bytes >> 20,
                tally.store_empty_bytes >> 20,
                options.seed
            )?;
            Ok(true)
        }
        Err(words) => {
            writeln!(out, "soak: FAILED, seed {}: {words}", options.seed)?;
            keep(scratch, "soak", out)?;
            Ok(false)
        }
    }
}

fn soak(
    options: &Options,
    place: &Place,
    tally: &mut Tally,
    out: &mut dyn Write,
) -> Result<(), String> {
    place.make()?;
    let random = SeededRandom::new(options.seed);
    let mut daemon = Daemon::start(place, &[])?;
    let before = Account::told(place)?;
    let mut cast = Cast::new(place, &random)?;
    let started = Instant::now();
    while started.elapsed() < options.time {
        let end = (started.elapsed() + PHASE).min(options.time);
        let round = Round::new(tally.rests + 1);
        let watch = Watch { place, started, end };
        phase(&mut cast, &random, &round, &watch, &mut daemon, tally)?;
        tally.acknowledged += round.acknowledged();
        tally.rests += 1;
        cast.verify(&place.mountpoint())?;
        let now = agree(place)?;
        let line = format!(
            "soak: {} s: {} calls, {} bytes in {} inodes, memory {} MiB",
            started.elapsed().as_secs(),
            tally.acknowledged,
            now.used_bytes,
            now.inodes,
            tally.samples.last().map_or(0, |last| last.resident_bytes >> 20)
        );
        writeln!(out, "{line}").map_err(|error| error.to_string())?;
    }
    tally.peak_bytes = Sample::peak_bytes(daemon.pid())?;
    tally.growth = Growth::of(&tally.samples, WARM_UP.min(options.time / 6));
    drop(cast);
    tally.store_empty_bytes = empty(place, before)?;
    daemon.end()?;
    match &tally.growth {
        Some(growth) if options.can_grow() => growth.complaint().map_or(Ok(()), Err),
        _ => Ok(()),
    }
}

/// Who looks at the daemon while others work.
struct Watch<'a> {
    place: &'a Place,
    started: Instant,
    end: Duration,
}

impl Watch<'_> {
    fn look(&self, daemon: &mut Daemon, round: &Round, tally: &mut Tally) -> Result<(), String> {
        loop {
            let now = self.started.elapsed();
            if now >= self.end || round.has_failed() {
                return Ok(());
            }
            if daemon.has_ended() {
                return Err(format!("the daemon died by itself\n{}", self.place.log_tail()));
            }
            tally.samples.push(Sample::take(daemon.pid(), now)?);
            let bytes = store_bytes(&self.place.store()).unwrap_or(0);
            tally.store_most_bytes = tally.store_most_bytes.max(bytes);
            std::thread::sleep(SAMPLE_EVERY.min(self.end - now));
        }
    }
}

/// Everybody works until its end.
fn phase(
    cast: &mut Cast,
    random: &SeededRandom,
    round: &Round,
    watch: &Watch<'_>,
    daemon: &mut Daemon,
    tally: &mut Tally,
) -> Result<(), String> {
    let mountpoint = watch.place.mountpoint();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for cycle in CYCLES {
            let (seed, mountpoint) = (random.next_u64(), &mountpoint);
            threads.push(scope.spawn(move || load::work(cycle, mountpoint, seed, round)));
        }
        let worked = cast.work(&mountpoint, round, || watch.look(daemon, round, tally));
        let done = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a writer panicked".to_owned())));
        let done: Vec<Result<(), String>> = done.collect();
        done.into_iter().collect::<Result<(), String>>().and(worked)
    })
}
