//! Many empty files: in directories of a thousand, or all in one; made by several threads.

use crate::error::{Error, Result};
use crate::table::count;
use cli::bench::Stop;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Files of a directory where they are spread, and files that a thread makes at a time.
pub(crate) const DIRECTORY_FILES: u64 = 1000;
/// Directories of a directory.
const GROUP: u64 = 1000;
const TELL_EVERY: Duration = Duration::from_secs(10);

/// How the files lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// In directories of a thousand.
    Spread,
    /// In one directory.
    Single,
}

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Single => "single",
        }
    }

    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Spread => "in directories of 1,000",
            Self::Single => "in one directory",
        }
    }
}

/// The files that there are.
#[derive(Debug)]
pub(crate) struct Forest {
    pub(crate) shape: Shape,
    pub(crate) files: u64,
}

/// The name of a file by its number: of equal length, all different, and in no order.
pub(crate) fn name(number: u64) -> CString {
    // Each step can be undone, so no two numbers meet.
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    // No zero byte among hexadecimal digits.
    CString::new(format!("f{mixed:016x}")).unwrap_or_default()
}

pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(|error| Error::new(format!("{}: {error}", path.display())))
}

impl Forest {
    pub(crate) fn plant(root: &Path, shape: Shape) -> Result<Self> {
        std::fs::create_dir(root.join(shape.name()))?;
        Ok(Self { shape, files: 0 })
    }

    /// Where the thousand files from `bunch * 1000` on are.
    pub(crate) fn directory(&self, root: &Path, bunch: u64) -> PathBuf {
        let base = root.join(self.shape.name());
        match self.shape {
            Shape::Single => base,
            Shape::Spread => {
                base.join(format!("g{:03}", bunch / GROUP)).join(format!("d{bunch:06}"))
            }
        }
    }

    pub(crate) fn bunches(&self) -> u64 {
        self.files / DIRECTORY_FILES
    }

    /// Makes files until there are `files` of them.
    pub(crate) fn fill(
        &mut self,
        root: &Path,
        files: u64,
        threads: usize,
        stop: &Stop,
    ) -> Result<()> {
        let (first, last) = (self.bunches(), files / DIRECTORY_FILES);
        let next = AtomicU64::new(first);
        let start = Instant::now();
        let this = &*self;
        let results: Vec<Result<()>> = std::thread::scope(|scope| {
            let next = &next;
            let work = move |teller: bool| -> Result<()> {
                let mut told = Instant::now();
                loop {
                    stop.check()?;
                    let bunch = next.fetch_add(1, Ordering::Relaxed);
                    if bunch >= last {
                        return Ok(());
                    }
                    // So that the others end soon too.
                    this.make(root, bunch).inspect_err(|_| next.store(last, Ordering::Relaxed))?;
                    if teller && told.elapsed() > TELL_EVERY {
                        told = Instant::now();
                        tell(this.shape, bunch, last, (bunch - first) as f64, start.elapsed());
                    }
                }
            };
            let crew: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || work(thread == 0))).collect();
            let lost = || Err(Error::new("a thread died"));
            crew.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
        });
        results.into_iter().collect::<Result<Vec<()>>>()?;
        tell(self.shape, last, last, (last - first) as f64, start.elapsed());
        self.files = files;
        Ok(())
    }

    fn make(&self, root: &Path, bunch: u64) -> Result<()> {
        let path = self.directory(root, bunch);
        if self.shape == Shape::Spread {
            std::fs::create_dir_all(&path)
                .map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
        }
        let directory = open_directory(&path)?;
        let mode = Mode::from_raw_mode(0o644);
        for number in bunch * DIRECTORY_FILES..(bunch + 1) * DIRECTORY_FILES {
            rustix::fs::mknodat(&directory, name(number), FileType::RegularFile, mode, 0).map_err(
                |error| Error::new(format!("making files in {}: {error}", path.display())),
            )?;
        }
        Ok(())
    }
}

fn tell(shape: Shape, bunch: u64, last: u64, made: f64, time: Duration) {
    let files = DIRECTORY_FILES as f64;
    eprintln!(
        "bench: {}: {} of {} files, {} a second",
        shape.name(),
        count(bunch as f64 * files),
        count(last as f64 * files),
        count(made * files / time.as_secs_f64().max(1e-9))
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_different_and_of_one_length() {
        let names: BTreeSet<CString> = (0..10_000).map(name).collect();
        assert_eq!(names.len(), 10_000);
        assert!(names.iter().all(|name| name.as_bytes().len() == 17));
    }
}
