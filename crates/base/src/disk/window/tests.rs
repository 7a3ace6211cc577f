//! What is written in memory is in the file; and where that could not be promised there is no window.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::disk::{Disk, File, SimDisk, SystemDisk};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

const PAGE: usize = 4096;
const WINDOW: usize = 64 * PAGE;

fn skip(why: &str) {
    let line = format!("SKIPPED: the log in mapped memory: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("PROOF_SKIPPED")
        && let Ok(mut file) = std::fs::File::options().append(true).create(true).open(path)
    {
        let _ = file.write_all(line.as_bytes());
    }
}

/// Directories on hosts that can be asked for windows.
fn places() -> Vec<TempDir> {
    let mut places = Vec::new();
    for place in [std::env::temp_dir().as_path(), Path::new("/dev/shm")] {
        let Ok(dir) = tempfile::tempdir_in(place) else { continue };
        let file = SystemDisk::open(dir.path()).unwrap().create("try").unwrap();
        file.allocate(PAGE as u64).unwrap();
        match file.window(0, PAGE) {
            Some(_) => places.push(dir),
            None => skip(&format!("{} cannot", place.display())),
        }
    }
    places
}

fn bytes(tag: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 255 + tag * 31) as u8 | 1).collect()
}

fn read(file: &Arc<dyn File>, offset: usize, len: usize) -> Vec<u8> {
    let mut read = vec![0; len];
    file.read_at(&mut read, offset as u64).unwrap();
    read
}

#[test]
fn what_is_written_is_in_the_file_at_once_and_stays() {
    for dir in places() {
        let disk = SystemDisk::open(dir.path()).unwrap();
        let file = disk.create("log").unwrap();
        file.allocate(WINDOW as u64).unwrap();
        let mut window = file.window(0, WINDOW).unwrap();
        assert_eq!((window.len(), window.is_empty()), (WINDOW, false));
        let mut right = vec![0; WINDOW];
        // Over the borders of pages, over each other, and to the last byte.
        for (tag, (at, len)) in
            [(0, 1), (1, 5000), (4095, 2), (4000, 9000), (WINDOW - 3, 3), (0, 0)]
                .into_iter()
                .enumerate()
        {
            assert!(window.write(at, &bytes(tag, len)));
            right[at..at + len].copy_from_slice(&bytes(tag, len));
            assert!(read(&file, 0, WINDOW) == right, "{at}, {len}: by the same handle");
            let other = disk.open("log").unwrap();
            assert!(read(&other, 0, WINDOW) == right, "{at}, {len}: by another");
        }
        // By calls beside it, too.
        file.write_at(b"call", 100).unwrap();
        right[100..104].copy_from_slice(b"call");
        assert!(window.write(104, b"window"));
        right[104..110].copy_from_slice(b"window");
        file.sync().unwrap();
        drop((window, file));
        assert!(read(&disk.open("log").unwrap(), 0, WINDOW) == right, "when all is closed");
        assert_eq!(std::fs::read(dir.path().join("log")).unwrap(), right);
    }
}

#[test]
fn a_window_moves_on_and_keeps_what_is_behind_it() {
    for dir in places() {
        let disk = SystemDisk::open(dir.path()).unwrap();
        let file = disk.create("log").unwrap();
        let (mut right, mut end) = (Vec::new(), 0);
        let mut window = None;
        // A log: records of odd lengths, room in steps, the window from the page on that is half full.
        for tag in 0..400 {
            let record = bytes(tag, 1 + tag * 97 % 3000);
            end += record.len();
            if end as u64 > file.len().unwrap() {
                file.allocate(end.next_multiple_of(WINDOW / 2) as u64).unwrap();
            }
            let fits = |window: &Option<(usize, Box<dyn crate::disk::Window>)>| {
                window.as_ref().is_some_and(|(start, window)| end <= start + window.len())
            };
            if !fits(&window) {
                let start = right.len() / PAGE * PAGE;
                let room = file.len().unwrap() as usize - start;
                window = Some((start, file.window(start as u64, room.min(WINDOW)).unwrap()));
            }
            let (start, inside) = window.as_mut().unwrap();
            assert!(inside.write(right.len() - *start, &record), "record {tag}");
            right.extend_from_slice(&record);
            if tag % 50 == 0 {
                assert!(read(&file, 0, end) == right, "record {tag}");
            }
        }
        assert!(end > 4 * WINDOW / 2, "it has moved and grown");
        drop((window, file));
        let file = disk.open("log").unwrap();
        assert!(read(&file, 0, end) == right);
        let rest = file.len().unwrap() as usize - end;
        assert!(read(&file, end, rest).iter().all(|byte| *byte == 0), "nothing behind the end");
    }
}

