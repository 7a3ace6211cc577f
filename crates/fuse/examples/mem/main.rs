//! An in-memory filesystem behind /dev/fuse, as fast as such a thing can be: what a mount of Seamount is
//! compared with. It keeps nothing: all is gone when it ends.
//!
//! `cargo run --release -p fuse --example mem -- MOUNTPOINT [--threads N] [--mib N]`

#[path = "../shared/serve.rs"]
mod serve;
mod server;
mod tree;

use server::Mem;
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse(std::env::args_os().skip(1))?;
    println!("what is written here is kept in memory, and nowhere else");
    serve::serve(Mem::new(args.mib << 20), "mem", &args.mountpoint, args.threads)
}

/// What the command line says.
struct Args {
    mountpoint: PathBuf,
    threads: usize,
    mib: u64,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Self, Box<dyn Error>> {
        const USAGE: &str = "usage: mem MOUNTPOINT [--threads N] [--mib N]";
        let mut args = Self { mountpoint: PathBuf::new(), threads: 1, mib: 4096 };
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64, Box<dyn Error>> {
                let word = words.next().ok_or(USAGE)?;
                let number =
                    word.to_str().and_then(|word| word.parse().ok()).filter(|number| *number > 0);
                Ok(number.ok_or_else(|| format!("{word:?} is not a number above zero"))?)
            };
            match word.to_str() {
                Some("--threads") => args.threads = number()?.min(64) as usize,
                Some("--mib") => args.mib = number()?.min(1 << 20),
                Some(option) if option.starts_with('-') => return Err(USAGE.into()),
                _ => args.mountpoint = word.into(),
            }
        }
        if args.mountpoint.as_os_str().is_empty() {
            return Err(USAGE.into());
        }
        args.mountpoint = std::fs::canonicalize(&args.mountpoint)
            .map_err(|error| format!("{}: {error}", args.mountpoint.display()))?;
        Ok(args)
    }
}
