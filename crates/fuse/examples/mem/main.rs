//! An in-memory filesystem behind /dev/fuse, as fast as such a thing can be: what a mount of Seamount is
//! compared with. It keeps nothing: all is gone when it ends.
//!
//! `cargo run --release -p fuse --example mem -- MOUNTPOINT [--threads N] [--mib N]`

mod server;
mod tree;

use fuser::{Config, MountOption, Session, SessionACL};
use server::Mem;
use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse(std::env::args_os().skip(1))?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("mem".into()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    config.acl = SessionACL::Owner;
    config.n_threads = Some(args.threads);
    config.clone_fd = args.threads > 1;
    let session = Session::new(Mem::new(args.mib << 20), &args.mountpoint, &config)?;
    let mut watcher = watch(&args.mountpoint)?;
    println!("an in-memory filesystem is at {}; it keeps nothing", args.mountpoint.display());
    println!("stop it with: umount {}, or with Ctrl-C", args.mountpoint.display());
    let ended = session.run();
    watcher.kill()?;
    watcher.wait()?;
    Ok(ended?)
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

/// A process that unmounts when this one is gone, whatever killed it: it waits for the end of its input.
/// In a process group of its own, Ctrl-C does not reach it.
fn watch(mountpoint: &Path) -> io::Result<Child> {
    let script =
        "cat >/dev/null; umount \"$1\" 2>/dev/null || exec fusermount3 -u -z \"$1\" 2>/dev/null";
    Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(mountpoint)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
}
