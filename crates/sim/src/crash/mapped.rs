//! A writer through shared mappings: what msync has returned for must be there; of the bytes that were
//! under way each page is old or new.

use super::{Journal, PAGE, Round};
use crate::real::{Mapper, fill};
use base::{Random, SeededRandom};
use std::path::{Path, PathBuf};

const HOME: &str = "mapped";
const FILES: usize = 3;
const FILE_BYTES: usize = 150_001;
const WRITE_BYTES: u64 = 30_000;

/// A write through a mapping.
#[derive(Debug, Clone, Copy)]
struct Poke {
    file: usize,
    at: usize,
    len: usize,
    seed: u64,
}

/// The writer and what it has made.
#[derive(Debug)]
pub(super) struct Mapped {
    files: Vec<Vec<u8>>,
    random: SeededRandom,
    journal: Journal,
    under_way: Option<Poke>,
}

impl Mapped {
    /// Makes its files.
    pub(super) fn new(mountpoint: &Path, seed: u64, journal: Journal) -> Result<Self, String> {
        let failed = |error| format!("cannot make the files to be mapped: {error}");
        std::fs::create_dir(mountpoint.join(HOME)).map_err(failed)?;
        let files: Vec<Vec<u8>> = (0..FILES).map(|file| fill(file as u64, FILE_BYTES)).collect();
        for (number, bytes) in files.iter().enumerate() {
            std::fs::write(path(mountpoint, number), bytes).map_err(failed)?;
        }
        Ok(Self { files, random: SeededRandom::new(seed), journal, under_way: None })
    }

    /// Writes until the daemon is gone.
    pub(super) fn work(&mut self, mountpoint: &Path, round: &Round) -> Result<(), String> {
        let mut mapper = Mapper::start()?;
        while round.goes_on() {
            let random = &self.random;
            let len = 1 + random.below(WRITE_BYTES) as usize;
            let at = random.below((FILE_BYTES - len) as u64) as usize;
            let file = random.below(FILES as u64) as usize;
            let poke = Poke { file, at, len, seed: random.next_u64() };
            let done = mapper.write(&path(mountpoint, poke.file), at, len, poke.seed);
            if let Err(error) = done {
                self.under_way = Some(poke);
                return round.gone(&error, &format!("{poke:?}"));
            }
            self.journal.note(round.number, &poke)?;
            self.files[poke.file][at..at + len].copy_from_slice(&fill(poke.seed, len));
            round.acknowledge();
        }
        Ok(())
    }

    /// Checks that everything acknowledged is there.
    pub(super) fn verify(&mut self, mountpoint: &Path) -> Result<(), String> {
        let under_way = self.under_way.take();
        for (number, wanted) in self.files.iter_mut().enumerate() {
            let found = std::fs::read(path(mountpoint, number))
                .map_err(|error| format!("mapped file {number}: {error}"))?;
            let mut new = wanted.clone();
            if let Some(poke) = under_way.filter(|poke| poke.file == number) {
                new[poke.at..poke.at + poke.len].copy_from_slice(&fill(poke.seed, poke.len));
            }
            if found.len() != wanted.len() {
                return Err(format!("mapped file {number} has {} bytes", found.len()));
            }
            let pages = found.chunks(PAGE).zip(wanted.chunks(PAGE).zip(new.chunks(PAGE)));
            for (page, (found, (old, new))) in pages.enumerate() {
                if found != old && found != new {
                    return Err(format!("mapped file {number}: page {page} has other bytes"));
                }
            }
            *wanted = found;
        }
        Ok(())
    }
}

fn path(mountpoint: &Path, number: usize) -> PathBuf {
    mountpoint.join(format!("{HOME}/{number}"))
}
