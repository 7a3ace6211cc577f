//! The options of the command line.

use super::forest::{DIRECTORY_FILES, Shape};
use crate::error::{Error, Result};
use crate::given::Given;
use std::path::PathBuf;

const SMALLEST: u64 = 10_000;
const LARGEST: u64 = 10_000_000;
const THREADS_MAX: usize = 64;
const DENSE_GIB_MAX: u64 = 1024;

/// What to measure, and how.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) to: u64,
    /// Operations of each kind that are measured at each size.
    pub(crate) ops: u64,
    /// Threads that make files while nothing is measured.
    pub(crate) threads: usize,
    pub(crate) dense_gib: u64,
    pub(crate) sections: Vec<Section>,
    pub(crate) svg_dir: Option<PathBuf>,
    pub(crate) dir: Option<PathBuf>,
}

/// The parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Growth(Shape),
    Large,
}

impl Section {
    fn parse(name: &str) -> Result<Self> {
        match name {
            "spread" => Ok(Self::Growth(Shape::Spread)),
            "single" => Ok(Self::Growth(Shape::Single)),
            "large" => Ok(Self::Large),
            _ => Err(Error::new(format!("--only {name}: there are spread, single and large"))),
        }
    }
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut given = Given::new(arguments)?;
        let only: Option<String> = given.take("--only")?;
        let options = Self {
            to: given.take("--to")?.unwrap_or(LARGEST),
            ops: given.take("--ops")?.unwrap_or(10_000),
            threads: given.take("--threads")?.unwrap_or(4),
            dense_gib: given.take("--dense-gib")?.unwrap_or(4),
            sections: only
                .as_deref()
                .unwrap_or("spread,single,large")
                .split(',')
                .map(Section::parse)
                .collect::<Result<_>>()?,
            svg_dir: given.take("--svg-dir")?,
            dir: given.take("--dir")?,
        };
        given.finish()?;
        let within = |name: &str, value: u64, low: u64, high: u64| match value {
            value if (low..=high).contains(&value) => Ok(()),
            _ => Err(Error::new(format!("{name} {value}: give a number from {low} to {high}"))),
        };
        within("--to", options.to, SMALLEST, LARGEST)?;
        within("--ops", options.ops, DIRECTORY_FILES, SMALLEST)?;
        within("--threads", options.threads as u64, 1, THREADS_MAX as u64)?;
        within("--dense-gib", options.dense_gib, 1, DENSE_GIB_MAX)?;
        if !options.to.is_multiple_of(DIRECTORY_FILES)
            || !options.ops.is_multiple_of(DIRECTORY_FILES)
        {
            let text = format!("--to and --ops are multiples of {DIRECTORY_FILES}");
            return Err(Error::new(text));
        }
        Ok(options)
    }

    /// Ten times as many at each step, and the last one as asked for.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        let powers = std::iter::successors(Some(SMALLEST), |size| Some(size * 10));
        powers.take_while(|size| *size < self.to).chain([self.to]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Options> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn sizes_grow_by_ten_up_to_the_last() {
        let sizes = |words: &str| parse(words).map(|options| options.sizes()).ok();
        assert_eq!(sizes(""), Some(vec![10_000, 100_000, 1_000_000, 10_000_000]));
        assert_eq!(sizes("--to 10000"), Some(vec![10_000]));
        assert_eq!(sizes("--to 300000"), Some(vec![10_000, 100_000, 300_000]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in ["--to 5", "--to 10500", "--ops 1", "--only huge", "--threads 0"] {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
