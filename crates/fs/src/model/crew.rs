//! Tasks that come between each other in the midst of calls, where a task that only waits at times never lets anybody
//! in: whoever is called lets another one do its next piece. Everything is a function of the seed.

use base::sync::Mutex;
use base::{Random, SeededRandom, SimClock};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

/// Pieces after which the tasks should be done.
const PIECES_MAX: usize = 1_000_000;
/// Pieces after which time goes on: somebody may wait for it.
const PIECES_A_TICK: usize = 16;

/// A task.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tasks that are not at work.
pub(super) struct Crew {
    random: SeededRandom,
    state: Mutex<State>,
}

struct State {
    resting: Vec<Task>,
    left: usize,
}

impl Crew {
    pub(super) fn new(seed: u64, tasks: Vec<Task>) -> Arc<Self> {
        let state = State { left: tasks.len(), resting: tasks };
        Arc::new(Self { random: SeededRandom::new(seed), state: Mutex::new(state) })
    }

    /// Lets one that rests do its next piece, if there is one.
    pub(super) fn step(&self) {
        let mut task = {
            let mut state = self.state.lock();
            let resting = state.resting.len() as u64;
            if resting == 0 {
                return;
            }
            state.resting.swap_remove(self.random.below(resting) as usize)
        };
        // Nobody is woken: all are asked again and again.
        let done = task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let mut state = self.state.lock();
        match done {
            true => state.left -= 1,
            false => state.resting.push(task),
        }
    }

    /// Works until all are done. The error is how many are not.
    pub(super) fn run(&self, clock: &SimClock) -> Result<(), usize> {
        for piece in 1..=PIECES_MAX {
            if self.state.lock().left == 0 {
                return Ok(());
            }
            self.step();
            if piece % PIECES_A_TICK == 0 {
                clock.advance_to_next();
            }
        }
        Err(self.state.lock().left)
    }
}
