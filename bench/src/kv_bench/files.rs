//! Which files a store holds: what the next create makes, what a lookup may ask for, and what an
//! unlink may take.

use super::records::{DIRECTORY_FILES, File};
use base::Random;
use base::sync::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Directories are dealt to this many hands. One is where the main process renames, so that a later
/// process, which does not know the new names, can leave it out.
const HANDS: u64 = 4;
const RENAMED_HAND: u64 = HANDS - 1;

/// The fewest directories with which every thread has one of its own to rename in.
pub(crate) const DIRECTORIES_MIN: u64 = HANDS * 4;

/// The files of one store.
#[derive(Debug)]
pub(crate) struct Files {
    /// Directories 0 up to this one are full and stay.
    loaded: u64,
    /// Of each file in those, how often it was renamed.
    generations: Vec<AtomicU8>,
    /// A process that follows another does not know what that one renamed.
    follows: bool,
    next_directory: AtomicU64,
    /// Files that were created and not yet unlinked.
    created: Mutex<VecDeque<Created>>,
}

/// Files of one directory.
#[derive(Debug, Clone)]
pub(crate) struct Created {
    pub(crate) directory: u64,
    pub(crate) files: Range<u64>,
}

impl Files {
    /// A store with `loaded` directories, in which this process is the first to rename.
    pub(crate) fn new(loaded: u64) -> Self {
        let mut generations = Vec::new();
        generations.resize_with((loaded * DIRECTORY_FILES) as usize, AtomicU8::default);
        Self {
            loaded,
            generations,
            follows: false,
            next_directory: AtomicU64::new(loaded),
            created: Mutex::default(),
        }
    }

    /// The same after another process used it, which did not touch directories from
    /// `next_directory` on.
    pub(crate) fn following(loaded: u64, next_directory: u64) -> Self {
        let mut files = Self::new(loaded);
        files.follows = true;
        files.next_directory = AtomicU64::new(next_directory);
        files
    }

    /// A directory that was never used.
    pub(crate) fn new_directory(&self) -> u64 {
        self.next_directory.fetch_add(1, Ordering::Relaxed)
    }

    /// The first directory that was never used.
    pub(crate) fn next_directory(&self) -> u64 {
        self.next_directory.load(Ordering::Relaxed)
    }

    /// A full directory.
    pub(crate) fn any_directory(&self, random: &impl Random) -> u64 {
        if !self.follows {
            return random.below(self.loaded);
        }
        let directory = random.below(self.loaded / HANDS * (HANDS - 1));
        directory / (HANDS - 1) * HANDS + directory % (HANDS - 1)
    }

    /// A file that is there.
    pub(crate) fn any_file(&self, random: &impl Random) -> File {
        let directory = self.any_directory(random);
        self.file(directory, random.below(DIRECTORY_FILES))
    }

    /// A file to rename, which no other of `threads` threads gets.
    pub(crate) fn any_to_rename(&self, random: &impl Random, thread: u64, threads: u64) -> File {
        let hand = if self.follows { 0 } else { RENAMED_HAND };
        let rounds = self.loaded / HANDS / threads;
        let round = random.below(rounds) * threads + thread;
        self.file(round * HANDS + hand, random.below(DIRECTORY_FILES))
    }

    fn file(&self, directory: u64, index: u64) -> File {
        let generation = self.generation(directory, index).load(Ordering::Relaxed);
        File { generation, ..File::new(directory, index) }
    }

    /// Takes note of the new name of a file.
    pub(crate) fn note_renamed(&self, file: File) {
        self.generation(file.directory, file.index).store(file.generation, Ordering::Relaxed);
    }

    fn generation(&self, directory: u64, index: u64) -> &AtomicU8 {
        &self.generations[(directory * DIRECTORY_FILES + index) as usize]
    }

    /// Files that may be unlinked.
    pub(crate) fn note_created(&self, created: Created) {
        if !created.files.is_empty() {
            self.created.lock().push_back(created);
        }
    }

    /// The files of one directory, now the caller's to unlink; what it leaves it gives back.
    pub(crate) fn take_created(&self) -> Option<Created> {
        self.created.lock().pop_front()
    }

    /// From here on all that was created stays.
    pub(crate) fn keep_created(&self) {
        self.created.lock().clear();
    }

    /// How many files may be unlinked.
    pub(crate) fn created_count(&self) -> u64 {
        let created = self.created.lock();
        created.iter().map(|of| of.files.end - of.files.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeededRandom;
    use std::collections::BTreeSet;

    const LOADED: u64 = 50;

    #[test]
    fn threads_rename_in_directories_of_their_own() {
        let (files, random) = (Files::new(LOADED), SeededRandom::new(1));
        let of = |thread| -> BTreeSet<u64> {
            (0..1000).map(|_| files.any_to_rename(&random, thread, 4).directory).collect()
        };
        let all: Vec<BTreeSet<u64>> = (0..4).map(of).collect();
        for (thread, own) in all.iter().enumerate() {
            assert!(own.iter().all(|&directory| directory < LOADED));
            assert!(all[thread + 1..].iter().all(|other| own.is_disjoint(other)));
        }
    }

    #[test]
    fn a_process_that_follows_does_not_ask_for_what_another_renamed() {
        let random = SeededRandom::new(1);
        let (first, second) = (Files::new(LOADED), Files::following(LOADED, LOADED));
        let renamed: BTreeSet<u64> =
            (0..1000).map(|_| first.any_to_rename(&random, 0, 1).directory).collect();
        let asked: BTreeSet<u64> = (0..1000).map(|_| second.any_directory(&random)).collect();
        assert!(!renamed.is_empty() && renamed.is_disjoint(&asked));
        assert!(asked.iter().all(|&directory| directory < LOADED));
    }

    #[test]
    fn a_renamed_file_is_found_under_its_new_name() {
        let files = Files::new(LOADED);
        let file = files.file(7, 12);
        files.note_renamed(file.renamed());
        assert_eq!(files.file(7, 12), file.renamed());
        assert_ne!(file.dirent_key(), file.renamed().dirent_key());
    }
}
