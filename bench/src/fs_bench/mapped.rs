//! Reading a file through a mapping: each page once, in an order that no readahead foresees, from the
//! kernel's cache; then it is mapped anew.

// There is no safe way to map a file. Nobody else knows these files, so none changes or shrinks while it
// is mapped.
#![allow(unsafe_code)]

use super::options::Options;
use super::sides::Sides;
use crate::error::{Error, Result};
use cli::bench::{Row, Stop, Value};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) const NAME: &str = "mmap-read-4k";
const PAGE: usize = 4096;
/// A power of two, for the order.
const PAGES: usize = 16_384;
/// Odd, so that all pages come once in a round.
const STRIDE: usize = 7_919;
const SLICE: Duration = Duration::from_millis(250);
const QUICK_SLICE: Duration = Duration::from_millis(100);

/// The sides take turns, and the first one changes with each pass.
pub(crate) fn measure(sides: &Sides, options: &Options, stop: &Stop) -> Result<Row> {
    let places: Vec<&Path> = sides.places().collect();
    let slice = if options.quick { QUICK_SLICE } else { SLICE };
    let mut samples = vec![Vec::new(); places.len()];
    for pass in 0..options.passes() as usize {
        for turn in 0..places.len() {
            let side = (turn + pass) % places.len();
            stop.check()?;
            let file = Mine::write(places[side], pass)?;
            // What another side left to be written must not be paid for here.
            rustix::fs::sync();
            let rate =
                pages_a_second(&file.0, slice).map_err(|error| error.during(file.0.display()))?;
            samples[side].push(rate);
        }
    }
    Ok(Row::of(NAME, "op/s", samples.into_iter().map(Value::of).collect()))
}

/// A file that goes when it is no longer needed: a directory of the user keeps nothing of ours.
struct Mine(PathBuf);

impl Mine {
    fn write(place: &Path, pass: usize) -> Result<Self> {
        let path = place.join(format!("bench-mapped-{}-{pass}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let mine = Self(path);
        let mut page = [0x5a; PAGE];
        for number in 0..PAGES {
            page[..8].copy_from_slice(&(number as u64).to_le_bytes());
            file.write_all(&page)?;
        }
        Ok(mine)
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            eprintln!("bench: {} is left: {error}", self.0.display());
        }
    }
}

fn pages_a_second(path: &Path, slice: Duration) -> Result<f64> {
    let file = File::open(path)?;
    // Once off the clock: then all of it is in memory.
    round(&file)?;
    let start = Instant::now();
    let mut rounds = 0;
    while start.elapsed() < slice {
        round(&file)?;
        rounds += 1;
    }
    Ok((rounds * PAGES) as f64 / start.elapsed().as_secs_f64())
}

/// Maps the file and looks at the head of each page.
fn round(file: &File) -> Result<()> {
    let length = PAGES * PAGE;
    // SAFETY: a new mapping, of a file of this length that nobody else has.
    let start =
        unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
    // SAFETY: the mapping is `length` bytes long, and is unmapped below, after the last use.
    let bytes: &[u8] = unsafe { std::slice::from_raw_parts(start.cast(), length) };
    let wrong = (0..PAGES).map(|index| index.wrapping_mul(STRIDE) % PAGES).find(|page| {
        let head = &bytes[page * PAGE..page * PAGE + 8];
        head != (*page as u64).to_le_bytes()
    });
    // SAFETY: nothing refers to it any more.
    unsafe { munmap(start, length)? };
    match wrong {
        None => Ok(()),
        Some(page) => Err(Error::new(format!("wrong bytes were mapped at page {page}"))),
    }
}
