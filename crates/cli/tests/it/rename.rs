//! Renaming: what may replace what, exchanging, refusing to replace, and that nobody sees a name
//! missing in between.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::ground::Ground;

fn rename(ground: &Ground, from: &str, to: &str, flags: RenameFlags) -> Result<(), Errno> {
    renameat_with(CWD, ground.at(from), CWD, ground.at(to), flags)
}

const PLAIN: RenameFlags = RenameFlags::empty();

#[test]
fn what_may_replace_what() {
    let Some(ground) = Ground::new("rename") else { return };
    ground.file("file", b"file");
    ground.file("other", b"other");
    for name in ["empty", "full", "full/below", "moved"] {
        ground.directory(name);
    }
    assert_eq!(rename(&ground, "file", "empty", PLAIN), Err(Errno::ISDIR));
    assert_eq!(rename(&ground, "empty", "file", PLAIN), Err(Errno::NOTDIR));
    assert_eq!(rename(&ground, "empty", "full", PLAIN), Err(Errno::NOTEMPTY));
    assert_eq!(rename(&ground, "full", "full/below/itself", PLAIN), Err(Errno::INVAL));
    assert_eq!(rename(&ground, "missing", "file", PLAIN), Err(Errno::NOENT));
    rename(&ground, "full", "empty", PLAIN).unwrap();
    assert!(ground.at("empty/below").is_dir());

    let replaced = File::open(ground.at("other")).unwrap();
    rename(&ground, "file", "other", PLAIN).unwrap();
    assert_eq!(fs::read(ground.at("other")).unwrap(), b"file");
    assert_eq!(std::io::read_to_string(replaced).unwrap(), "other", "who had it open keeps it");

    fs::hard_link(ground.at("other"), ground.at("twin")).unwrap();
    rename(&ground, "other", "twin", PLAIN).unwrap();
    assert!(
        ground.at("other").exists() && ground.at("twin").exists(),
        "two names of one file both stay"
    );

    let parent = |path: &str| fs::metadata(ground.at(path)).unwrap().ino();
    rename(&ground, "empty", "moved/deeper", PLAIN).unwrap();
    assert_eq!(parent("moved/deeper/.."), parent("moved"));
    assert_eq!(fs::metadata(ground.at("moved")).unwrap().nlink(), 3);
}

#[test]
fn refusing_to_replace_and_exchanging() {
    let Some(ground) = Ground::new("renameat2") else { return };
    ground.file("a", b"a");
    ground.file("b", b"b");
    ground.directory("d");
    ground.file("d/inside", b"i");
    assert_eq!(rename(&ground, "a", "b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename(&ground, "a", "c", RenameFlags::NOREPLACE).unwrap();
    assert_eq!(rename(&ground, "c", "missing", RenameFlags::EXCHANGE), Err(Errno::NOENT));
    rename(&ground, "b", "c", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(ground.at("b")).unwrap(), b"a");
    assert_eq!(fs::read(ground.at("c")).unwrap(), b"b");
    rename(&ground, "d", "b", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(ground.at("b/inside")).unwrap(), b"i");
    assert_eq!(fs::read(ground.at("d")).unwrap(), b"a");
    assert_eq!(rename(&ground, "b", "b/inside", RenameFlags::EXCHANGE), Err(Errno::INVAL));
    let both = RenameFlags::EXCHANGE | RenameFlags::NOREPLACE;
    assert_eq!(rename(&ground, "b", "c", both), Err(Errno::INVAL));
}

#[test]
fn a_whiteout_stays_at_the_old_name() {
    let Some(ground) = Ground::new("RENAME_WHITEOUT") else { return };
    ground.file("a", b"a");
    rename(&ground, "a", "b", RenameFlags::WHITEOUT).unwrap();
    let left = fs::symlink_metadata(ground.at("a")).unwrap();
    assert!(left.file_type().is_char_device());
    assert_eq!(left.rdev(), 0);
    assert_eq!(fs::read(ground.at("b")).unwrap(), b"a");
}

#[test]
fn nobody_sees_the_name_missing() {
    let Some(ground) = Ground::new("atomic replacement") else { return };
    let path = ground.file("settings", b"old or new, never nothing");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) {
                assert_eq!(fs::read(&path).unwrap(), b"old or new, never nothing");
                reads += 1;
            }
            reads
        });
        for _ in 0..1000 {
            fs::rename(ground.file("fresh", b"old or new, never nothing"), &path).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
}

#[test]
fn crossing_directories_at_once_never_loses_a_tree() {
    let Some(ground) = Ground::new("crossing renames") else { return };
    ground.directory("a");
    ground.directory("b");
    for number in 0..50 {
        ground.directory(format!("a/{number}"));
        ground.file(format!("a/{number}/leaf"), number.to_string());
    }
    std::thread::scope(|scope| {
        for (from, to) in [("a", "b"), ("b", "a")] {
            let ground = &ground;
            scope.spawn(move || {
                for step in 0..2000 {
                    let name = step * 7 % 50;
                    // The other thread may have it on its side.
                    let moved =
                        rename(ground, &format!("{from}/{name}"), &format!("{to}/{name}"), PLAIN);
                    assert!(matches!(moved, Ok(()) | Err(Errno::NOENT)), "{moved:?}");
                }
            });
        }
    });
    for number in 0..50 {
        let places = ["a", "b"].map(|side| ground.at(format!("{side}/{number}/leaf")));
        let found: Vec<_> =
            places.iter().filter_map(|place| fs::read_to_string(place).ok()).collect();
        assert_eq!(found, [number.to_string()], "each tree is in one place, whole");
    }
    let links = |name: &str| fs::metadata(ground.at(name)).unwrap().nlink();
    assert_eq!(links("a") + links("b"), 2 + 2 + 50);
}
