//! How a thread waits for the next request of the device: asleep; or, while one comes close upon the other, by looking
//! again and again for a moment. On another CPU than the client's it takes longer to be woken than to answer.
//!
//! Looking costs a CPU that nobody else wants: where others do, or the thread has but one, it sleeps.

use base::sync::Mutex;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest that is looked for a request.
pub(crate) const LOOK_MAX: Duration = Duration::from_micros(50);
/// What comes as soon as this came close upon the one before.
const CLOSE: Duration = Duration::from_micros(120);
/// So many in a row, and the thread looks for the next.
const ROW: u32 = 32;
/// A look that takes as long was somebody else's turn.
const CROWDED: Duration = Duration::from_micros(20);
/// Looks in vain in a row after which it sleeps again.
const VAIN_MAX: u32 = 8;
/// Others had their turn so often, by that many requests: it sleeps again.
const CROWDED_MAX: u32 = 4;
const CROWDED_OF: u32 = 64;
/// How much longer a row has to be each time that looking was a mistake, at most.
const WARIEST: u32 = 64;

/// One descriptor's.
#[derive(Debug)]
pub(crate) struct Watch {
    looks: AtomicBool,
    state: Mutex<State>,
    /// One thread of a connection looks, at most.
    taken: Arc<AtomicBool>,
}

#[derive(Debug)]
struct State {
    /// Requests in a row that came close upon each other.
    row: u32,
    /// How often as many it takes as at first.
    wary: u32,
    vain: u32,
    crowded: u32,
    heard: u32,
}

impl Watch {
    /// For the first descriptor of a connection.
    pub(crate) fn new() -> Self {
        Self::with(Arc::default())
    }

    fn with(taken: Arc<AtomicBool>) -> Self {
        let state = State { row: 0, wary: 1, vain: 0, crowded: 0, heard: 0 };
        Self { looks: AtomicBool::new(false), state: Mutex::new(state), taken }
    }

    /// For another one of the same connection.
    pub(crate) fn beside(&self) -> Self {
        Self::with(Arc::clone(&self.taken))
    }

    /// Whether it is looked for the next request.
    pub(crate) fn looks(&self) -> bool {
        self.looks.load(Ordering::Relaxed)
    }

    /// A request came so long after the answer to the one before, most of which was sleep. True when it is looked
    /// for the next one.
    pub(crate) fn slept(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        state.row = if time < CLOSE { state.row + 1 } else { 0 };
        if state.row < ROW * state.wary {
            return false;
        }
        state.row = 0;
        let looks = has_several_cpus() && !self.taken.swap(true, Ordering::AcqRel);
        if looks {
            (state.vain, state.crowded, state.heard) = (0, 0, 0);
            self.looks.store(true, Ordering::Relaxed);
        }
        looks
    }

    /// A look for a request has ended, with one or in vain; the longest that it was not this thread's turn. False
    /// when it sleeps from here on.
    pub(crate) fn looked(&self, found: bool, away: Duration) -> bool {
        let mut state = self.state.lock();
        state.heard += 1;
        state.vain = if found { 0 } else { state.vain + 1 };
        state.crowded += u32::from(away > CROWDED);
        let crowded = state.crowded >= CROWDED_MAX;
        if state.heard >= CROWDED_OF {
            if state.crowded == 0 && state.vain == 0 {
                state.wary = (state.wary / 2).max(1);
            }
            (state.heard, state.crowded) = (0, 0);
        }
        if !crowded && state.vain < VAIN_MAX {
            return true;
        }
        if crowded {
            state.wary = (state.wary * 2).min(WARIEST);
        }
        self.looks.store(false, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
        false
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.looks() {
            self.taken.store(false, Ordering::Release);
        }
    }
}

/// Whether this thread may run on more than one CPU: on one alone, looking keeps the client from asking.
fn has_several_cpus() -> bool {
    sched_getaffinity(None).is_ok_and(|cpus: CpuSet| cpus.count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_micros(10);
    const LATE: Duration = Duration::from_millis(1);

    /// So many requests in a row until it looks.
    fn row(watch: &Watch) -> Option<u32> {
        (1..=ROW * WARIEST).find(|_| watch.slept(SOON))
    }

    #[test]
    fn it_looks_when_requests_come_close_upon_each_other_and_sleeps_when_not() {
        if !has_several_cpus() {
            return;
        }
        let watch = Watch::new();
        for _ in 0..10 * ROW {
            assert!(!watch.slept(LATE));
        }
        assert_eq!(row(&watch), Some(ROW));
        assert!(watch.looks());
        for _ in 0..1000 {
            assert!(watch.looked(true, SOON));
        }
        for _ in 1..VAIN_MAX {
            assert!(watch.looked(false, SOON));
        }
        assert!(!watch.looked(false, SOON));
        assert!(!watch.looks());
        assert_eq!(row(&watch), Some(ROW), "nobody was disturbed");
    }

    #[test]
    fn where_others_want_the_cpu_it_looks_less_and_less_often() {
        if !has_several_cpus() {
            return;
        }
        let watch = Watch::new();
        let mut longer = ROW;
        for _ in 0..20 {
            assert_eq!(row(&watch), Some(longer));
            for _ in 1..CROWDED_MAX {
                assert!(watch.looked(true, LATE));
            }
            assert!(!watch.looked(true, LATE));
            longer = (longer * 2).min(ROW * WARIEST);
        }
        assert_eq!(row(&watch), Some(longer));
        for _ in 0..10 * CROWDED_OF {
            assert!(watch.looked(true, SOON));
        }
        for _ in 0..VAIN_MAX {
            watch.looked(false, SOON);
        }
        assert_eq!(row(&watch), Some(ROW), "they are gone");
    }

    #[test]
    fn one_thread_of_a_connection_looks_at_most() {
        if !has_several_cpus() {
            return;
        }
        let first = Watch::new();
        let second = first.beside();
        assert!(row(&first).is_some());
        assert_eq!(row(&second), None);
        drop(first);
        assert!(row(&second).is_some());
    }
}
