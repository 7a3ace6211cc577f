//! Listing directories: each entry that stays is seen exactly once, whatever happens beside it;
//! places can be kept.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom, open, seek};

use crate::ground::Ground;

fn directory(path: &Path) -> OwnedFd {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

/// Names, cookies behind them, types and inodes from the place where the descriptor stands, in
/// small pieces.
fn entries(dir: impl AsFd) -> Vec<(String, u64, FileType, u64)> {
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut listing = RawDir::new(dir, &mut buffer);
    let mut found = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap().to_owned();
        found.push((name, entry.next_entry_cookie(), entry.file_type(), entry.ino()));
    }
    found
}

#[test]
fn what_stays_is_seen_exactly_once() {
    let Some(ground) = Ground::new("readdir beside changes") else { return };
    let place = ground.directory("place");
    for number in 0..1500 {
        fs::write(place.join(format!("steady-{number}")), b"").unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (place, done) = (&place, &done);
            scope.spawn(move || {
                let mut number = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    let name = place.join(format!("passing-{worker}-{}", number % 300));
                    let other = place.join(format!("moved-{worker}-{}", number % 300));
                    fs::write(&name, b"").unwrap();
                    fs::rename(&name, &other).unwrap();
                    if number >= 100 {
                        let old = place.join(format!("moved-{worker}-{}", (number - 100) % 300));
                        fs::remove_file(old).unwrap();
                    }
                    number += 1;
                }
            });
        }
        let count = || {
            let mut seen: BTreeMap<String, u32> = BTreeMap::new();
            for (name, ..) in entries(directory(&place)) {
                *seen.entry(name).or_default() += 1;
            }
            for number in 0..1500 {
                let name = format!("steady-{number}");
                assert_eq!(seen.get(&name), Some(&1), "{name}");
            }
            for (name, times) in &seen {
                assert_eq!(*times, 1, "{name} is one name");
            }
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..15).for_each(|_| count())
        }));
        done.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn a_place_in_a_listing_can_be_kept() {
    let Some(ground) = Ground::new("seekdir") else { return };
    let place = ground.directory("place");
    for number in 0..500 {
        fs::write(place.join(format!("entry-{number}")), b"").unwrap();
    }
    let dir = directory(&place);
    let all = entries(&dir);
    assert_eq!(all.len(), 502);
    for start in [0, 1, 57, 300, 499] {
        seek(&dir, SeekFrom::Start(all[start].1)).unwrap();
        assert_eq!(entries(&dir), all[start + 1..], "from behind entry {start}");
    }
    // What lies before the place may go meanwhile.
    let gone: Vec<_> = all[..200].iter().filter(|entry| entry.0.starts_with("entry")).collect();
    for (name, ..) in &gone {
        fs::remove_file(place.join(name)).unwrap();
    }
    seek(&dir, SeekFrom::Start(all[250].1)).unwrap();
    assert_eq!(entries(&dir), all[251..]);
    fs::write(place.join("late"), b"").unwrap();
    seek(&dir, SeekFrom::Start(0)).unwrap();
    let again = entries(&dir);
    assert_eq!(
        again.len(),
        all.len() - gone.len() + 1,
        "from the start everything is as it is now"
    );
    assert!(again.iter().any(|entry| entry.0 == "late"));
}

#[test]
fn removing_while_listing_removes_everything() {
    let Some(ground) = Ground::new("rm while listing") else { return };
    let place = ground.directory("place");
    for number in 0..3000 {
        fs::write(place.join(format!("entry-{number}")), b"").unwrap();
    }
    for entry in fs::read_dir(&place).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    fs::remove_dir(&place).unwrap();
}

#[test]
fn entries_say_what_they_are() {
    let Some(ground) = Ground::new("d_type") else { return };
    let place = ground.directory("place");
    fs::create_dir(place.join("directory")).unwrap();
    fs::write(place.join("file"), b"").unwrap();
    std::os::unix::fs::symlink("x", place.join("link")).unwrap();
    crate::tool::shell(&place, "mkfifo fifo; mknod device c 1 3");
    let found: BTreeMap<_, _> = entries(directory(&place))
        .into_iter()
        .map(|(name, _, kind, ino)| (name, (kind, ino)))
        .collect();
    let ino = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
    let want = [
        ("directory", FileType::Directory),
        ("file", FileType::RegularFile),
        ("link", FileType::Symlink),
        ("fifo", FileType::Fifo),
        ("device", FileType::CharacterDevice),
    ];
    for (name, kind) in want {
        assert_eq!(found[name], (kind, ino(&place.join(name))), "{name}");
    }
    assert_eq!(found["."], (FileType::Directory, ino(&place)));
    assert_eq!(found[".."], (FileType::Directory, ino(ground.root())));
    assert_eq!(found.len(), 7);
    assert_eq!(fs::metadata(&place).unwrap().nlink(), 3, "itself, its dot and one directory in it");
}
