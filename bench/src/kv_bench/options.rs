//! The options of the command line.

use super::files::DIRECTORIES_MIN;
use super::records::{DIRECTORY_FILES, FILE_RECORDS};
use super::subject::Kind;
use super::work::Work;
use crate::error::{Error, Result};
use crate::given::Given;
use std::path::PathBuf;
use std::str::FromStr;

/// What to measure, and how.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Full directories to load.
    pub(crate) directories: u64,
    /// The store is grown by creates of its own, and only its memory is looked at.
    pub(crate) grow: bool,
    pub(crate) engines: Vec<Kind>,
    pub(crate) sections: Vec<Section>,
    /// The kinds of work that the table of speeds has.
    pub(crate) work: Vec<Work>,
    pub(crate) seconds: f64,
    pub(crate) ops: Option<u64>,
    pub(crate) passes: usize,
    pub(crate) seed: u64,
    pub(crate) dir: Option<PathBuf>,
}

/// The parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Work,
    Writes,
    Crash,
    Memory,
}

impl FromStr for Section {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "work" => Ok(Section::Work),
            "writes" => Ok(Section::Writes),
            "crash" => Ok(Section::Crash),
            "memory" => Ok(Section::Memory),
            _ => Err(Error::new(format!("there is no section \"{name}\""))),
        }
    }
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut given = Given::new(arguments)?;
        let records: Option<u64> = given.take("--records")?;
        let inodes = given.take("--inodes")?.unwrap_or(1_000_000);
        let inodes = records.map_or(inodes, |records| records / FILE_RECORDS);
        let default = match records {
            Some(_) => "local",
            None => "local,redb,fjall,lmdb",
        };
        let engines: String = given.take("--engines")?.unwrap_or(default.to_owned());
        let only: String = given.take("--only")?.unwrap_or("work,writes,crash,memory".to_owned());
        let work: Option<String> = given.take("--work")?;
        let options = Self {
            directories: inodes / DIRECTORY_FILES,
            grow: records.is_some(),
            engines: engines.split(',').map(Kind::parse).collect::<Result<_>>()?,
            sections: only.split(',').map(str::parse).collect::<Result<_>>()?,
            work: match work {
                None => Work::ALL.to_vec(),
                Some(words) => words.split(',').map(str::parse).collect::<Result<_>>()?,
            },
            seconds: given.take("--seconds")?.unwrap_or(1.0),
            ops: given.take("--ops")?,
            passes: given.take("--passes")?.unwrap_or(5),
            seed: given.take("--seed")?.unwrap_or(1),
            dir: given.take("--dir")?,
        };
        given.finish()?;
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<()> {
        if self.directories < DIRECTORIES_MIN {
            return Err(Error::new(format!(
                "--inodes must be at least {}: threads rename in directories of their own",
                DIRECTORIES_MIN * DIRECTORY_FILES
            )));
        }
        if self.grow && self.sections != [Section::Memory] {
            return Err(Error::new("--records goes with --only memory"));
        }
        if self.passes == 0 || self.ops == Some(0) || !(0.01..=600.0).contains(&self.seconds) {
            return Err(Error::new(
                "--passes and --ops must be at least 1, --seconds from 0.01 to 600",
            ));
        }
        Ok(())
    }
}
