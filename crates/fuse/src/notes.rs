//! What the next process must know of a connection when this one dies: entries of one size in a part of a file
//! in memory, which the supervisor has too.

use base::disk::{Window, memory_window};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

/// What was found, and where.
pub(crate) type Found<const N: usize> = Vec<(usize, [u8; N])>;

/// Entries of `N` bytes. One of zeros is free.
#[derive(Debug)]
pub(crate) struct Notes<const N: usize> {
    file: Arc<File>,
    /// Where they begin in the file.
    from: u64,
    /// How many there may be.
    most: usize,
    free: Vec<usize>,
    /// Entries that were ever used.
    used: usize,
    /// The first entries in memory, where writing them takes no call.
    window: Option<Box<dyn Window>>,
}

impl<const N: usize> Notes<N> {
    /// With nothing noted yet.
    pub(crate) fn new(file: &Arc<File>, from: u64, most: usize) -> Self {
        Self { file: Arc::clone(file), from, most, free: Vec::new(), used: 0, window: None }
    }

    /// Takes the first `entries` into memory, if that can be had. Who dies while it writes one leaves a part of it: its last
    /// number is written last and taken back first, so an entry without it says nothing.
    pub(crate) fn in_memory(mut self, entries: usize) -> Self {
        self.window = memory_window(&self.file, self.from, entries.min(self.most) * N);
        self
    }

    /// With what the process before has noted, and where.
    pub(crate) fn resume(file: &Arc<File>, from: u64, most: usize) -> io::Result<(Self, Found<N>)> {
        let len = file.metadata()?.len().saturating_sub(from);
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(most.saturating_mul(N));
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, from)?;
        let mut notes = Self::new(file, from, most);
        let mut found = Vec::new();
        for (at, entry) in bytes.as_chunks::<N>().0.iter().enumerate() {
            notes.used = at + 1;
            match entry.iter().all(|byte| *byte == 0) {
                true => notes.free.push(at),
                false => found.push((at, *entry)),
            }
        }
        Ok((notes, found))
    }

    /// Room for an entry; `None` when there are as many as there may be.
    pub(crate) fn take(&mut self) -> Option<usize> {
        if let Some(at) = self.free.pop() {
            return Some(at);
        }
        if self.used == self.most {
            return None;
        }
        self.used += 1;
        Some(self.used - 1)
    }

    /// Writes an entry for which there is room.
    pub(crate) fn write(&mut self, at: usize, entry: &[u8; N]) -> io::Result<()> {
        if let Some(window) = &mut self.window
            && (at + 1) * N <= window.len()
        {
            let (start, last) = entry.split_at(N.saturating_sub(8));
            let mut parts = [(at * N, start), (at * N + start.len(), last)];
            if last.iter().all(|byte| *byte == 0) {
                parts.reverse();
            }
            for (to, bytes) in parts {
                window.write(to, bytes);
                // A process that dies is seen as it was, so what matters is the order of the instructions.
                compiler_fence(Ordering::SeqCst);
            }
            return Ok(());
        }
        self.file.write_all_at(entry, self.from + (at * N) as u64)
    }

    /// The room of an entry that says nothing is free again.
    pub(crate) fn put_back(&mut self, at: usize) {
        self.free.push(at);
    }

    /// The entry says nothing any more. Where that cannot be written its room stays taken.
    pub(crate) fn clear(&mut self, at: usize) -> io::Result<()> {
        self.write(at, &[0; N])?;
        self.put_back(at);
        Ok(())
    }
}

/// The bytes of numbers, one behind the other.
pub(crate) fn entry_of<const N: usize>(numbers: &[u64]) -> [u8; N] {
    let mut entry = [0; N];
    let bytes = numbers.iter().flat_map(|number| number.to_ne_bytes());
    for (to, from) in entry.iter_mut().zip(bytes) {
        *to = from;
    }
    entry
}

/// The number that stands `at` so many numbers in an entry.
pub(crate) fn number_in(entry: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(entry.get(8 * at..8 * at + 8).unwrap_or(&[0; 8]));
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn memory() -> Arc<File> {
        let how = rustix::fs::MemfdFlags::CLOEXEC;
        Arc::new(File::from(rustix::fs::memfd_create("notes", how).unwrap()))
    }

    #[test]
    fn the_next_one_finds_what_was_noted_and_not_taken_back() {
        let file = memory();
        let mut notes = Notes::<16>::new(&file, 4096, 4);
        let places: Vec<usize> = (0..4).map(|_| notes.take().unwrap()).collect();
        assert_eq!(notes.take(), None, "there is a bound");
        for at in &places {
            notes.write(*at, &entry_of(&[7, *at as u64])).unwrap();
        }
        notes.clear(places[1]).unwrap();
        let (mut next, found) = Notes::<16>::resume(&file, 4096, 4).unwrap();
        let numbers: Vec<_> = found
            .iter()
            .map(|(at, entry)| (*at, number_in(entry, 0), number_in(entry, 1)))
            .collect();
        assert_eq!(numbers, [(0, 7, 0), (2, 7, 2), (3, 7, 3)]);
        assert_eq!(next.take(), Some(places[1]));
        assert_eq!(next.take(), None);
    }

    #[test]
    fn what_is_noted_in_memory_is_in_the_file() {
        let file = memory();
        let mut notes = Notes::<32>::new(&file, 1 << 20, 300).in_memory(256);
        assert_eq!(notes.window.as_ref().unwrap().len(), 8192);
        for number in 1..=300 {
            let at = notes.take().unwrap();
            notes.write(at, &entry_of(&[number, 2, 3, 4])).unwrap();
        }
        for at in [0, 255, 256, 299] {
            notes.clear(at).unwrap();
        }
        drop(notes);
        let (next, found) = Notes::<32>::resume(&file, 1 << 20, 300).unwrap();
        let mut next = next.in_memory(256);
        let mut right: Vec<usize> =
            (0..300).filter(|at| ![0, 255, 256, 299].contains(at)).collect();
        for (at, entry) in &found {
            let numbers: Vec<u64> = (0..4).map(|part| number_in(entry, part)).collect();
            assert_eq!(numbers, [*at as u64 + 1, 2, 3, 4]);
        }
        assert_eq!(found.iter().map(|(at, _)| *at).collect::<Vec<_>>(), right);
        let at = next.take().unwrap();
        next.write(at, &entry_of(&[9, 9, 9, 9])).unwrap();
        right.push(at);
        right.sort_unstable();
        let (_, found) = Notes::<32>::resume(&file, 1 << 20, 300).unwrap();
        assert_eq!(found.iter().map(|(at, _)| *at).collect::<Vec<_>>(), right);
    }

    #[test]
    fn parts_do_not_touch_each_other() {
        let file = memory();
        let (mut low, mut high) = (Notes::<16>::new(&file, 0, 2), Notes::<32>::new(&file, 32, 2));
        for _ in 0..2 {
            let (one, two) = (low.take().unwrap(), high.take().unwrap());
            low.write(one, &entry_of(&[1, 1])).unwrap();
            high.write(two, &entry_of(&[2, 2, 2, 2])).unwrap();
        }
        assert_eq!(Notes::<16>::resume(&file, 0, 2).unwrap().1.len(), 2);
        let (_, found) = Notes::<32>::resume(&file, 32, 2).unwrap();
        assert!(found.iter().all(|(_, entry)| number_in(entry, 3) == 2));
    }
}