#[test]
fn a_window_at_the_end_of_the_file_does_not_reach_behind_it() {
    for dir in places() {
        let disk = SystemDisk::open(dir.path()).unwrap();
        let file = disk.create("log").unwrap();
        let len = 5 * PAGE as u64;
        file.allocate(len).unwrap();
        assert!(file.window(3 * PAGE as u64, 3 * PAGE).is_none(), "behind what was taken");
        assert!(file.window(len, PAGE).is_none());
        assert!(file.window(u64::MAX - 4095, PAGE).is_none());
        let mut window = file.window(4 * PAGE as u64, PAGE).unwrap();
        for (at, len) in [(0, PAGE + 1), (PAGE, 1), (PAGE - 1, 2), (usize::MAX, 2)] {
            assert!(!window.write(at, &bytes(1, len)), "{at}, {len}");
        }
        assert!(read(&file, 4 * PAGE, PAGE).iter().all(|byte| *byte == 0), "nothing was written");
        assert!(window.write(PAGE - 1, b"x") && window.write(PAGE, b""));
        assert_eq!(file.len().unwrap(), len, "and it is no longer");
    }
}

/// Behind room that was not taken, a store to memory might kill.
#[test]
fn there_is_no_window_where_no_room_was_taken() {
    for dir in places() {
        let disk = SystemDisk::open(dir.path()).unwrap();
        let file = disk.create("log").unwrap();
        assert!(file.window(0, PAGE).is_none(), "of nothing");
        file.write_at(&bytes(1, 3 * PAGE), 0).unwrap();
        assert!(file.window(0, PAGE).is_none(), "of what was only written");
        file.truncate(10 * PAGE as u64).unwrap();
        assert!(file.window(0, PAGE).is_none(), "of what is only long");
        file.allocate(12 * PAGE as u64).unwrap();
        assert!(file.window(10 * PAGE as u64, 2 * PAGE).is_some());
        file.truncate(11 * PAGE as u64).unwrap();
        assert!(file.window(10 * PAGE as u64, PAGE).is_some());
        assert!(file.window(11 * PAGE as u64, PAGE).is_none(), "what was cut off");
        assert!(file.window(0, 0).is_none(), "of no length");
        assert!(file.window(100, PAGE).is_none(), "from within a page");
        // Who opens it anew does not know what was taken.
        assert!(disk.open("log").unwrap().window(0, PAGE).is_none());
        let reader = SystemDisk::open_read_only(dir.path()).unwrap();
        assert!(reader.open("log").unwrap().window(0, PAGE).is_none());
    }
}

/// A host that does not write in place, and one that is not there at all.
#[test]
fn there_is_no_window_where_the_host_cannot() {
    let file = SimDisk::new().create("log").unwrap();
    file.allocate(WINDOW as u64).unwrap();
    assert!(file.window(0, PAGE).is_none());
    // Any file of a host that is none of those.
    let strange = std::fs::File::open("/proc/self/comm").unwrap();
    assert!(super::Mapped::new(&strange, 0, PAGE).is_none());
}

/// A small filesystem in memory, unmounted when it is dropped.
struct Small(TempDir);

impl Small {
    fn mount(bytes: usize) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(dir.path())
            .output();
        match mount {
            Ok(done) if done.status.success() => Some(Self(dir)),
            _ => {
                skip("a full disk: no right to mount a small one");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[test]
fn on_a_full_disk_there_is_no_window_and_nobody_is_killed() {
    let Some(small) = Small::mount(1 << 20) else { return };
    let disk = SystemDisk::open(small.0.path()).unwrap();
    let log = disk.create("log").unwrap();
    log.allocate(WINDOW as u64).unwrap();
    let mut window = log.window(0, WINDOW).unwrap();
    // A file that is long without having the room, and then the last room is gone.
    let thin = disk.create("thin").unwrap();
    thin.truncate(WINDOW as u64).unwrap();
    thin.allocate((WINDOW + PAGE) as u64).unwrap();
    let filler = disk.create("filler").unwrap();
    let mut len = 0;
    while filler.write_at(&bytes(1, PAGE), len).is_ok() {
        len += PAGE as u64;
    }
    // What was taken before is there, to the last byte.
    assert!(window.write(0, &bytes(2, WINDOW)));
    assert!(read(&log, 0, WINDOW) == bytes(2, WINDOW));
    // More is refused by a call, and where only the length is there, instead of a window.
    let refused = log.allocate(2 * WINDOW as u64).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    assert!(log.window(WINDOW as u64, PAGE).is_none());
    assert!(thin.window(0, WINDOW).is_none());
    // With room there is one again.
    disk.remove("filler").unwrap();
    drop(filler);
    log.allocate(2 * WINDOW as u64).unwrap();
    assert!(log.window(WINDOW as u64, WINDOW).unwrap().write(0, &bytes(3, WINDOW)));
    assert!(read(&log, WINDOW, WINDOW) == bytes(3, WINDOW));
}
