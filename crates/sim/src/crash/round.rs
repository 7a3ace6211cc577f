//! One round: how many calls were acknowledged, and whether the daemon may be gone.

use crate::real::deadline;
use rustix::io::Errno;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the calls are counted: more often than one takes.
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// How calls end when the daemon is gone, and what a process gets that speaks to one who died of it. A write
/// for which the kernel has to read the rest of a page, and cannot, ends with EIO.
const OF_DEATH: [i32; 5] = [
    Errno::NOTCONN.raw_os_error(),
    Errno::CONNABORTED.raw_os_error(),
    // By io_uring.
    Errno::CANCELED.raw_os_error(),
    Errno::PIPE.raw_os_error(),
    Errno::IO.raw_os_error(),
];

/// A round.
#[derive(Debug)]
pub(crate) struct Round {
    /// Its number.
    pub(crate) number: u64,
    acknowledged: AtomicU64,
    struck: AtomicBool,
    over: AtomicBool,
    failed: AtomicBool,
    /// Another daemon takes over: what fails was cut by the kernel.
    outlives: bool,
    cut: AtomicU64,
}

impl Round {
    /// One that begins.
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            acknowledged: AtomicU64::new(0),
            struck: AtomicBool::new(false),
            over: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            outlives: false,
            cut: AtomicU64::new(0),
        }
    }

    /// One in which other daemons take over.
    pub(crate) fn outliving(number: u64) -> Self {
        Self { outlives: true, ..Self::new(number) }
    }

    /// Calls that the kernel has cut.
    pub(crate) fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// A call was acknowledged.
    pub(crate) fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// From now on the daemon may be gone.
    pub(crate) fn strike(&self) {
        self.struck.store(true, Ordering::SeqCst);
    }

    /// Nobody makes another call.
    pub(crate) fn finish(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Whether another call is to be made.
    pub(crate) fn goes_on(&self) -> bool {
        !self.over.load(Ordering::SeqCst)
    }

    /// Whether a call failed that must not.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// What a failed call means: the end of the round, or an error when the daemon lived.
    pub(crate) fn gone(&self, error: &io::Error, what: &str) -> Result<(), String> {
        // Something else than a kernel that has lost its server is an answer, and a wrong one.
        // When another daemon takes over, only a request fails that the one before was just being handed.
        let known = if self.outlives { &OF_DEATH[OF_DEATH.len() - 1..] } else { &OF_DEATH[..] };
        let of_death = error.raw_os_error().is_none_or(|number| known.contains(&number));
        if of_death && self.struck.load(Ordering::SeqCst) {
            self.cut.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.failed.store(true, Ordering::SeqCst);
        Err(format!("failed while the daemon lived: {what}: {error}"))
    }

    /// Waits until so many calls were acknowledged, or something went wrong.
    pub(crate) fn wait_for(
        &self,
        calls: u64,
        mut has_ended: impl FnMut() -> bool,
    ) -> Result<(), String> {
        let end = deadline();
        while self.acknowledged() < calls && !self.has_failed() {
            if Instant::now() > end {
                let words = format!("{} of {calls} calls came back: it hangs", self.acknowledged());
                return Err(words);
            }
            if has_ended() {
                return Err("the daemon died by itself".to_owned());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}
