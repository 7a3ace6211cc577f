//! Many open files at once, each read and written through its handle.

use super::mounted;
use crate::real::Place;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Files in one directory.
const IN_ONE: u64 = 1_000;
/// Descriptors of this process that are not those files.
const OTHERS: u64 = 1_000;

pub(super) fn run(place: &Place, count: u64) -> Result<(String, u64), String> {
    let needed = count.saturating_add(OTHERS);
    if getrlimit(Resource::Nofile).current.is_some_and(|current| current < needed) {
        let limit = Rlimit { current: Some(needed), maximum: Some(needed) };
        setrlimit(Resource::Nofile, limit)
            .map_err(|error| format!("cannot have {count} files open in this process: {error}"))?;
    }
    let ((), peak) = mounted(place, || open_all(&place.mountpoint(), count))?;
    Ok((format!("{count} files open at once, written and read"), peak))
}

fn open_all(mountpoint: &Path, count: u64) -> Result<(), String> {
    let failed = |number: u64| move |error: std::io::Error| format!("file {number}: {error}");
    let mut files = Vec::new();
    for number in 0..count {
        let directory = mountpoint.join((number / IN_ONE).to_string());
        if number % IN_ONE == 0 {
            std::fs::create_dir(&directory).map_err(failed(number))?;
        }
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        let file = options.open(directory.join(number.to_string())).map_err(failed(number))?;
        file.write_all_at(&number.to_le_bytes(), 0).map_err(failed(number))?;
        files.push(file);
    }
    for (number, file) in (0..).zip(&files) {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 0).map_err(failed(number))?;
        if u64::from_le_bytes(bytes) != number {
            return Err(format!("file {number} has other bytes"));
        }
    }
    Ok(())
}
