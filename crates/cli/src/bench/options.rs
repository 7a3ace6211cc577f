//! What is asked of a benchmark, and the sizes and times that follow from it.

use super::error::Error;
use std::path::PathBuf;
use std::time::Duration;

/// The most files of a workload: more than this measures patience.
const FILES_MAX: u64 = 1_000_000;
const PASSES_MAX: u32 = 100;
const THREADS_MAX: usize = 64;
/// More targets than this do not fit on a terminal.
const TARGETS_MAX: usize = 8;

/// What to measure, and how much of it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that is measured.
    pub path: PathBuf,
    /// The directories that it is compared with.
    pub against: Vec<PathBuf>,
    /// Names of workloads; empty means all.
    pub only: Vec<String>,
    /// One short pass.
    pub quick: bool,
    /// Files of each metadata workload, if not the default.
    pub files: Option<u64>,
    /// Passes over everything, if not the default.
    pub passes: Option<u32>,
    /// Threads of the workloads that use several.
    pub threads: usize,
}

impl Options {
    /// The default benchmark of `path` alone.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            against: Vec::new(),
            only: Vec::new(),
            quick: false,
            files: None,
            passes: None,
            threads: 4,
        }
    }

    pub(crate) fn scale(&self) -> Result<Scale, Error> {
        let mut scale = if self.quick { Scale::quick() } else { Scale::full() };
        if let Some(files) = self.files {
            within("--files", files, 1, FILES_MAX)?;
            scale.files = files;
        }
        if let Some(passes) = self.passes {
            within("--passes", passes.into(), 1, PASSES_MAX.into())?;
            scale.passes = passes;
        }
        within("--threads", self.threads as u64, 1, THREADS_MAX as u64)?;
        scale.threads = self.threads;
        if self.against.len() >= TARGETS_MAX {
            let most = TARGETS_MAX - 1;
            return Err(Error::Asked(format!("--against can be given at most {most} times")));
        }
        Ok(scale)
    }
}

fn within(option: &str, value: u64, low: u64, high: u64) -> Result<(), Error> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::Asked(format!("{option} {value}: give a number from {low} to {high}")))
}

/// Sizes and times of one benchmark.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub(crate) files: u64,
    pub(crate) passes: u32,
    pub(crate) threads: usize,
    /// Size of the one large file.
    pub(crate) stream_bytes: u64,
    /// How long a workload that can go on for ever is repeated.
    pub(crate) slice: Duration,
    /// After this a workload stops, done or not: what it did until then counts.
    pub(crate) longest: Duration,
}

impl Scale {
    fn full() -> Self {
        Self {
            files: 10_000,
            passes: 3,
            threads: 4,
            stream_bytes: 256 << 20,
            slice: Duration::from_millis(250),
            longest: Duration::from_millis(1500),
        }
    }

    fn quick() -> Self {
        Self {
            files: 2_000,
            passes: 1,
            threads: 4,
            stream_bytes: 64 << 20,
            slice: Duration::from_millis(100),
            longest: Duration::from_millis(500),
        }
    }

    /// Files of the workloads that write to each.
    pub(crate) fn small_files(&self) -> u64 {
        self.files.div_ceil(2)
    }

    /// Files of 64 KiB.
    pub(crate) fn medium_files(&self) -> u64 {
        self.files.div_ceil(10)
    }

    /// Files of the archive that is unpacked.
    pub(crate) fn archive_files(&self) -> u64 {
        (self.files * 3 / 10).max(1)
    }

    /// Files that git is given.
    pub(crate) fn git_files(&self) -> u64 {
        self.files.div_ceil(20)
    }

    /// An upper bound of what one directory must have room for. The large file goes after each pass,
    /// all else stays until the end.
    pub(crate) fn bytes_needed(&self) -> u64 {
        const SLACK: u64 = 64 << 20;
        const FILE: u64 = 4096;
        // A tree of cargo is a few MiB.
        const BUILD: u64 = 16 << 20;
        let small = self.small_files() * FILE * 5 + self.files * FILE + self.git_files() * FILE * 4;
        let more = self.medium_files() * FILE * 16 + self.archive_files() * FILE * 2 + BUILD;
        let appended = self.stream_bytes / 2;
        self.stream_bytes + appended + (small + more) * u64::from(self.passes) + SLACK
    }
}
