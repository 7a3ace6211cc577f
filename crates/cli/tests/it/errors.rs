//! Refusals that programs know by their number, and the figures that they ask for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags, link, open, rename, rmdir, statvfs, unlink};
use rustix::io::Errno;

use crate::ground::Ground;

#[test]
fn names_and_paths_that_are_too_long() {
    let Some(ground) = Ground::new("ENAMETOOLONG") else { return };
    let (longest, longer) = ("n".repeat(255), "n".repeat(256));
    let path = ground.file(&longest, b"x");
    assert_eq!(fs::read(path).unwrap(), b"x");
    let create = OFlags::CREATE | OFlags::WRONLY;
    assert_eq!(open(ground.at(&longer), create, Mode::empty()).unwrap_err(), Errno::NAMETOOLONG);
    assert_eq!(rustix::fs::mkdir(ground.at(&longer), Mode::empty()), Err(Errno::NAMETOOLONG));
    assert_eq!(rename(ground.at(&longest), ground.at(&longer)), Err(Errno::NAMETOOLONG));
    assert_eq!(rustix::fs::stat(ground.at(&longer)).unwrap_err(), Errno::NAMETOOLONG);
    let path = ground.at("a/".repeat(2100));
    assert_eq!(rustix::fs::stat(path).unwrap_err(), Errno::NAMETOOLONG);
}

#[test]
fn removing_the_wrong_thing() {
    let Some(ground) = Ground::new("unlink and rmdir errors") else { return };
    let file = ground.file("file", b"x");
    ground.directory("directory");
    ground.directory("directory/below");
    assert_eq!(rmdir(ground.at("directory")), Err(Errno::NOTEMPTY));
    assert_eq!(rmdir(&file), Err(Errno::NOTDIR));
    assert_eq!(rmdir(ground.at("missing")), Err(Errno::NOENT));
    assert_eq!(rmdir(ground.at("directory/below/.")), Err(Errno::INVAL));
    assert_eq!(rmdir(ground.at("directory/below/..")), Err(Errno::NOTEMPTY));
    assert_eq!(unlink(ground.at("directory")), Err(Errno::ISDIR));
    assert_eq!(unlink(file.join("below")), Err(Errno::NOTDIR));
    assert_eq!(link(ground.at("directory"), ground.at("other")), Err(Errno::PERM));
    assert_eq!(link(&file, ground.at("directory")), Err(Errno::EXIST));
    assert_eq!(rustix::fs::mkdir(&file, Mode::empty()), Err(Errno::EXIST));
    assert_eq!(symlink("x", &file).unwrap_err().raw_os_error(), Some(Errno::EXIST.raw_os_error()));
}

#[test]
fn other_filesystems_are_other() {
    let Some(ground) = Ground::new("EXDEV") else { return };
    let file = ground.file("file", b"x");
    let other = if ground.is_native() {
        PathBuf::from("/dev/shm/seamount-proof")
    } else {
        ground.beside().join("x")
    };
    assert_eq!(rename(&file, &other), Err(Errno::XDEV));
    assert_eq!(link(&file, &other), Err(Errno::XDEV));
}

#[test]
fn links_of_any_length_and_loops() {
    let Some(mut ground) = Ground::new("symlinks") else { return };
    for length in [1, 59, 60, 61, 255, 1000, 4000, 4095] {
        symlink("x".repeat(length), ground.at(format!("link-{length}"))).unwrap();
    }
    ground.remount();
    for length in [1, 59, 60, 61, 255, 1000, 4000, 4095] {
        let path = ground.at(format!("link-{length}"));
        assert_eq!(fs::read_link(&path).unwrap().as_os_str().len(), length);
        assert_eq!(fs::symlink_metadata(&path).unwrap().len(), length as u64);
    }
    let longer = rustix::fs::symlink("x".repeat(4096), ground.at("longer"));
    assert_eq!(longer, Err(Errno::NAMETOOLONG));
    symlink("loop-b", ground.at("loop-a")).unwrap();
    symlink("loop-a", ground.at("loop-b")).unwrap();
    assert_eq!(rustix::fs::stat(ground.at("loop-a")).unwrap_err(), Errno::LOOP);
    ground.file("chain-0", b"end");
    for number in 1..=41 {
        symlink(format!("chain-{}", number - 1), ground.at(format!("chain-{number}"))).unwrap();
    }
    assert_eq!(fs::read(ground.at("chain-40")).unwrap(), b"end");
    assert_eq!(rustix::fs::stat(ground.at("chain-41")).unwrap_err(), Errno::LOOP);
    symlink("..", ground.at("up")).unwrap();
    assert!(ground.at("up").is_dir());
    assert_eq!(
        rustix::fs::readlinkat(CWD, ground.at("chain-0"), Vec::new()).unwrap_err(),
        Errno::INVAL
    );
}

#[test]
fn figures_of_the_filesystem_are_sane() {
    let Some(ground) = Ground::new("statfs") else { return };
    let before = statvfs(ground.root()).unwrap();
    assert_eq!(before.f_namemax, 255);
    assert!(before.f_bsize.is_power_of_two() && before.f_frsize >= 512);
    assert!(
        before.f_blocks > 0
            && before.f_bfree <= before.f_blocks
            && before.f_bavail <= before.f_bfree
    );
    assert!(before.f_files > 0 && before.f_ffree <= before.f_files && before.f_ffree > 0);
    assert!(before.f_bavail * before.f_frsize > 1 << 20, "there is room");
    let text = crate::tool::shell(ground.root(), "df -P . | tail -1; df -Pi . | tail -1");
    assert_eq!(text.lines().count(), 2);
}
