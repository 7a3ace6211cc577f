//! One scene on one target in one pass: its directory, its clock, and the limits of time.

use super::caches;
use super::error::Error;
use super::options::Scale;
use super::samples::Samples;
use super::stop::Stop;
use super::work::Work;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where a scene plays.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    /// An empty directory of its own.
    pub(crate) dir: PathBuf,
    pub(crate) scale: &'a Scale,
    pub(crate) wanted: &'a [Work],
    pub(crate) stop: &'a Stop,
    pub(crate) samples: &'a mut Samples,
    pub(crate) target: usize,
}

impl Stage<'_> {
    /// Whether this workload was asked for and can be done here.
    pub(crate) fn wants(&self, work: Work) -> bool {
        self.wanted.contains(&work)
    }

    /// Runs `body` on the clock; it returns the amount that it did.
    pub(crate) fn timed(
        &mut self,
        work: Work,
        body: impl FnOnce(&Step<'_>) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        self.stop.check()?;
        let name = work.name(self.scale.threads);
        let step = Step::new(&name, &self.dir, self.scale, self.stop);
        let amount = body(&step)?;
        let seconds = step.start.elapsed().as_secs_f64();
        if self.wants(work) {
            self.samples.add(work, self.target, work.unit().rate(amount, seconds));
        }
        Ok(amount)
    }

    /// The same on several threads; the amounts add up.
    pub(crate) fn timed_crew(
        &mut self,
        work: Work,
        threads: usize,
        body: impl Fn(usize, &Step<'_>) -> Result<u64, Error> + Sync,
    ) -> Result<Vec<u64>, Error> {
        let mut amounts = Vec::with_capacity(threads);
        self.timed(work, |step| {
            let results: Vec<Result<u64, Error>> = std::thread::scope(|scope| {
                let body = &body;
                let crew: Vec<_> =
                    (0..threads).map(|thread| scope.spawn(move || body(thread, step))).collect();
                let lost = || Err(Error::Asked("a thread of the benchmark died".into()));
                crew.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
            });
            for result in results {
                amounts.push(result?);
            }
            Ok(amounts.iter().sum())
        })?;
        Ok(amounts)
    }

    /// Runs `body` off the clock, within the same limits.
    pub(crate) fn untimed<T>(
        &self,
        doing: &str,
        body: impl FnOnce(&Step<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.stop.check()?;
        body(&Step::new(doing, &self.dir, self.scale, self.stop))
    }

    /// Makes the next reads cold. They are done once before they are timed: what the first ones cost
    /// depends on what the machine below this one has cached.
    pub(crate) fn chill(&self, read: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        caches::drop_all()?;
        read()?;
        caches::drop_all()
    }
}

/// One run of one workload.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    name: &'a str,
    dir: &'a Path,
    stop: &'a Stop,
    start: Instant,
    slice: Duration,
    longest: Duration,
}

impl<'a> Step<'a> {
    fn new(name: &'a str, dir: &'a Path, scale: &Scale, stop: &'a Stop) -> Self {
        let (slice, longest) = (scale.slice, scale.longest);
        Self { name, dir, stop, start: Instant::now(), slice, longest }
    }

    /// Adds to a failed call what was being done, and where.
    pub(crate) fn ok<T, E: Into<io::Error>>(&self, result: Result<T, E>) -> Result<T, Error> {
        result.map_err(|error| Error::io(self.name, self.dir, error))
    }

    /// Calls `each` with 0, 1, ... until `count`, or until time is up; at least once. Says how often.
    pub(crate) fn each(
        &self,
        count: u64,
        each: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        self.until(self.longest, count, each)
    }

    /// Calls `each` with 0, 1, ... for a slice of time. Says how often.
    pub(crate) fn repeat(&self, each: impl FnMut(u64) -> Result<(), Error>) -> Result<u64, Error> {
        self.until(self.slice, u64::MAX, each)
    }

    /// Calls `each` for a slice of time, but not more than `count` times. Says how often.
    pub(crate) fn brief(
        &self,
        count: u64,
        each: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        self.until(self.slice, count, each)
    }

    /// Fails if a signal asked to stop.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.stop.check()
    }

    fn until(
        &self,
        time: Duration,
        count: u64,
        mut each: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        // The clock and the flag are looked at now and then, so that looking costs nothing; the first
        // time at once, as one call may be a second.
        const LOOK_EVERY: u64 = 16;
        let mut done = 0;
        while done < count {
            each(done)?;
            done += 1;
            let slow = done < LOOK_EVERY;
            if slow || done % LOOK_EVERY == 0 {
                self.stop.check()?;
                if self.start.elapsed() >= time {
                    break;
                }
            }
        }
        Ok(done)
    }
}
