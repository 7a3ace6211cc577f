//! What became of the files that were made in a directory: small or large. A file that stays small is cheaper
//! without a file of the home, a large one is many times faster with one, and which it will be must be said when
//! it is made. Directories are creatures of habit.
//!
//! All of it is a guess, in memory, and wrong guesses cost time alone.

use crate::types::{Ino, ROOT};
use base::sync::Mutex;
use std::collections::BTreeMap;

/// Directories of one generation. Two are known at most.
const DIRS_MAX: usize = 2048;
/// So many small files in a row make a habit of a directory.
const OWN: u8 = 4;
/// So many make one of the directories around it.
const AROUND: u8 = 16;
/// After a large file it takes so many times as long.
const WARIER: u8 = 2;
/// The longest that it can take.
const WARIEST: u8 = 128;

/// What is known of directories.
#[derive(Debug, Default)]
pub(crate) struct Habits(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    young: BTreeMap<Ino, Habit>,
    /// Those that were not looked at since the young ones were begun.
    old: BTreeMap<Ino, Habit>,
}

/// What is known of one.
#[derive(Debug, Clone, Copy)]
struct Habit {
    /// The directory above; 0 when it is not known.
    parent: Ino,
    /// Of files that were made in it.
    own: Tally,
    /// Of those and of files that were made in the directories in it.
    around: Tally,
}

/// Small files in a row, and how many it takes.
#[derive(Debug, Clone, Copy)]
struct Tally {
    row: u8,
    takes: u8,
    large: bool,
}

impl Tally {
    fn new(takes: u8) -> Self {
        Self { row: 0, takes, large: false }
    }

    fn is_small(&self) -> bool {
        self.row >= self.takes
    }

    fn note(&mut self, small: bool) {
        if small {
            self.row = self.row.saturating_add(1);
            return;
        }
        // Who was believed to stay small costs most: it takes longer to be believed again.
        if self.is_small() || !self.large {
            self.takes = self.takes.saturating_mul(WARIER).min(WARIEST);
        }
        (self.row, self.large) = (0, true);
    }
}

impl State {
    /// What is known of a directory, which is young from here on.
    fn habit(&mut self, dir: Ino) -> &mut Habit {
        if self.young.len() >= DIRS_MAX && !self.young.contains_key(&dir) {
            self.old = std::mem::take(&mut self.young);
        }
        let old = &mut self.old;
        self.young.entry(dir).or_insert_with(|| {
            let new = Habit { parent: 0, own: Tally::new(OWN), around: Tally::new(AROUND) };
            old.remove(&dir).unwrap_or(new)
        })
    }

    fn find(&self, dir: Ino) -> Option<&Habit> {
        self.young.get(&dir).or_else(|| self.old.get(&dir))
    }
}

impl Habits {
    /// A directory is in another one.
    pub(crate) fn is_in(&self, dir: Ino, parent: Ino) {
        self.0.lock().habit(dir).parent = parent;
    }

    /// Whether a file that is made in a directory is likely to stay small. One that knows nothing of its own
    /// does as those around it do; but what is right below the root has little in common. `parent` finds the
    /// directory above, where it can and is asked.
    pub(crate) fn stays_small(&self, dir: Ino, parent: impl FnOnce() -> Option<Ino>) -> bool {
        let mut state = self.0.lock();
        let known = *state.habit(dir);
        if known.own.is_small() {
            return true;
        }
        if known.own.large {
            return false;
        }
        let above = match known.parent {
            0 => parent().unwrap_or(0),
            above => above,
        };
        if known.parent != above {
            state.habit(dir).parent = above;
        }
        above != ROOT && state.find(above).is_some_and(|above| above.around.is_small())
    }

    /// A file that was made in a directory ended up small, or not.
    pub(crate) fn note(&self, dir: Ino, small: bool) {
        let mut state = self.0.lock();
        let habit = state.habit(dir);
        habit.own.note(small);
        habit.around.note(small);
        let above = habit.parent;
        if above != 0 && above != dir {
            state.habit(above).around.note(small);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(habits: &Habits, dir: Ino) -> bool {
        habits.stays_small(dir, || None)
    }

    fn note(habits: &Habits, dir: Ino, count: u8, small: bool) {
        for _ in 0..count {
            habits.note(dir, small);
        }
    }

    #[test]
    fn a_few_small_files_make_a_habit_and_a_large_one_breaks_it_for_longer() {
        let habits = Habits::default();
        assert!(!small(&habits, 7));
        note(&habits, 7, OWN - 1, true);
        assert!(!small(&habits, 7));
        note(&habits, 7, 1, true);
        assert!(small(&habits, 7));
        let mut takes = OWN;
        for _ in 0..20 {
            note(&habits, 7, 1, false);
            takes = takes.saturating_mul(WARIER).min(WARIEST);
            note(&habits, 7, takes - 1, true);
            assert!(!small(&habits, 7));
            note(&habits, 7, 1, true);
            assert!(small(&habits, 7));
        }
        // Large ones in a row do not make it worse.
        let habits = Habits::default();
        note(&habits, 7, 100, false);
        note(&habits, 7, OWN * WARIER, true);
        assert!(small(&habits, 7));
    }

    #[test]
    fn a_new_directory_does_as_those_around_it_and_no_further() {
        let habits = Habits::default();
        for dir in [20, 21, 22] {
            habits.is_in(dir, 2);
        }
        note(&habits, 20, AROUND, true);
        assert!(small(&habits, 21));
        assert!(!small(&habits, 2), "what is made beside the directories is something else");
        habits.is_in(3, 2);
        habits.is_in(30, 3);
        assert!(!small(&habits, 30), "one level, no further");
        // Its own counts more.
        note(&habits, 21, 1, false);
        assert!(!small(&habits, 21));
        // And the others lend too, for a while.
        assert!(!small(&habits, 22));
        assert!(small(&habits, 20));
        note(&habits, 20, AROUND * WARIER, true);
        assert!(small(&habits, 22));
        assert!(!small(&habits, 21));
    }

    #[test]
    fn what_is_above_is_asked_for_once() {
        let habits = Habits::default();
        note(&habits, 2, AROUND, true);
        assert!(habits.stays_small(20, || Some(2)));
        assert!(habits.stays_small(20, || unreachable!()));
    }

    #[test]
    fn the_number_of_directories_is_bounded_and_those_in_use_stay() {
        let habits = Habits::default();
        note(&habits, 1, OWN, true);
        for dir in 10..10 + 3 * DIRS_MAX as u64 {
            assert!(!small(&habits, dir));
            assert!(small(&habits, 1), "{dir}");
        }
        let state = habits.0.lock();
        assert!(state.young.len() + state.old.len() <= 2 * DIRS_MAX);
    }
}
