//! What was last read of directories, by all handles of a session: so that a cookie says where to go on also
//! when its name is gone, and whoever it was given to.
//!
//! Bounded: the directories that were used least recently are forgotten first, then what was read longest ago
//! of the one in use. What an open directory reads from it keeps itself.

use crate::op::readdir::Piece;
use crate::types::Ino;
use base::sync::Mutex;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The most memory that it takes.
const BYTES_MAX: usize = 8 << 20;
/// What a directory takes besides its pieces.
const DIR_BYTES: usize = 256;

/// The pieces of listings that were read last.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Counts whatever happens here.
    now: u64,
    dirs: BTreeMap<Ino, Dir>,
    /// Directories by when they were last used.
    by_use: BTreeMap<u64, Ino>,
    bytes: usize,
    /// The last listing of a directory that was forgotten since began then or before.
    forgotten: u64,
}

#[derive(Debug, Default)]
struct Dir {
    /// When a listing last began.
    begun: u64,
    used: u64,
    /// The newest last.
    pieces: VecDeque<Arc<Piece>>,
}

impl Places {
    /// A listing of a directory begins. Returns when.
    pub(crate) fn begin(&self, ino: Ino) -> u64 {
        let mut state = self.0.lock();
        let now = state.used(ino);
        if let Some(dir) = state.dirs.get_mut(&ino) {
            dir.begun = now;
        }
        now
    }

    /// What time it is.
    pub(crate) fn now(&self) -> u64 {
        self.0.lock().now
    }

    /// Whether somebody has begun to list a directory after this piece of it was read.
    pub(crate) fn begun_since(&self, ino: Ino, piece: &Piece) -> bool {
        let state = self.0.lock();
        let begun = state.dirs.get(&ino).map_or(state.forgotten, |dir| dir.begun);
        begun > piece.begun
    }

    /// Keeps a piece that was read.
    pub(crate) fn keep(&self, ino: Ino, piece: &Arc<Piece>) {
        let mut state = self.0.lock();
        state.used(ino);
        let Some(dir) = state.dirs.get_mut(&ino) else {
            return;
        };
        // The same names need not be known twice, however often they are listed.
        let same = dir.pieces.iter().position(|old| old.has_names_of(piece));
        let old = same.and_then(|at| dir.pieces.remove(at));
        dir.pieces.push_back(Arc::clone(piece));
        state.bytes += piece.bytes();
        state.bytes -= old.map_or(0, |old| old.bytes());
        state.make_room(ino);
    }

    /// The name that a cookie of a directory stands for, if it was read lately.
    pub(crate) fn find(&self, ino: Ino, cookie: u64) -> Option<Bytes> {
        let mut state = self.0.lock();
        let pieces = &state.dirs.get(&ino)?.pieces;
        let name = pieces.iter().rev().find_map(|piece| piece.name_of(cookie))?;
        state.used(ino);
        Some(name)
    }
}

impl State {
    /// Notes that a directory is used now.
    fn used(&mut self, ino: Ino) -> u64 {
        self.now += 1;
        let forgotten = self.forgotten;
        let dir = self.dirs.entry(ino).or_insert_with(|| {
            self.bytes += DIR_BYTES;
            Dir { begun: forgotten, ..Dir::default() }
        });
        self.by_use.remove(&dir.used);
        dir.used = self.now;
        self.by_use.insert(self.now, ino);
        self.now
    }

    /// Forgets what is used least, and of the directory that is used now the oldest pieces.
    fn make_room(&mut self, using: Ino) {
        while self.bytes > BYTES_MAX {
            let Some((&used, &ino)) = self.by_use.first_key_value() else {
                return;
            };
            if ino != using {
                self.by_use.remove(&used);
                if let Some(dir) = self.dirs.remove(&ino) {
                    let pieces: usize = dir.pieces.iter().map(|piece| piece.bytes()).sum();
                    self.bytes -= pieces + DIR_BYTES;
                    self.forgotten = self.forgotten.max(dir.begun);
                }
                continue;
            }
            let oldest = self.dirs.get_mut(&ino).and_then(|dir| dir.pieces.pop_front());
            let Some(oldest) = oldest else {
                return;
            };
            self.bytes -= oldest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::FileType;

    fn piece(begun: u64, cookies: std::ops::Range<u64>, name: usize) -> Arc<Piece> {
        let mut piece = Piece::new(1, begun);
        let count = (cookies.end - cookies.start) as usize;
        let cookies: Vec<u64> = cookies.collect();
        let names = cookies.into_iter().enumerate();
        let names = names.map(|(at, it)| (at * name..(at + 1) * name, 1, FileType::File, it));
        piece.add(Bytes::from(vec![b'x'; count * name]), names);
        Arc::new(piece)
    }

    #[test]
    fn what_is_kept_has_a_bound_and_the_least_used_goes_first() {
        let places = Places::default();
        for ino in 0..100_u64 {
            let begun = places.begin(ino);
            for part in 0..4_u64 {
                let from = 10 + part * 10_000;
                places.keep(ino, &piece(begun, from..from + 5000, 20));
            }
            // One is used all the time.
            assert!(places.find(0, 10).is_some());
            assert!(places.find(ino, 10).is_some() && places.find(ino, 34_000).is_some());
            assert!(places.0.lock().bytes <= BYTES_MAX);
        }
        assert!(places.find(1, 10).is_none());
        assert!(places.find(98, 10).is_some());
        // More of one directory than there is room for: what was read last is known.
        for part in 0..100_u64 {
            let from = 10 + part * 10_000;
            places.keep(7, &piece(0, from..from + 10_000, 100));
            assert!(places.find(7, from).is_some());
            assert!(places.0.lock().bytes <= BYTES_MAX);
        }
        assert!(places.find(7, 10).is_none() && places.find(0, 10).is_none());
        let state = places.0.lock();
        let bytes = |dir: &Dir| dir.pieces.iter().map(|it| it.bytes()).sum::<usize>() + DIR_BYTES;
        assert_eq!(state.bytes, state.dirs.values().map(bytes).sum::<usize>());
        assert_eq!(state.by_use.len(), state.dirs.len());
    }

    #[test]
    fn the_same_names_are_kept_once() {
        let places = Places::default();
        for _ in 0..1000 {
            places.keep(1, &piece(0, 10..1000, 10));
        }
        assert_eq!(places.0.lock().dirs.get(&1).map(|dir| dir.pieces.len()), Some(1));
    }

    #[test]
    fn a_listing_that_has_begun_counts_although_it_is_forgotten() {
        let places = Places::default();
        let old = piece(places.begin(1), 10..20, 10);
        assert!(!places.begun_since(1, &old));
        places.begin(2);
        assert!(!places.begun_since(1, &old));
        places.begin(1);
        assert!(places.begun_since(1, &old));
        let new = piece(places.now(), 10..20, 10);
        for ino in 3..100 {
            places.keep(ino, &piece(places.begin(ino), 10..10_010, 100));
        }
        assert!(!places.0.lock().dirs.contains_key(&1));
        assert!(places.begun_since(1, &old));
        // Whether that was so of the others is not known any more, and then it is better to look.
        assert!(places.begun_since(1, &new));
        assert!(!places.begun_since(1, &piece(places.now(), 10..20, 10)));
    }
}
