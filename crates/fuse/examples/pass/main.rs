//! A directory of the host behind /dev/fuse, with the data of its files passed through by the kernel, as
//! fast as such a thing can be: what a mount of Seamount is compared with. A yardstick, not a filesystem
//! to work in: nobody else may change the directory while it is served.
//!
//! `cargo run --release -p fuse --example pass -- DIRECTORY MOUNTPOINT [--threads N]`

mod listing;
#[path = "../shared/serve.rs"]
mod serve;
mod server;
mod tree;

use server::Pass;
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse(std::env::args_os().skip(1))?;
    let pass = Pass::new(&args.directory)
        .map_err(|error| format!("{}: {error}", args.directory.display()))?;
    serve::serve(pass, "pass", &args.mountpoint, args.threads)
}

/// What the command line says.
struct Args {
    directory: PathBuf,
    mountpoint: PathBuf,
    threads: usize,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Self, Box<dyn Error>> {
        const USAGE: &str = "usage: pass DIRECTORY MOUNTPOINT [--threads N]";
        const THREADS_MAX: usize = 64;
        let mut places = Vec::new();
        let mut threads = 1;
        while let Some(word) = words.next() {
            match word.to_str() {
                Some("--threads") => {
                    let word = words.next().ok_or(USAGE)?;
                    let number = word.to_str().and_then(|word| word.parse().ok());
                    let number = number.filter(|number| (1..=THREADS_MAX).contains(number));
                    threads = number.ok_or_else(|| {
                        format!("--threads {word:?}: give a number from 1 to {THREADS_MAX}")
                    })?;
                }
                Some(option) if option.starts_with('-') => return Err(USAGE.into()),
                _ => places.push(
                    std::fs::canonicalize(&word)
                        .map_err(|error| format!("{}: {error}", word.display()))?,
                ),
            }
        }
        let [directory, mountpoint] =
            <[PathBuf; 2]>::try_from(places).map_err(|_| USAGE.to_owned())?;
        if mountpoint.starts_with(&directory) {
            return Err("the mountpoint is inside the directory: give another one".into());
        }
        Ok(Self { directory, mountpoint, threads })
    }
}
