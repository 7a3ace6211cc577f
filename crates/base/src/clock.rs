//! Time, injected. Decisions use the monotonic time only: nothing in Seamount compares two machines'
//! clocks. The time of day is for the stamps that people read.

use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

/// A future that is ready when its time has come.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A monotonic clock.
pub trait Clock: Send + Sync + Debug {
    /// Time since some fixed instant before the first call.
    fn now(&self) -> Duration;

    /// Ready once `duration` has passed.
    fn sleep(&self, duration: Duration) -> Sleep;

    /// The time of day: seconds since 1970, negative before, and nanoseconds.
    fn wall(&self) -> (i64, u32);
}

/// Wakers by the time at which they are due; the number keeps equal times apart and in order.
type Timers = BTreeMap<(Duration, u64), Arc<Timer>>;

#[derive(Debug, Default)]
struct Timer(Mutex<TimerState>);

#[derive(Debug, Default)]
struct TimerState {
    fired: bool,
    waker: Option<Waker>,
}

impl Timer {
    fn fire(&self) {
        let mut state = self.0.lock();
        state.fired = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct TimerFuture(Arc<Timer>);

impl Future for TimerFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.0.lock();
        if state.fired {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The machine's monotonic clock. One thread, started by the first sleep, serves all timers.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<SystemState>,
    changed: std::sync::Condvar,
}

#[derive(Debug, Default)]
struct SystemState {
    timers: Timers,
    sequence: u64,
    running: bool,
    stopped: bool,
}

impl SystemClock {
    /// A clock that starts now.
    pub fn new() -> Self {
        Self { start: Instant::now(), shared: Arc::default() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SystemClock {
    fn drop(&mut self) {
        self.shared.state.lock().stopped = true;
        self.shared.changed.notify_all();
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall(&self) -> (i64, u32) {
        match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                let secs = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                match before.subsec_nanos() {
                    0 => (-secs, 0),
                    nanos => (-secs - 1, 1_000_000_000 - nanos),
                }
            }
        }
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let timer = Arc::new(Timer::default());
        let mut state = self.shared.state.lock();
        state.sequence += 1;
        let due = (self.now().saturating_add(duration), state.sequence);
        state.timers.insert(due, Arc::clone(&timer));
        if !state.running {
            let shared = Arc::clone(&self.shared);
            let start = self.start;
            // Without its thread a timer would never fire, so one that cannot be had is due now:
            // the caller goes on early rather than never.
            let spawned = std::thread::Builder::new()
                .name("timers".to_owned())
                .spawn(move || serve_timers(&shared, start));
            match spawned {
                Ok(_) => state.running = true,
                Err(_) => {
                    state.timers.remove(&due);
                    timer.fire();
                }
            }
        }
        drop(state);
        self.shared.changed.notify_all();
        Box::pin(TimerFuture(timer))
    }
}

fn serve_timers(shared: &Shared, start: Instant) {
    let mut state = shared.state.lock();
    while !state.stopped {
        let now = start.elapsed();
        match state.timers.first_key_value().map(|(&(due, _), _)| due) {
            Some(due) if due <= now => {
                let timer = state.timers.pop_first();
                drop(state);
                if let Some((_, timer)) = timer {
                    timer.fire();
                }
                state = shared.state.lock();
            }
            next => {
                let wait = next.map_or(Duration::from_secs(3600), |due| due - now);
                state = match shared.changed.wait_timeout(state, wait) {
                    Ok((state, _)) => state,
                    Err(poison) => poison.into_inner().0,
                };
            }
        }
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug, Default, Clone)]
pub struct SimClock(Arc<Mutex<SimState>>);

#[derive(Debug, Default)]
struct SimState {
    now: Duration,
    sequence: u64,
    timers: Timers,
}

impl SimClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves on by `duration` and fires what is due on the way.
    pub fn advance(&self, duration: Duration) {
        let until = self.now().saturating_add(duration);
        while self.fire_next(until) {}
        self.0.lock().now = until;
    }

    /// Jumps to the next timer and fires it; false when there is none.
    pub fn advance_to_next(&self) -> bool {
        self.fire_next(Duration::MAX)
    }

    fn fire_next(&self, until: Duration) -> bool {
        let mut state = self.0.lock();
        match state.timers.first_key_value().map(|(&(due, _), _)| due) {
            Some(due) if due <= until => {
                state.now = state.now.max(due);
                let timer = state.timers.pop_first();
                drop(state);
                if let Some((_, timer)) = timer {
                    timer.fire();
                }
                true
            }
            _ => false,
        }
    }
}

/// The time of day at which every simulated clock starts: late in 2026.
const SIM_START_SECS: i64 = 1_794_787_200;

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.0.lock().now
    }

    fn wall(&self) -> (i64, u32) {
        let now = self.now();
        (SIM_START_SECS.saturating_add_unsigned(now.as_secs()), now.subsec_nanos())
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let timer = Arc::new(Timer::default());
        let mut state = self.0.lock();
        state.sequence += 1;
        let due = (state.now.saturating_add(duration), state.sequence);
        state.timers.insert(due, Arc::clone(&timer));
        Box::pin(TimerFuture(timer))
    }
}
