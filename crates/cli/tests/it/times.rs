//! Times: to the nanosecond, before 1970 and after 2038, kept across mounts, and changed by what
//! must change them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, StatxFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, statx, utimensat,
};

use crate::ground::{Ground, wait};

type Time = (i64, i64);

fn times(path: &Path) -> [Time; 3] {
    let meta = fs::symlink_metadata(path).unwrap();
    [
        (meta.atime(), meta.atime_nsec()),
        (meta.mtime(), meta.mtime_nsec()),
        (meta.ctime(), meta.ctime_nsec()),
    ]
}

fn set(path: &Path, atime: Time, mtime: Time) {
    let spec = |time: Time| Timespec { tv_sec: time.0, tv_nsec: time.1 as _ };
    let stamps = Timestamps { last_access: spec(atime), last_modification: spec(mtime) };
    utimensat(CWD, path, &stamps, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn birth(path: &Path) -> Time {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME).unwrap();
    assert!(found.stx_mask & StatxFlags::BTIME.bits() != 0, "there is a time of birth");
    (found.stx_btime.tv_sec, found.stx_btime.tv_nsec.into())
}

/// Lets the kernel's coarse clock tick.
fn tick(path: &Path) {
    let probe = path.with_extension("tick");
    let first = {
        fs::write(&probe, b"").unwrap();
        times(&probe)[1]
    };
    wait("the clock ticks", || {
        fs::write(&probe, b"").unwrap();
        times(&probe)[1] > first
    });
    fs::remove_file(probe).unwrap();
}

#[test]
fn set_times_are_kept_to_the_nanosecond() {
    let Some(mut ground) = Ground::new("utimensat") else { return };
    let moments: [Time; 5] =
        [(0, 1), (-2, 999_999_999), (1_700_000_000, 123_456_789), (1 << 32, 5), (1 << 33, 0)];
    for (number, moment) in moments.iter().enumerate() {
        set(&ground.file(format!("{number}"), b""), *moment, (moment.0, 77));
    }
    std::os::unix::fs::symlink("0", ground.at("link")).unwrap();
    set(&ground.at("link"), (5, 6), (7, 8));
    set(&ground.directory("directory"), (1, 2), (3, 4));
    let check = |ground: &Ground| {
        for (number, moment) in moments.iter().enumerate() {
            let found = times(&ground.at(format!("{number}")));
            assert_eq!(found[..2], [*moment, (moment.0, 77)]);
        }
        assert_eq!(times(&ground.at("link"))[..2], [(5, 6), (7, 8)]);
        assert_eq!(times(&ground.at("directory"))[..2], [(1, 2), (3, 4)]);
    };
    check(&ground);
    ground.remount();
    check(&ground);
    let path = ground.at("1");
    set(&path, (0, UTIME_OMIT), (9, 9));
    assert_eq!(times(&path)[..2], [(-2, 999_999_999), (9, 9)]);
    set(&path, (0, UTIME_NOW), (0, UTIME_OMIT));
    assert!(times(&path)[0].0 > 1_700_000_000);
    assert_eq!(times(&path)[1], (9, 9));
}

#[test]
fn the_time_of_birth_stays() {
    let Some(mut ground) = Ground::new("statx birth time") else { return };
    let before =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
            as i64
            - 1;
    let path = ground.file("child", b"x");
    let born = birth(&path);
    assert!(born.0 >= before);
    fs::write(&path, b"changed").unwrap();
    set(&path, (1, 1), (1, 1));
    fs::rename(&path, ground.at("renamed")).unwrap();
    assert_eq!(birth(&ground.at("renamed")), born);
    ground.remount();
    assert_eq!(birth(&ground.at("renamed")), born);
}

#[test]
fn changes_move_the_times_that_they_must() {
    let Some(ground) = Ground::new("times of changes") else { return };
    let place = ground.directory("place");
    let path = place.join("file");
    let moved = |what: &str, of: &Path, which: [bool; 2], change: &mut dyn FnMut()| {
        tick(&ground.at("ticker"));
        let old = times(of);
        change();
        let new = times(of);
        assert_eq!(
            [new[1] > old[1], new[2] > old[2]],
            which,
            "{what}: mtime, ctime moved? {old:?} {new:?}"
        );
    };
    moved("create, of the directory", &place, [true, true], &mut || {
        fs::write(&path, b"x").unwrap()
    });
    moved("write", &path, [true, true], &mut || fs::write(&path, b"y").unwrap());
    moved("write, of the directory", &place, [false, false], &mut || {
        fs::write(&path, b"y").unwrap()
    });
    let file = File::options().write(true).open(&path).unwrap();
    moved("truncate", &path, [true, true], &mut || file.set_len(100).unwrap());
    let mode = |mode| {
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap()
    };
    moved("chmod", &path, [false, true], &mut || mode(0o600));
    moved("link", &path, [false, true], &mut || fs::hard_link(&path, place.join("twin")).unwrap());
    moved("unlink", &path, [false, true], &mut || fs::remove_file(place.join("twin")).unwrap());
    moved("rename", &path, [false, true], &mut || {
        fs::rename(&path, place.join("other")).unwrap();
        fs::rename(place.join("other"), &path).unwrap();
    });
    moved("rename, of the directory", &place, [true, true], &mut || {
        fs::rename(&path, place.join("z")).unwrap()
    });
    moved("unlink, of the directory", &place, [true, true], &mut || {
        fs::remove_file(place.join("z")).unwrap()
    });
}

#[test]
fn reading_moves_an_old_time_of_access() {
    let Some(mut ground) = Ground::new("relatime") else { return };
    let path = ground.file("read", b"to be read");
    set(&path, (1000, 0), (2000, 0));
    ground.remount();
    fs::read(&path).unwrap();
    wait("the time of access moves after a read", || times(&path)[0].0 > 2000);
    assert_eq!(times(&path)[1], (2000, 0));
}
