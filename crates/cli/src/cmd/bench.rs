//! `seamount bench`: its words, and where its report goes.

use super::Context;
use crate::bench::{self, Options, Trouble};
use crate::error::{CliError, Failure, Result};
use crate::progress::{Bar, Unit};
use clap::{Args, ValueHint};
use std::path::{Path, PathBuf};

/// `seamount bench`
#[derive(Debug, Clone, Args)]
#[command(
    after_long_help = "All is made in new directories inside PATH and each DIR, read back, compared, and removed at the \
    end. The directories take turns, workload by workload, so that a busy machine slows all of them \
    alike. A ratio above 1 means that PATH is faster."
)]
pub struct BenchArgs {
    /// The directory to measure in, such as a mounted volume
    #[arg(value_hint = ValueHint::DirPath)]
    pub path: PathBuf,
    /// A directory to compare with; may be given several times
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub against: Vec<PathBuf>,
    /// Only these workloads, by their names in the table
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// One short pass: half a minute for two directories instead of three
    #[arg(long)]
    pub quick: bool,
    /// Files of each metadata workload [default: 10000, quick: 2000]
    #[arg(long, value_name = "N")]
    pub files: Option<u64>,
    /// Passes, of which the median counts [default: 3, quick: 1]
    #[arg(long, value_name = "N")]
    pub passes: Option<u32>,
    /// Threads of the workloads that use several
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub threads: usize,
    /// Draw the ratios into this file
    #[arg(long, value_name = "FILE", requires = "against", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Use one CPU only; pin the daemons of the directories yourself, with taskset(1)
    #[arg(long)]
    pub pin: bool,
}

/// Measures and prints.
pub fn run(args: &BenchArgs, context: &Context) -> Result<()> {
    if args.pin {
        bench::rerun_on_one_cpu()?;
    }
    let options = Options {
        path: args.path.clone(),
        against: args.against.clone(),
        only: args.only.clone(),
        quick: args.quick,
        files: args.files,
        passes: args.passes,
        threads: args.threads,
    };
    if let Some(file) = &args.svg {
        // Better refused now than after three minutes.
        write_file(file, "")?;
    }
    let bar = Bar::new("measuring", Unit::Things, context.output.json);
    let report = bench::run(&options, &mut |done| bar.advance(done.done, Some(done.total)));
    drop(bar);
    let report = report?;
    if let Some(file) = &args.svg {
        write_file(file, &bench::chart(&report))?;
    }
    context.output.print(&report, bench::table)
}

fn write_file(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text)
        .map_err(|error| CliError::io(format_args!("cannot write {}", file.display()), &error))
}

impl From<bench::Error> for CliError {
    fn from(error: bench::Error) -> Self {
        let kind = match &error {
            bench::Error::Io { doing, path, source } => {
                return Self::io(format_args!("{doing} in {}", path.display()), source);
            }
            bench::Error::Asked(_) => Failure::Usage,
            bench::Error::Target { trouble, .. } => match trouble {
                Trouble::Missing => Failure::NotFound,
                Trouble::NotDirectory => Failure::Usage,
                Trouble::NoPermission => Failure::NoPermission,
                Trouble::NoRoom => Failure::Unavailable,
                Trouble::Other => Failure::Failed,
            },
            bench::Error::Wrong { .. } => Failure::Damaged,
            bench::Error::Program { .. } | bench::Error::Interrupted => Failure::Failed,
        };
        Self::new(kind, error.to_string())
    }
}
