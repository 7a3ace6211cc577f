//! Many files: made in the store by the core, in this process; then every one of them is listed and looked
//! at through a mount.

use super::mounted;
use crate::real::Place;
use base::exec::block_on;
use cli::opened::{OpenStore, Opening};
use cli::store::{DEFAULT_VOLUME, StoreUrl};
use fs::{Caller, FormatOptions, Ino, ROOT, Session, Volume, mode};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files in one directory.
const IN_ONE: u64 = 1_000;
/// Threads that make and that walk.
const THREADS: u64 = 4;

pub(super) fn run(place: &Place, count: u64) -> Result<(String, u64), String> {
    make(place, count)?;
    let (found, peak) = mounted(place, || walk(&place.mountpoint()))?;
    if found != count {
        return Err(format!("{found} files were found, not {count}"));
    }
    Ok((format!("{count} files made, listed and looked at"), peak))
}

fn make(place: &Place, count: u64) -> Result<(), String> {
    let url = StoreUrl::local(&place.store()).map_err(|error| error.to_string())?;
    let store = match OpenStore::open(&url, None, true).map_err(|error| error.to_string())? {
        Opening::Opened(store) => store,
        Opening::InUse(error) => return Err(error.to_string()),
    };
    block_on(Volume::format(store.world(), DEFAULT_VOLUME, &FormatOptions::default()))
        .map_err(|error| error.to_string())?;
    let used = store.use_volume(DEFAULT_VOLUME).map_err(|error| error.to_string())?;
    let session = used.session();
    let next = AtomicU64::new(0);
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|_| scope.spawn(|| make_some(session, &next, count))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        })
    });
    drop(used);
    let closed = store.close().map_err(|error| error.to_string());
    done.and(closed)
}

/// A directory at a time, until there are enough.
fn make_some(session: &Session, next: &AtomicU64, count: u64) -> Result<(), String> {
    let caller = Caller::root();
    let failed = |error: fs::Error| format!("cannot make a file: {error}");
    loop {
        let directory = next.fetch_add(1, Ordering::Relaxed);
        let first = directory * IN_ONE;
        if first >= count {
            return Ok(());
        }
        let name = format!("d{directory}");
        let made =
            block_on(session.mkdir(&caller, ROOT, name.as_bytes(), 0o755)).map_err(failed)?;
        let parent: Ino = made.ino;
        for number in first..(first + IN_ONE).min(count) {
            let name = format!("f{number}");
            let bits = mode::FILE | 0o644;
            block_on(session.mknod(&caller, parent, name.as_bytes(), bits, 0)).map_err(failed)?;
        }
    }
}

/// Lists every directory and looks at every file; how many there are.
fn walk(mountpoint: &Path) -> Result<u64, String> {
    let failed = |error: std::io::Error| format!("cannot walk: {error}");
    let mut directories = Vec::new();
    for entry in std::fs::read_dir(mountpoint).map_err(failed)? {
        directories.push(entry.map_err(failed)?.path());
    }
    let waiting = Mutex::new(directories);
    let found = AtomicU64::new(0);
    let one = || -> Result<(), String> {
        loop {
            let next: Option<PathBuf> = waiting.lock().ok().and_then(|mut all| all.pop());
            let Some(directory) = next else { return Ok(()) };
            for entry in std::fs::read_dir(directory).map_err(failed)? {
                let meta = entry.and_then(|entry| entry.metadata()).map_err(failed)?;
                if meta.is_file() {
                    found.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        })
    })?;
    Ok(found.load(Ordering::Relaxed))
}
