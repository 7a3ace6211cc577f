//! Many writers at once: each has files of its own, and all append to one.

use super::mounted;
use crate::real::{Place, fill};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Files of each writer.
const FILES: u64 = 40;
const FILE_BYTES: usize = 200_000;
const RECORD: usize = 64;

pub(super) fn run(place: &Place, count: u64) -> Result<(String, u64), String> {
    let ((), peak) = mounted(place, || write_all(&place.mountpoint(), count))?;
    Ok((format!("{count} writers at once, {} files of each", FILES), peak))
}

fn write_all(mountpoint: &Path, count: u64) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("a writer failed: {error}");
    let shared = mountpoint.join("shared");
    File::create(&shared).map_err(failed)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|writer| {
                let shared = &shared;
                scope.spawn(move || write_one(mountpoint, shared, writer))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| "a thread panicked".to_owned())?.map_err(failed)
        })
    })?;
    for writer in 0..count {
        for file in 0..FILES {
            let path = mountpoint.join(format!("w{writer}/{file}"));
            if std::fs::read(&path).map_err(failed)? != fill(writer * FILES + file, FILE_BYTES) {
                return Err(format!("{} has other bytes", path.display()));
            }
        }
    }
    let mut records: Vec<Vec<u8>> =
        std::fs::read(&shared).map_err(failed)?.chunks(RECORD).map(<[u8]>::to_vec).collect();
    records.sort_unstable();
    let mut wanted: Vec<Vec<u8>> = (0..count * FILES).map(record).collect();
    wanted.sort_unstable();
    if records != wanted {
        return Err(format!("{} records were appended, of {}", records.len(), wanted.len()));
    }
    Ok(())
}

fn write_one(mountpoint: &Path, shared: &Path, writer: u64) -> std::io::Result<()> {
    let home = mountpoint.join(format!("w{writer}"));
    std::fs::create_dir(&home)?;
    let mut log = File::options().append(true).open(shared)?;
    for file in 0..FILES {
        let number = writer * FILES + file;
        let mut out = File::create(home.join(file.to_string()))?;
        for piece in fill(number, FILE_BYTES).chunks(30_000) {
            out.write_all(piece)?;
        }
        if file % 10 == 0 {
            out.sync_all()?;
        }
        log.write_all(&record(number))?;
    }
    Ok(())
}

fn record(number: u64) -> Vec<u8> {
    format!("{number:0width$}\n", width = RECORD - 1).into_bytes()
}
