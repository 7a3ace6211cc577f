//! What a session knows of the newest version of the store: records of directories that it has just used,
//! and that it still is what its own key says. The next request need not read them again.
//!
//! All of it is true at one version. A commit of this session right behind that version moves it on, with
//! what the commit wrote; any other one, whoever made it, leaves a gap in the versions, and then nothing
//! is known. So nobody has to be told, and it does not matter who else writes to the store.

use crate::schema::Inode;
use crate::tx::Sides;
use crate::types::Ino;
use base::sync::Mutex;
use kv::{Key, Version};

/// Directories that are known at once: those that a few programs work in.
const DIRS_MAX: usize = 16;
/// What one transaction may do to directories and still be followed.
const EFFECTS_MAX: usize = 6;

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The version at which all of it is true.
    at: Version,
    /// The volume's epoch, and that the session's key is there.
    epoch: Option<u64>,
    dirs: Vec<Dir>,
    /// The one that makes room next.
    oldest: usize,
    /// An entry that is not there: whoever is about to make a name has looked for it just before.
    missing: Option<Key>,
}

#[derive(Debug)]
struct Dir {
    ino: Ino,
    inode: Inode,
    sides: Option<Sides>,
}

impl State {
    /// Whether something read at `at` can be noted, after what is older was forgotten.
    fn reaches(&mut self, at: Version) -> bool {
        if self.at < at {
            self.forget();
            self.at = at;
        }
        self.at == at
    }

    fn forget(&mut self) {
        self.epoch = None;
        self.missing = None;
        self.dirs.clear();
    }

    fn dir(&self, at: Version, ino: Ino) -> Option<&Dir> {
        if self.at != at {
            return None;
        }
        self.dirs.iter().find(|dir| dir.ino == ino)
    }
}

impl Known {
    /// The epoch, when it is known that the session may write at this version.
    pub(crate) fn epoch(&self, at: Version) -> Option<u64> {
        let state = self.0.lock();
        state.epoch.filter(|_| state.at == at)
    }

    /// A directory's record.
    pub(crate) fn dir(&self, at: Version, ino: Ino) -> Option<Inode> {
        self.0.lock().dir(at, ino).map(|dir| dir.inode.clone())
    }

    /// What is kept beside a directory's record.
    pub(crate) fn sides(&self, at: Version, ino: Ino) -> Option<Sides> {
        self.0.lock().dir(at, ino)?.sides
    }

    /// Both, for `tell`, which must not call back.
    pub(crate) fn whole<T>(
        &self,
        at: Version,
        ino: Ino,
        tell: impl FnOnce(&Inode, Sides) -> T,
    ) -> Option<T> {
        let state = self.0.lock();
        let dir = state.dir(at, ino)?;
        Some(tell(&dir.inode, dir.sides?))
    }

    /// Notes a directory's record that was read at this version.
    pub(crate) fn learn_dir(&self, at: Version, ino: Ino, inode: &Inode) {
        let mut state = self.0.lock();
        if !state.reaches(at) || state.dir(at, ino).is_some() {
            return;
        }
        let dir = Dir { ino, inode: inode.clone(), sides: None };
        if state.dirs.len() < DIRS_MAX {
            return state.dirs.push(dir);
        }
        let oldest = state.oldest;
        state.oldest = (oldest + 1) % DIRS_MAX;
        if let Some(place) = state.dirs.get_mut(oldest) {
            *place = dir;
        }
    }

    /// Notes that there is no such entry at this version.
    pub(crate) fn learn_missing(&self, at: Version, entry: Key) {
        let mut state = self.0.lock();
        if state.reaches(at) {
            state.missing = Some(entry);
        }
    }

    /// Whether it is known that there is no such entry.
    pub(crate) fn is_missing(&self, at: Version, entry: &Key) -> bool {
        let state = self.0.lock();
        state.at == at && state.missing.as_ref() == Some(entry)
    }

    /// Whether this is a directory, when that is known.
    pub(crate) fn is_dir(&self, at: Version, ino: Ino) -> bool {
        self.0.lock().dir(at, ino).is_some()
    }

    /// Notes what was read beside a directory's record at this version.
    pub(crate) fn learn_sides(&self, at: Version, ino: Ino, sides: Sides) {
        let mut state = self.0.lock();
        if state.at == at
            && let Some(dir) = state.dirs.iter_mut().find(|dir| dir.ino == ino)
        {
            dir.sides = Some(sides);
        }
    }

    /// The session committed at this version, in an epoch that it has read, with these effects. `now` is
    /// the time in nanoseconds that they have.
    pub(crate) fn committed(&self, version: Version, epoch: u64, now: u64, effects: &Effects) {
        let mut state = self.0.lock();
        if state.at > version {
            return;
        }
        // What was read at this very version has the effects in it already.
        if state.at < version {
            if state.at + 1 == version {
                effects.apply(&mut state.dirs, now);
            } else {
                state.forget();
            }
            state.missing = None;
            state.at = version;
        }
        state.epoch = (!effects.more && !effects.fence).then_some(epoch);
    }
}

/// What a transaction does to directories.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    list: [(Ino, Effect); EFFECTS_MAX],
    len: usize,
    /// More than is listed.
    more: bool,
    /// It changes what every change reads.
    fence: bool,
}

