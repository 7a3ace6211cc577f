//! A bounded pool of threads that runs futures: for work that waits, or would hold up its caller.

use crate::sync::{Condvar, Mutex};
use crate::thread::Spawn;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};

/// A future that the pool has taken over.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Threads that run futures. They are started as they are needed, up to a bound, and end when the
/// pool is dropped and its tasks are done.
#[derive(Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    name: String,
    threads_max: usize,
    spawn: Arc<dyn Spawn>,
    state: Mutex<State>,
    /// For threads that wait: there is something to run, or nothing will come any more.
    work: Condvar,
    /// For who waits until nothing is left.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Arc<Slot>>,
    threads: usize,
    idle: usize,
    /// One that was idle is on its way.
    waking: bool,
    /// Tasks that are not done.
    tasks: usize,
    closed: bool,
}

struct Slot {
    future: Mutex<Option<Task>>,
    /// Whether it waits, is queued, runs, or was woken while it ran.
    state: AtomicU8,
    pool: Weak<Shared>,
}

const WAITS: u8 = 0;
const QUEUED: u8 = 1;
const RUNS: u8 = 2;
const WOKEN: u8 = 3;

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool of at most `threads_max` threads, of which none runs yet.
    pub fn new(name: &str, threads_max: usize, spawn: Arc<dyn Spawn>) -> Self {
        Self(Arc::new(Shared {
            name: name.to_owned(),
            threads_max: threads_max.max(1),
            spawn,
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
        }))
    }

    /// Runs a future to its end. Fails, and gives the future back, only when not one thread can be
    /// had.
    pub fn spawn(&self, task: Task) -> Result<(), (io::Error, Task)> {
        let slot = Arc::new(Slot {
            future: Mutex::new(None),
            state: AtomicU8::new(QUEUED),
            pool: Arc::downgrade(&self.0),
        });
        let mut state = self.0.state.lock();
        if state.idle <= state.ready.len() && state.threads < self.0.threads_max {
            let shared = Arc::clone(&self.0);
            let started = self.0.spawn.spawn(&self.0.name, Box::new(move || shared.work()));
            match started {
                Ok(_) => state.threads += 1,
                // Those that run already will come to it.
                Err(_) if state.threads > 0 => {}
                Err(error) => return Err((error, task)),
            }
        }
        *slot.future.lock() = Some(task);
        state.tasks += 1;
        self.0.make_ready(state, slot);
        Ok(())
    }

    /// Waits until no task is left.
    pub fn wait(&self) {
        let mut state = self.0.state.lock();
        while state.tasks > 0 {
            state = self.0.done.wait(state);
        }
    }

    /// How many tasks are not done yet.
    pub fn tasks(&self) -> usize {
        self.0.state.lock().tasks
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.work.notify_all();
    }
}

impl Shared {
    /// Queues what can be run. One thread is woken for it, and none when one is on its way already: that one wakes
    /// the next while more is left.
    fn make_ready(&self, mut state: MutexGuard<'_, State>, slot: Arc<Slot>) {
        state.ready.push_back(slot);
        self.wake_one(state);
    }

    fn wake_one(&self, mut state: MutexGuard<'_, State>) {
        let wakes = state.idle > 0 && !state.waking && !state.ready.is_empty();
        state.waking |= wakes;
        drop(state);
        if wakes {
            self.work.notify_one();
        }
    }

    fn work(self: Arc<Self>) {
        let mut state = self.state.lock();
        loop {
            if let Some(slot) = state.ready.pop_front() {
                // What runs may wait, or take long.
                self.wake_one(state);
                let done = slot.run();
                state = self.state.lock();
                if done {
                    state.tasks -= 1;
                    if state.tasks == 0 {
                        self.done.notify_all();
                        if state.closed {
                            self.work.notify_all();
                        }
                    }
                }
            } else if state.closed && state.tasks == 0 {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state);
                state.idle -= 1;
                state.waking = false;
            }
        }
    }
}

impl Slot {
    /// Polls the future once. True when it is done.
    fn run(self: &Arc<Self>) -> bool {
        let mut future = self.future.lock();
        let Some(task) = future.as_mut() else {
            return false;
        };
        self.state.store(RUNS, Ordering::Release);
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        // A panic ends its task, not the thread: its message has been printed already.
        let polled =
            std::panic::catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut context)));
        if !matches!(polled, Ok(Poll::Pending)) {
            *future = None;
            return true;
        }
        drop(future);
        if self.state.compare_exchange(RUNS, WAITS, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Woken meanwhile.
            self.state.store(QUEUED, Ordering::Release);
            self.queue();
        }
        false
    }

    fn queue(self: &Arc<Self>) {
        if let Some(pool) = self.pool.upgrade() {
            pool.make_ready(pool.state.lock(), Arc::clone(self));
        }
    }
}

impl Wake for Slot {
    fn wake(self: Arc<Self>) {
        loop {
            let seen = self.state.load(Ordering::Acquire);
            let next = match seen {
                WAITS => QUEUED,
                RUNS => WOKEN,
                _ => return,
            };
            let swapped =
                self.state.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_ok() {
                if next == QUEUED {
                    self.queue();
                }
                return;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::Pool;
    use crate::clock::{Clock, SystemClock};
    use crate::thread::SystemThreads;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn more_tasks_than_threads_all_end() {
        let pool = Pool::new("test", 3, Arc::new(SystemThreads));
        let clock = Arc::new(SystemClock::new());
        let (done, ended) = channel();
        for number in 0..200_u64 {
            let (clock, done) = (Arc::clone(&clock), done.clone());
            pool.spawn(Box::pin(async move {
                for _ in 0..number % 4 {
                    clock.sleep(Duration::from_micros(number)).await;
                }
                done.send(number).unwrap();
            }))
            .map_err(|(error, _)| error)
            .unwrap();
        }
        drop(done);
        pool.wait();
        assert_eq!(pool.tasks(), 0);
        drop(pool);
        let mut numbers: Vec<u64> = ended.iter().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_ends_its_task_and_no_other() {
        let pool = Pool::new("test", 1, Arc::new(SystemThreads));
        let (done, ended) = channel();
        let spawn = |task| pool.spawn(task).map_err(|(error, _)| error).unwrap();
        #[allow(clippy::panic, reason = "it is what is tested")]
        spawn(Box::pin(async { panic!("on purpose") }));
        spawn(Box::pin(async move { done.send(()).unwrap() }));
        ended.recv().unwrap();
    }
}
