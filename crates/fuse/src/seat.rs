//! A place at which one thread at a time hears the kernel. A thread that has to wait hands it to another.

use crate::channel::Channel;
use base::sync::Mutex;
use std::sync::{Condvar, PoisonError};

/// The most threads that share a seat. When all but one wait, the last keeps it while it waits.
const THREADS_MAX: usize = 16;

/// Where requests come from, and whose turn it is to take them.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) channel: Channel,
    turns: Mutex<Turns>,
    freed: Condvar,
}

#[derive(Debug)]
struct Turns {
    vacant: bool,
    over: bool,
    /// Threads that want the seat, and all that there are.
    idle: usize,
    threads: usize,
}

/// What became of a seat that a thread wants to leave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Another thread takes it.
    ToAnother,
    /// A thread must be started, which takes it.
    ToNew,
    /// Nobody can take it: it is kept.
    Kept,
}

impl Seat {
    /// A seat for a first thread.
    pub(crate) fn new(channel: Channel) -> Self {
        let turns = Turns { vacant: true, over: false, idle: 0, threads: 1 };
        Self { channel, turns: Mutex::new(turns), freed: Condvar::new() }
    }

    /// Waits for the seat. False when nothing is to be heard there any more.
    pub(crate) fn take(&self) -> bool {
        let mut turns = self.turns.lock();
        turns.idle += 1;
        while !turns.vacant && !turns.over {
            turns = self.freed.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        turns.idle -= 1;
        turns.vacant = false;
        !turns.over
    }

    /// Offers the seat that this thread has to another.
    pub(crate) fn leave(&self) -> Left {
        let mut turns = self.turns.lock();
        if turns.idle > 0 {
            turns.vacant = true;
            drop(turns);
            self.freed.notify_one();
            Left::ToAnother
        } else if turns.threads < THREADS_MAX {
            turns.threads += 1;
            turns.vacant = true;
            Left::ToNew
        } else {
            Left::Kept
        }
    }

    /// The new thread could not be started. Whether the seat is this thread's again.
    pub(crate) fn stay(&self) -> bool {
        let mut turns = self.turns.lock();
        turns.threads -= 1;
        std::mem::take(&mut turns.vacant)
    }

    /// Nothing is to be heard there any more.
    pub(crate) fn end(&self) {
        self.turns.lock().over = true;
        self.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use std::sync::Arc;

    #[test]
    fn a_seat_goes_to_who_wants_it_or_to_a_new_thread_and_not_to_more() {
        let Ok(device) = Device::open() else {
            return;
        };
        let seat = Seat::new(Channel::Device(Arc::new(device)));
        assert!(seat.take());
        // Nobody is there.
        assert_eq!(seat.leave(), Left::ToNew);
        assert!(seat.stay(), "no thread was started: it is ours again");
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| seat.take());
            while seat.turns.lock().idle == 0 {
                std::thread::yield_now();
            }
            assert_eq!(seat.leave(), Left::ToAnother);
            assert!(taken.join().unwrap_or(false));
        });
        for _ in 1..THREADS_MAX {
            assert_eq!(seat.leave(), Left::ToNew);
            assert!(seat.take());
        }
        assert_eq!(seat.leave(), Left::Kept);
        seat.end();
        assert!(!seat.take());
    }
}