#[derive(Debug, Clone, Copy, Default)]
enum Effect {
    /// It is not what it was.
    #[default]
    Changed,
    /// Its names changed.
    Touched,
    /// So many more directories are in it.
    Subdirs(i32),
}

impl Effects {
    fn push(&mut self, ino: Ino, effect: Effect) {
        match self.list.get_mut(self.len) {
            Some(place) => {
                *place = (ino, effect);
                self.len += 1;
            }
            None => self.more = true,
        }
    }

    pub(crate) fn changed(&mut self, ino: Ino) {
        // What is removed with an inode lies under several keys.
        let last = self.len.checked_sub(1).and_then(|last| self.list.get(last));
        if !matches!(last, Some((of, Effect::Changed)) if *of == ino) {
            self.push(ino, Effect::Changed);
        }
    }

    pub(crate) fn touched(&mut self, ino: Ino) {
        self.push(ino, Effect::Touched);
    }

    pub(crate) fn subdirs(&mut self, ino: Ino, by: i64) {
        match i32::try_from(by) {
            Ok(by) => self.push(ino, Effect::Subdirs(by)),
            Err(_) => self.changed(ino),
        }
    }

    /// It changes what every change reads.
    pub(crate) fn fence(&mut self) {
        self.fence = true;
    }

    /// Nobody can say to which inodes.
    pub(crate) fn anything(&mut self) {
        self.more = true;
    }

    /// Whether there may be one of this inode.
    pub(crate) fn may_have(&self, ino: Ino) -> bool {
        self.more || self.list.iter().take(self.len).any(|(of, _)| *of == ino)
    }

    fn apply(&self, dirs: &mut Vec<Dir>, now: u64) {
        if self.more {
            return dirs.clear();
        }
        for (ino, effect) in self.list.iter().take(self.len) {
            let Some(at) = dirs.iter().position(|dir| dir.ino == *ino) else {
                continue;
            };
            let sides = dirs.get_mut(at).and_then(|dir| dir.sides.as_mut());
            match (effect, sides) {
                (Effect::Changed, _) => drop(dirs.swap_remove(at)),
                (_, None) => {}
                (Effect::Touched, Some(sides)) => sides.changed = sides.changed.max(now),
                (Effect::Subdirs(by), Some(sides)) => {
                    sides.subdirs = sides.subdirs.wrapping_add_signed((*by).into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Time, mode};

    fn dir(ino: Ino) -> Inode {
        Inode::new(ino, mode::DIRECTORY | 0o755, 0, 0, Time::default())
    }

    fn known_at(at: Version) -> Known {
        let known = Known::default();
        known.learn_dir(at, 7, &dir(7));
        known.learn_sides(at, 7, Sides { changed: 5, subdirs: 1, blocks: 0 });
        known
    }

    #[test]
    fn a_commit_right_behind_moves_on_what_is_known() {
        let known = known_at(10);
        let mut effects = Effects::default();
        effects.touched(7);
        effects.subdirs(7, 1);
        known.committed(11, 3, 9, &effects);
        assert_eq!(known.dir(10, 7), None);
        assert_eq!(known.dir(11, 7), Some(dir(7)));
        assert_eq!(known.sides(11, 7), Some(Sides { changed: 9, subdirs: 2, blocks: 0 }));
        assert_eq!(known.epoch(11), Some(3));
        effects.changed(7);
        known.committed(12, 3, 9, &effects);
        assert_eq!(known.dir(12, 7), None);
        assert_eq!(known.epoch(12), Some(3));
        effects.fence();
        known.committed(13, 3, 9, &effects);
        assert_eq!(known.epoch(13), None);
    }

    #[test]
    fn nothing_is_known_behind_the_commit_of_another() {
        let known = known_at(10);
        known.committed(12, 3, 9, &Effects::default());
        assert_eq!(known.dir(12, 7), None);
        assert_eq!(known.epoch(12), Some(3));
        // One that was told late changes nothing.
        known.committed(11, 2, 9, &Effects::default());
        assert_eq!(known.epoch(12), Some(3));
        // Nor does what was read long ago.
        known.learn_dir(11, 7, &dir(7));
        assert_eq!(known.dir(12, 7), None);
        assert_eq!(known.dir(11, 7), None);
    }

    #[test]
    fn what_was_read_behind_a_commit_has_its_effects_already() {
        let known = known_at(10);
        let mut effects = Effects::default();
        effects.subdirs(7, 1);
        effects.changed(7);
        known.committed(10, 3, 9, &effects);
        assert_eq!(known.sides(10, 7), Some(Sides { changed: 5, subdirs: 1, blocks: 0 }));
    }

    #[test]
    fn more_effects_than_can_be_followed_make_all_unknown() {
        let known = known_at(10);
        let mut effects = Effects::default();
        for ino in 0..=EFFECTS_MAX as u64 {
            effects.changed(100 + ino);
        }
        assert!(effects.may_have(7));
        known.committed(11, 3, 9, &effects);
        assert_eq!(known.dir(11, 7), None);
    }

    #[test]
    fn it_has_a_bound() {
        let known = Known::default();
        for ino in 0..10 * DIRS_MAX as u64 {
            known.learn_dir(1, ino, &dir(ino));
        }
        assert_eq!(known.0.lock().dirs.len(), DIRS_MAX);
    }
}
