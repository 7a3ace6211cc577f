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

pub(crate) fn directory(path: &Path) -> OwnedFd {
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

/// The names that one call gives, dots aside; none at the end.
pub(crate) fn some_names(dir: impl AsFd, bytes: usize) -> Vec<String> {
    let mut buffer = vec![MaybeUninit::uninit(); bytes];
    let mut listing = RawDir::new(dir, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = listing.next() {
        let name = entry.unwrap().file_name().to_str().unwrap().to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
        if listing.is_buffer_empty() {
            break;
        }
    }
    names
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

/// Lets the kernel forget what it keeps of a directory's names.
fn forget_pages(dir: impl AsFd) {
    rustix::fs::fadvise(dir, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn a_listing_that_the_kernel_loses_is_gone_on_with() {
    const COUNT: usize = 6000;
    let proof = "listings of which the kernel loses parts";
    let Some(ground) = Ground::new(proof) else { return };
    let name = |number: usize| format!("name-{number:05}");
    for (round, bytes) in [1000, 4096, 30_000].into_iter().enumerate() {
        let place = ground.directory(format!("place-{round}"));
        for number in 0..COUNT {
            fs::write(place.join(name(number)), b"").unwrap();
        }
        // The kernel has the whole listing, from one that is open no more.
        assert_eq!(entries(directory(&place)).len(), COUNT + 2);
        let (one, other) = (directory(&place), directory(&place));
        let mut readers = [(&one, Vec::new(), false), (&other, Vec::new(), false)];
        let mut gone = std::collections::BTreeSet::new();
        let mut new = 0;
        for step in 0.. {
            let (dir, seen, ended) = &mut readers[step % 2];
            let names = some_names(*dir, bytes);
            *ended = names.is_empty() && step > 1;
            // Of what it was told much goes, the last above all, and something before it and behind it.
            let last = names.last().map(|last| last[5..].parse::<usize>().unwrap_or(COUNT));
            let number = last.unwrap_or(0);
            let around = [number.saturating_sub(40), number + 25, number + 300].map(name);
            let told = names.iter().rev().take(names.len() / 2).cloned();
            for name in told.chain(around) {
                if fs::remove_file(place.join(&name)).is_ok() {
                    gone.insert(name);
                }
            }
            fs::write(place.join(format!("name-{:05}.{new}", number / 2)), b"").unwrap();
            new += 1;
            seen.extend(names);
            forget_pages(*dir);
            // Somebody else begins, so that the kernel has a new listing, or a part of one.
            if step % 5 == 0 {
                some_names(directory(&place), 10_000);
            } else if step % 7 == 0 {
                entries(directory(&place));
            }
            if readers.iter().all(|(_, _, ended)| *ended) {
                break;
            }
        }
        for (_, seen, _) in &readers {
            let mut once = seen.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), seen.len(), "no name comes twice");
            for number in 0..COUNT {
                let name = name(number);
                assert!(gone.contains(&name) || once.binary_search(&name).is_ok(), "{name}");
            }
        }
        // And what the kernel keeps for the next one is what is there.
        let kept: Vec<String> = entries(directory(&place)).into_iter().map(|it| it.0).collect();
        forget_pages(directory(&place));
        let there: Vec<String> = entries(directory(&place)).into_iter().map(|it| it.0).collect();
        assert_eq!(kept, there);
        assert_eq!(there.len(), 2 + COUNT - gone.len() + new);
    }
}

#[test]
fn everything_is_removed_while_the_kernel_drops_its_caches() {
    const COUNT: usize = 5000;
    const DROP: &str = "/proc/sys/vm/drop_caches";
    let proof = "rm while the kernel drops its caches";
    let Some(ground) = Ground::new(proof) else { return };
    if let Err(error) = fs::write(DROP, b"2") {
        return crate::tool::skip(proof, &format!("{DROP}: {error}"));
    }
    let place = ground.directory("place");
    for number in 0..COUNT {
        fs::write(place.join(format!("entry-{number}")), b"").unwrap();
    }
    assert_eq!(entries(directory(&place)).len(), COUNT + 2);
    let dirs = [directory(&place), directory(&place)];
    let mut removed = 0;
    // Both go on until there is nothing left for either: what one was told and the other removed is no loss.
    for step in 0.. {
        let told = [some_names(&dirs[0], 16_384), some_names(&dirs[1], 8192)];
        for name in told.iter().flatten() {
            removed += usize::from(fs::remove_file(place.join(name)).is_ok());
        }
        if step % 3 == 0 {
            // Inodes and names; then pages of listings too.
            fs::write(DROP, if step % 2 == 0 { b"2" } else { b"3" }).unwrap();
        }
        if step > 0 && told.iter().all(Vec::is_empty) {
            break;
        }
    }
    assert_eq!(removed, COUNT);
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
