//! Short files whose bytes the kernel is given when they are opened.

use crate::ground::{Ground, world};
use base::{OsRandom, Random, SeededRandom, block_on};
use fs::{FormatOptions, SessionOptions, Volume};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longer files are not in their records.
const SHORT: u64 = 4096;

/// A mount whose kernel asks for a name each time that it is used, and so is told of its inode anew.
fn ground(asks_anew: bool) -> Ground {
    let dir = tempfile::tempdir().unwrap();
    let engine = kv_local::Local::open_dir(&dir.path().join("store"), Default::default());
    let world = world(Arc::new(engine.unwrap()));
    let volume = block_on(Volume::format(&world, "v", &FormatOptions::default())).unwrap();
    Ground::mount(&volume, SessionOptions::default(), dir, |options| {
        options.threads = 3;
        options.entry_ttl = asks_anew.then_some(Duration::ZERO);
    })
}

fn reads(ground: &Ground) -> u64 {
    let stats = ground.mount.stats();
    stats.iter().filter(|stats| stats.name == "read").map(|stats| stats.count).sum()
}

fn pattern(seed: u64, len: u64) -> Vec<u8> {
    let random = SeededRandom::new(seed);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// The kernel has no pages of it any more.
fn drop_pages(path: &Path) {
    let file = File::open(path).unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

#[test]
fn nothing_is_asked_of_a_short_file_that_was_just_found() {
    for asks_anew in [true, false] {
        let ground = ground(asks_anew);
        for len in [1, 100, SHORT - 1, SHORT] {
            let path = ground.at(&format!("{len}"));
            let bytes = pattern(len, len);
            std::fs::write(&path, &bytes).unwrap();
            // The first read after a change comes here: it changes the access time.
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
            drop_pages(&path);
            let before = reads(&ground);
            // The one that drops the pages was given them when it opened the file, and that counts.
            let asked = u64::from(!asks_anew);
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{len}");
            assert_eq!(reads(&ground) - before, asked, "{len} bytes, asks anew: {asks_anew}");
        }
    }
}

mod calls {
    #![allow(unsafe_code, reason = "cutting a file by its name: no library here offers it")]

    use std::ffi::{CString, c_char, c_int};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    unsafe extern "C" {
        fn truncate(path: *const c_char, len: i64) -> c_int;
    }

    pub(super) fn cut(path: &Path, len: u64) {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends with a zero byte and lives as long as the call, which keeps nothing.
        let done = unsafe { truncate(name.as_ptr(), i64::try_from(len).unwrap()) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Changes a file in a way of its choice, as often as asked, and reads it after each: nobody else changes it.
fn change(path: &Path, seed: u64, times: u64) {
    let random = SeededRandom::new(seed);
    let mut known = Vec::new();
    for time in 0..times {
        let len = random.below(SHORT + 1);
        match random.below(5) {
            0 | 1 => {
                calls::cut(path, len);
                known.resize(len as usize, 0);
            }
            2 => {
                known = pattern(seed ^ time, len);
                std::fs::write(path, &known).unwrap();
            }
            3 => {
                let at = random.below(SHORT - 100);
                let bytes = pattern(seed ^ time, 100);
                let file = File::options().write(true).open(path).unwrap();
                file.write_all_at(&bytes, at).unwrap();
                let end = at as usize + bytes.len();
                known.resize(known.len().max(end), 0);
                known[at as usize..end].copy_from_slice(&bytes);
            }
            _ => {
                let bytes = pattern(seed ^ time, random.below(SHORT + 1 - known.len() as u64));
                File::options().append(true).open(path).unwrap().write_all(&bytes).unwrap();
                known.extend_from_slice(&bytes);
            }
        }
        if random.one_in(4) {
            drop_pages(path);
        }
        assert_eq!(std::fs::read(path).unwrap(), known, "after {time} changes, seed {seed}");
    }
}

#[test]
fn a_file_that_changes_is_never_given_as_it_was() {
    let seed = std::env::var("PROOF_AHEAD_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| OsRandom::new().next_u64() >> 32);
    println!("PROOF_AHEAD_SEED={seed}");
    let ground = ground(true);
    let paths: Vec<_> = (0..2).map(|number| ground.at(&format!("{number}"))).collect();
    for path in &paths {
        std::fs::write(path, b"").unwrap();
    }
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for path in &paths {
            // Two that open it all the time, so that it is given as often as that can be.
            for _ in 0..2 {
                let ended = &ended;
                scope.spawn(move || {
                    let mut bytes = [0; SHORT as usize];
                    while !ended.load(Ordering::Relaxed) {
                        let read = File::open(path).unwrap().read(&mut bytes).unwrap();
                        assert!(read <= bytes.len());
                    }
                });
            }
        }
        let ends = OnDrop(&ended);
        let changing: Vec<_> = (0..)
            .zip(&paths)
            .map(|(number, path)| scope.spawn(move || change(path, seed + number, 1500)))
            .collect();
        for change in changing {
            change.join().unwrap();
        }
        drop(ends);
    });
}

/// Tells the others that it is over, also when something failed.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
