//! What is measured at one size.

use super::Run;
use super::cost::{Clock, Cost};
use super::forest::{DIRECTORY_FILES, Forest, Shape, name, open_directory};
use super::volume::Volume;
use crate::error::{Error, Result};
use crate::scratch;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a page of a listing is, in bytes: as much as the C library asks for.
const PAGE_BYTES: usize = 32 << 10;
/// Pages that are listed of one directory.
const PAGES_MAX: u64 = 1000;
/// Numbers of the files that are made to be measured: above those of all others.
const FRESH: u64 = 1 << 40;

/// One size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) files: u64,
    pub(crate) create: Cost,
    pub(crate) lookup: Cost,
    pub(crate) page: Cost,
    pub(crate) unlink: Cost,
    pub(crate) mount: Duration,
    pub(crate) first_ls: Duration,
    /// The most that was resident when it was looked at.
    pub(crate) resident: u64,
    pub(crate) bytes_a_file: f64,
}

/// Leaves the volume as it was, mounted anew.
pub(crate) fn measure(run: &Run<'_>, volume: &mut Volume<'_>, forest: &Forest) -> Result<Step> {
    eprintln!("bench: {}: measuring at {} files", forest.shape.name(), forest.files);
    let fresh = fresh_directories(run, volume.root(), forest)?;
    volume.settle()?;
    let mut resident = volume.memory()?.resident;
    volume.pin(true)?;
    let create = create(run, &fresh)?;
    volume.settle()?;
    resident = resident.max(volume.memory()?.resident);
    let store = volume.store();
    let mut bytes = 0;
    let mount = volume.remount(|| {
        bytes = scratch::size(&store)?;
        Ok(())
    })?;
    volume.pin(true)?;
    let first_ls = first_ls(volume.root(), forest)?;
    let lookup = lookup(run, volume.root(), forest)?;
    let page = pages(run, volume.root(), forest)?;
    let unlink = unlink(run, &fresh)?;
    resident = resident.max(volume.memory()?.resident);
    volume.pin(false)?;
    if forest.shape == Shape::Spread {
        for directory in &fresh {
            std::fs::remove_dir(directory)?;
        }
    }
    let bytes_a_file = bytes as f64 / (forest.files + run.options.ops) as f64;
    Ok(Step {
        files: forest.files,
        create,
        lookup,
        page,
        unlink,
        mount,
        first_ls,
        resident,
        bytes_a_file,
    })
}

/// Where the files that are measured go: each thousand into a new directory, or all to the others.
fn fresh_directories(run: &Run<'_>, root: &Path, forest: &Forest) -> Result<Vec<PathBuf>> {
    let count = run.options.ops / DIRECTORY_FILES;
    if forest.shape == Shape::Single {
        return Ok(vec![forest.directory(root, 0); count as usize]);
    }
    (0..count)
        .map(|index| {
            let path = root.join(format!("fresh{index}"));
            std::fs::create_dir(&path)?;
            Ok(path)
        })
        .collect()
}

/// Numbers of the files of one of those directories.
fn fresh_numbers(index: usize) -> std::ops::Range<u64> {
    let start = FRESH + index as u64 * DIRECTORY_FILES;
    start..start + DIRECTORY_FILES
}

fn create(run: &Run<'_>, fresh: &[PathBuf]) -> Result<Cost> {
    let mut clock = Clock::default();
    for (index, path) in fresh.iter().enumerate() {
        run.stop.check()?;
        let directory = open_directory(path)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        for number in fresh_numbers(index) {
            let name = name(number);
            clock.time(|| {
                let mode = Mode::from_raw_mode(0o644);
                drop(rustix::fs::openat(&directory, &name, flags, mode)?);
                Ok(())
            })?;
        }
    }
    Ok(clock.cost())
}

/// Lists the root, and then what is below it as far as a person would look: a directory of a thousand, or
/// the first page of the one that has all.
fn first_ls(root: &Path, forest: &Forest) -> Result<Duration> {
    let start = Instant::now();
    let listed = std::fs::read_dir(root)?.count();
    match forest.shape {
        Shape::Spread => {
            let found = std::fs::read_dir(forest.directory(root, 0))?.count() as u64;
            if found != DIRECTORY_FILES {
                return Err(Error::new(format!("{found} of {DIRECTORY_FILES} names are listed")));
            }
        }
        Shape::Single => {
            let directory = open_directory(&forest.directory(root, 0))?;
            let mut buffer = [MaybeUninit::uninit(); PAGE_BYTES];
            RawDir::new(&directory, &mut buffer).next().transpose()?;
        }
    }
    let time = start.elapsed();
    if listed == 0 {
        return Err(Error::new("the root lists nothing"));
    }
    Ok(time)
}

/// Files all over the volume that nobody asked for since it was mounted, each once.
fn lookup(run: &Run<'_>, root: &Path, forest: &Forest) -> Result<Cost> {
    let mut clock = Clock::default();
    // Without the first, which was listed: a listing may tell the kernel of the files as well.
    let unseen = forest.bunches() - 1;
    let bunches = unseen.min(run.options.ops / 10);
    let each = (run.options.ops / bunches).min(DIRECTORY_FILES);
    for turn in 0..bunches {
        run.stop.check()?;
        // Evenly over all of them, not the oldest ones.
        let bunch = 1 + turn * unseen / bunches;
        let directory = open_directory(&forest.directory(root, bunch))?;
        for file in 0..each {
            let number = bunch * DIRECTORY_FILES + file * DIRECTORY_FILES / each;
            let name = name(number);
            clock.time(|| Ok(rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW)?))?;
        }
    }
    Ok(clock.cost())
}

/// Pages of listings that nobody asked for since it was mounted.
fn pages(run: &Run<'_>, root: &Path, forest: &Forest) -> Result<Cost> {
    let mut clock = Clock::default();
    let directories = match forest.shape {
        Shape::Single => 1,
        Shape::Spread => forest.bunches().min(PAGES_MAX),
    };
    for turn in 0..directories {
        run.stop.check()?;
        // The first directory was listed before, as the first `ls`.
        let bunch = forest.bunches() - 1 - turn * (forest.bunches() - 1) / directories;
        let directory = open_directory(&forest.directory(root, bunch))?;
        list(&directory, &mut clock)?;
    }
    Ok(clock.cost())
}

fn list(directory: &OwnedFd, clock: &mut Clock) -> Result<()> {
    let mut buffer = [MaybeUninit::uninit(); PAGE_BYTES];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut last = Clock::default();
    for _ in 0..PAGES_MAX {
        // The call is made when nothing is left of the page before.
        let more = last.time(|| Ok(entries.next().transpose()?.is_some()))?;
        if !more {
            break;
        }
        clock.absorb(&mut last);
        while !entries.is_buffer_empty() {
            entries.next().transpose()?;
        }
    }
    Ok(())
}

fn unlink(run: &Run<'_>, fresh: &[PathBuf]) -> Result<Cost> {
    let mut clock = Clock::default();
    for (index, path) in fresh.iter().enumerate() {
        run.stop.check()?;
        let directory = open_directory(path)?;
        for number in fresh_numbers(index) {
            let name = name(number);
            clock.time(|| Ok(rustix::fs::unlinkat(&directory, &name, AtFlags::empty())?))?;
        }
    }
    Ok(clock.cost())
}
