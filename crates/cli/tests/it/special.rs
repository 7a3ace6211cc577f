//! Things that are no files: pipes, sockets and devices.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::ground::Ground;

#[test]
fn pipes_and_sockets_carry_bytes() {
    let Some(mut ground) = Ground::new("fifos and sockets") else { return };
    let pipe = ground.at("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::read(pipe).unwrap())
    };
    File::options().write(true).open(&pipe).unwrap().write_all(&[3; 200_000]).unwrap();
    assert!(reader.join().unwrap() == [3; 200_000]);

    // A socket's path is short: its own directory is the way to it.
    let place = rustix::fs::open(ground.root(), rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
    let path = format!("/proc/self/fd/{}/socket", std::os::fd::AsRawFd::as_raw_fd(&place));
    let listener = UnixListener::bind(&path).unwrap();
    assert!(fs::symlink_metadata(ground.at("socket")).unwrap().file_type().is_socket());
    let server = std::thread::spawn(move || {
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        text
    });
    UnixStream::connect(&path).unwrap().write_all(b"hello").unwrap();
    assert_eq!(server.join().unwrap(), "hello");
    drop(place);
    ground.remount();
    assert!(fs::symlink_metadata(ground.at("socket")).unwrap().file_type().is_socket());
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn devices_keep_their_numbers() {
    let Some(mut ground) = Ground::new("mknod") else { return };
    let numbers = [(1, 3), (8, 0), (255, 255), (4095, 1_048_575)];
    let kinds = [("c", FileType::CharacterDevice), ("b", FileType::BlockDevice)];
    let mode = Mode::from_raw_mode(0o600);
    for (major, minor) in numbers {
        for (letter, kind) in kinds {
            let path = ground.at(format!("{letter}-{major}-{minor}"));
            mknodat(CWD, path, kind, mode, makedev(major, minor)).unwrap();
        }
    }
    mknodat(CWD, ground.at("plain"), FileType::RegularFile, mode, 0).unwrap();
    ground.remount();
    for (major, minor) in numbers {
        for (letter, kind) in kinds {
            let meta =
                fs::symlink_metadata(ground.at(format!("{letter}-{major}-{minor}"))).unwrap();
            assert_eq!(FileType::from_raw_mode(meta.mode()), kind);
            assert_eq!(meta.rdev(), makedev(major, minor), "{letter} {major} {minor}");
        }
    }
    fs::write(ground.at("plain"), b"a file like any other").unwrap();
    // The superuser's mount has devices that work.
    let mut byte = [0];
    assert_eq!(
        File::open(ground.at("c-1-3")).unwrap().read(&mut byte).unwrap(),
        0,
        "it is /dev/null"
    );
}
