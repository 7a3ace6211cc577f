//! The options of the command line.

use super::action::DIRECTORY_FILES;
use super::work::Work;
use crate::error::{Error, Result};
use crate::given::Given;
use fs::blob::block::Codec;
use std::path::PathBuf;
use std::str::FromStr;

/// Names have room for so many.
const FILES_MAX: u64 = 1_000_000;

/// What to measure, and how.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Files that are there before anything is measured, in full directories.
    pub(crate) files: u64,
    pub(crate) passes: usize,
    pub(crate) works: Vec<Work>,
    pub(crate) sections: Vec<Section>,
    pub(crate) threads: usize,
    pub(crate) codec: Codec,
    pub(crate) dir: Option<PathBuf>,
}

/// The parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Work,
    Memory,
}

impl FromStr for Section {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "work" => Ok(Section::Work),
            "memory" => Ok(Section::Memory),
            _ => Err(Error::new(format!("there is no section \"{name}\""))),
        }
    }
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut given = Given::new(arguments)?;
        let files = given.take("--files")?.unwrap_or(200_000);
        let works: Option<String> = given.take("--work")?;
        let only: Option<String> = given.take("--only")?;
        let codec: Option<String> = given.take("--codec")?;
        let options = Self {
            files: files / DIRECTORY_FILES * DIRECTORY_FILES,
            passes: given.take("--passes")?.unwrap_or(3),
            sections: match (&only, &works) {
                (Some(words), _) => words.split(',').map(str::parse).collect::<Result<_>>()?,
                // Who asks for some work wants no more than that.
                (None, Some(_)) => vec![Section::Work],
                (None, None) => vec![Section::Work, Section::Memory],
            },
            works: match works {
                None => Work::ALL.to_vec(),
                Some(words) => words.split(',').map(str::parse).collect::<Result<_>>()?,
            },
            threads: given.take("--threads")?.unwrap_or(1),
            codec: match codec.as_deref() {
                None | Some("lz4") => Codec::Lz4,
                Some("none") => Codec::None,
                Some("zstd") => Codec::Zstd,
                Some(other) => return Err(Error::new(format!("there is no codec \"{other}\""))),
            },
            dir: given.take("--dir")?,
        };
        given.finish()?;
        if !(DIRECTORY_FILES..=FILES_MAX).contains(&options.files) {
            return Err(Error::new(format!("--files is from {DIRECTORY_FILES} to {FILES_MAX}")));
        }
        if options.passes == 0 || !(1..=64).contains(&options.threads) {
            return Err(Error::new("--passes is at least 1, --threads from 1 to 64"));
        }
        Ok(options)
    }
}
