//! Single files of great size: random pages of them, beside those of small files of the same kind.

use super::Run;
use super::cost::{Clock, Cost};
use super::volume::Volume;
use crate::error::{Error, Result};
use rustix::fs::Advice;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE: u64 = 4096;
const BLOCK: u64 = 1 << 20;
const SMALL_BYTES: u64 = 64 << 20;
const SPARSE_BYTES: u64 = 1 << 40;
/// Pages that are written and read: a part of the small file's.
const PAGES: usize = 4000;
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// One file.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Which of the rows it is compared with.
    pub(crate) small: Option<usize>,
    pub(crate) write: Cost,
    pub(crate) read: Cost,
    /// The same of a file of the filesystem that the store is on.
    pub(crate) native: (Cost, Cost),
}

/// A small file of each kind first, then the large one.
pub(crate) fn measure(run: &Run<'_>, volume: &Volume<'_>) -> Result<Vec<Row>> {
    let gib = run.options.dense_gib;
    let files = [
        ("sparse, 64 MiB".to_owned(), SMALL_BYTES, false, None),
        ("sparse, 1 TiB".to_owned(), SPARSE_BYTES, false, Some(0)),
        ("dense, 64 MiB".to_owned(), SMALL_BYTES, true, None),
        (format!("dense, {gib} GiB"), gib << 30, true, Some(2)),
    ];
    let mut rows = Vec::new();
    for (name, bytes, dense, small) in files {
        eprintln!("bench: large: {name}");
        let measure = |path: &Path| -> Result<(Cost, Cost)> {
            let costs = one(run, volume, path, bytes, dense).map_err(|error| error.during(&name));
            std::fs::remove_file(path)?;
            costs
        };
        let native = measure(&volume.beside().join("large"))?;
        let (write, read) = measure(&volume.root().join("large"))?;
        rows.push(Row { name, small, write, read, native });
    }
    Ok(rows)
}

fn one(
    run: &Run<'_>,
    volume: &Volume<'_>,
    path: &Path,
    bytes: u64,
    dense: bool,
) -> Result<(Cost, Cost)> {
    volume.pin(false)?;
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    if dense {
        fill(run, &mut file, bytes)?;
    } else {
        file.set_len(bytes)?;
    }
    file.sync_all()?;
    volume.settle()?;
    volume.pin(true)?;
    let places = places(bytes / PAGE);
    let mut clock = Clock::default();
    for place in &places {
        let page = content(*place);
        clock.time(|| Ok(file.write_all_at(&page, place * PAGE)?))?;
    }
    let write = clock.cost();
    file.sync_all()?;
    drop(file);
    volume.settle()?;
    // The first time depends on what the machine below this one has cached: the second one counts.
    read_cold(run, path, &places)?;
    let read = read_cold(run, path, &places)?;
    Ok((write, read))
}

fn read_cold(run: &Run<'_>, path: &Path, places: &[u64]) -> Result<Cost> {
    drop_caches()?;
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, Advice::Random)?;
    let mut clock = Clock::default();
    let mut page = [0; PAGE as usize];
    // In another order than they were written in.
    for place in places.iter().rev() {
        run.stop.check()?;
        clock.time(|| Ok(file.read_exact_at(&mut page, place * PAGE)?))?;
        if page != content(*place) {
            return Err(Error::new(format!("wrong bytes were read at page {place}")));
        }
    }
    Ok(clock.cost())
}

fn fill(run: &Run<'_>, file: &mut File, bytes: u64) -> Result<()> {
    // Nothing that compresses.
    let mut draw = Draw(1);
    let mut block: Vec<u8> = (0..BLOCK / 8).flat_map(|_| draw.next().to_le_bytes()).collect();
    for number in 0..bytes / BLOCK {
        run.stop.check()?;
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&block)?;
        if number > 0 && number % (4 << 10) == 0 {
            eprintln!("bench: large: {} GiB written", number >> 10);
        }
    }
    Ok(())
}

fn content(place: u64) -> [u8; PAGE as usize] {
    let mut draw = Draw(place + 1);
    let mut page = [0; PAGE as usize];
    for word in page.chunks_exact_mut(8) {
        word.copy_from_slice(&draw.next().to_le_bytes());
    }
    page
}

/// Different pages of a file, in no order.
fn places(pages: u64) -> Vec<u64> {
    let mut draw = Draw(7);
    let mut seen = BTreeSet::new();
    let mut places = Vec::new();
    while places.len() < PAGES {
        let place = ((u128::from(draw.next()) * u128::from(pages)) >> 64) as u64;
        if seen.insert(place) {
            places.push(place);
        }
    }
    places
}

/// Cheap numbers that are the same in each run.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 ^ (self.0 >> 29)).wrapping_mul(0xff51_afd7_ed55_8ccd)
    }
}

fn drop_caches() -> Result<()> {
    rustix::fs::sync();
    let dropped = std::fs::write(DROP_CACHES, "3\n");
    dropped.map_err(|error| Error::new(format!("{DROP_CACHES}: {error}")))
}
