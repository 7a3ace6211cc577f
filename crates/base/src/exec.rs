//! Running futures: on the calling thread for real, or by a seeded schedule in a simulation.

use crate::clock::SimClock;
use crate::random::{Random, SeededRandom};
use crate::sync::Mutex;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Runs `future` to its end on this thread, which sleeps while the future waits. A future that is
/// ready at once costs no system call.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // The first poll needs no way to wake this thread: most futures here are ready.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let unpark = Arc::new(Unpark { thread: std::thread::current(), woken: AtomicBool::new(true) });
    let waker = Waker::from(Arc::clone(&unpark));
    let mut context = Context::from_waker(&waker);
    loop {
        if unpark.woken.swap(false, Ordering::AcqRel) {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
        } else {
            std::thread::park();
        }
    }
}

struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A single-threaded executor whose every choice comes from one seed. Time moves only when nothing
/// else can.
#[derive(Debug)]
pub struct Scheduler {
    random: SeededRandom,
    clock: SimClock,
    tasks: Vec<Slot>,
}

struct Slot {
    future: Task,
    ready: Arc<Ready>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("ready", &self.ready).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Ready(Mutex<bool>);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        *self.0.lock() = true;
    }
}

/// Tasks that can never go on: all wait, and no timer is left.
#[derive(Debug, PartialEq, Eq)]
pub struct Stuck {
    /// How many tasks wait.
    pub tasks: usize,
}

impl Scheduler {
    /// A schedule that is a pure function of `seed`, on `clock`.
    pub fn new(seed: u64, clock: SimClock) -> Self {
        Self { random: SeededRandom::new(seed), clock, tasks: Vec::new() }
    }

    /// Adds a task.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + Send + 'static) {
        let ready = Arc::new(Ready(Mutex::new(true)));
        self.tasks.push(Slot { future: Box::pin(future), ready });
    }

    /// Runs until every task is done.
    pub fn run(&mut self) -> Result<(), Stuck> {
        while !self.tasks.is_empty() {
            let ready: Vec<usize> =
                (0..self.tasks.len()).filter(|&index| *self.tasks[index].ready.0.lock()).collect();
            if ready.is_empty() {
                if !self.clock.advance_to_next() {
                    return Err(Stuck { tasks: self.tasks.len() });
                }
                continue;
            }
            let index = ready[self.random.below(ready.len() as u64) as usize];
            let slot = &mut self.tasks[index];
            *slot.ready.0.lock() = false;
            let waker = Waker::from(Arc::clone(&slot.ready));
            if slot.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                self.tasks.swap_remove(index);
            }
        }
        Ok(())
    }
}

/// Gives way once: the task is ready again at once, but others may run first.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(move |context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
