//! An exerciser of our own for what fsx has not: zeroed ranges, allocations beyond the end, and one
//! file reached with O_DIRECT and through the page cache in turn. Each step is checked against a
//! copy in memory.
//!
//! `PROOF_EXERCISE_SEEDS` and `PROOF_EXERCISE_OPERATIONS` change how much is done;
//! `PROOF_EXERCISE_SEED` replays one.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{
    FallocateFlags, Mode, OFlags, SeekFrom, copy_file_range, fallocate, ftruncate, open, seek,
};

use crate::draw::Draw;
use crate::ground::Ground;
use crate::tool::number;

/// More than the largest unit in which a filesystem might keep a file.
const FILE_BYTES_MAX: u64 = 9 << 20;
const STEP_BYTES_MAX: u64 = 96 << 10;
/// What O_DIRECT asks of offsets, lengths and memory.
const ALIGNED: u64 = 4096;

/// Bytes at an aligned address, which O_DIRECT wants.
struct Aligned {
    room: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize) -> Self {
        let room = vec![0; length + ALIGNED as usize];
        let start = room.as_ptr().align_offset(ALIGNED as usize);
        Self { room, start, length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.start + self.length]
    }
}

/// A file, and what it must hold.
struct Subject {
    cached: File,
    direct: File,
    holds: Vec<u8>,
}

impl Subject {
    fn new(path: &Path) -> Self {
        let mode = Mode::from_raw_mode(0o644);
        let cached = File::from(open(path, OFlags::RDWR | OFlags::CREATE, mode).unwrap());
        let direct = File::from(open(path, OFlags::RDWR | OFlags::DIRECT, mode).unwrap());
        Self { cached, direct, holds: Vec::new() }
    }

    fn size(&self) -> u64 {
        self.holds.len() as u64
    }

    fn grow(&mut self, end: u64) {
        if self.size() < end {
            self.holds.resize(end as usize, 0);
        }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.grow(at + bytes.len() as u64);
        self.holds[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    /// One step, and its name for the trace.
    fn step(&mut self, draw: &mut Draw) -> String {
        let (mut at, mut length) =
            (draw.below(FILE_BYTES_MAX - STEP_BYTES_MAX), 1 + draw.below(STEP_BYTES_MAX));
        let is_direct = draw.below(2) == 0;
        if is_direct {
            (at, length) = (at / ALIGNED * ALIGNED, length.div_ceil(ALIGNED) * ALIGNED);
        }
        let what = draw.below(12);
        let name =
            format!("step {what} at {at} length {length} direct {is_direct} size {}", self.size());
        match what {
            0..3 if is_direct => {
                let bytes = draw.bytes(length as usize);
                let mut room = Aligned::new(bytes.len());
                room.bytes().copy_from_slice(&bytes);
                self.direct.write_all_at(room.bytes(), at).unwrap();
                self.put(at, &bytes);
            }
            0..3 => {
                let bytes = draw.bytes(length as usize);
                self.cached.write_all_at(&bytes, at).unwrap();
                self.put(at, &bytes);
            }
            3..6 => {
                let mut room = Aligned::new(length as usize);
                let file = if is_direct { &self.direct } else { &self.cached };
                let count = file.read_at(room.bytes(), at).unwrap();
                let end = self.size().min(at + length);
                let want = &self.holds[(at as usize).min(end as usize)..end as usize];
                same(&name, &room.bytes()[..count], want, at);
            }
            6 => {
                let size = if is_direct { at } else { at + length };
                ftruncate(&self.cached, size).unwrap();
                self.holds.resize(size as usize, 0);
            }
            7 => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&self.cached, flags, at, length).unwrap();
                self.zero(at, length);
            }
            8 => {
                fallocate(&self.cached, FallocateFlags::ZERO_RANGE, at, length).unwrap();
                self.grow(at + length);
                self.zero(at, length);
            }
            9 => {
                let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                fallocate(&self.cached, flags, at, length).unwrap();
                self.zero(at, length);
            }
            10 => {
                let keeps = draw.below(2) == 0;
                let flags = if keeps { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
                fallocate(&self.cached, flags, at, length).unwrap();
                if !keeps {
                    self.grow(at + length);
                }
            }
            _ => self.copy(draw, at, length),
        }
        name
    }

    fn zero(&mut self, at: u64, length: u64) {
        let end = self.size().min(at + length);
        self.holds[(at as usize).min(end as usize)..end as usize].fill(0);
    }

    /// Copies a range within the file to a place where it does not overlap itself.
    fn copy(&mut self, draw: &mut Draw, from: u64, length: u64) {
        let length = length.min(self.size().saturating_sub(from));
        let to = draw.below(FILE_BYTES_MAX - STEP_BYTES_MAX);
        if length == 0 || from.abs_diff(to) < length {
            return;
        }
        let (mut here, mut there, mut left) = (from, to, length);
        while left > 0 {
            let file = &self.cached;
            let count =
                copy_file_range(file, Some(&mut here), file, Some(&mut there), left as usize)
                    .unwrap();
            assert!(count > 0, "copy_file_range stopped before the end of the file");
            left -= count as u64;
        }
        let bytes = self.holds[from as usize..(from + length) as usize].to_vec();
        self.put(to, &bytes);
    }

    /// The whole file, by both ways; the size by both ways; holes only where zeros are.
    fn check(&self, name: &str) {
        assert_eq!(self.cached.metadata().unwrap().len(), self.size(), "{name}");
        let mut bytes = vec![0; self.holds.len()];
        self.cached.read_exact_at(&mut bytes, 0).unwrap();
        same(name, &bytes, &self.holds, 0);
        let mut room = Aligned::new(self.holds.len().next_multiple_of(ALIGNED as usize));
        let count = self.direct.read_at(room.bytes(), 0).unwrap();
        same(name, &room.bytes()[..count], &self.holds[..count], 0);
        let mut at = 0;
        while let Ok(data) = seek(&self.cached, SeekFrom::Data(at)) {
            assert!(
                self.holds[at as usize..data as usize].iter().all(|byte| *byte == 0),
                "{name}: data in a hole"
            );
            at = seek(&self.cached, SeekFrom::Hole(data)).unwrap();
        }
        assert!(
            self.holds[at as usize..].iter().all(|byte| *byte == 0),
            "{name}: data in the last hole"
        );
    }
}

fn same(name: &str, found: &[u8], want: &[u8], at: u64) {
    assert_eq!(found.len(), want.len(), "{name}: bytes read");
    if let Some(place) = found.iter().zip(want).position(|(one, other)| one != other) {
        let (one, other) = (found[place], want[place]);
        panic!("{name}: byte {} is {one} and must be {other}", at + place as u64);
    }
}

#[test]
fn direct_and_cached_access_agree() {
    let Some(ground) = Ground::new("exercise") else { return };
    let operations = number("PROOF_EXERCISE_OPERATIONS", 5_000);
    let only = number("PROOF_EXERCISE_SEED", 0);
    let seeds = if only > 0 { only..only + 1 } else { 1..1 + number("PROOF_EXERCISE_SEEDS", 20) };
    for seed in seeds {
        println!("exercise seed {seed}, {operations} operations");
        let mut draw = Draw::new(seed);
        let mut subject = Subject::new(&ground.at(format!("exercise-{seed}")));
        for operation in 0..operations {
            let name = subject.step(&mut draw);
            if operation % 250 == 249 {
                subject.check(&format!("seed {seed}, operation {operation}: {name}"));
            }
        }
    }
}
