//! What the kernel sees of a private store.

use crate::ground::Ground;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

#[test]
fn files_are_written_and_read() {
    let ground = Ground::private();
    let path = ground.at("file");
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&path, &bytes).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let meta = fs::metadata(&path).unwrap();
    assert_eq!(meta.len(), bytes.len() as u64);
    assert!(meta.blocks() * 512 >= bytes.len() as u64 / 8);
    let mut file = fs::File::options().read(true).write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(10)).unwrap();
    file.write_all(b"hello").unwrap();
    let mut back = [0; 7];
    file.read_exact_at(&mut back, 9).unwrap();
    assert_eq!(&back[1..6], b"hello");
    file.set_len(12).unwrap();
    file.rewind().unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 12);
    file.sync_all().unwrap();
}

#[test]
fn names_are_made_moved_and_removed() {
    let ground = Ground::private();
    fs::create_dir(ground.at("d")).unwrap();
    for number in 0..300 {
        fs::write(ground.at(&format!("d/{number}")), number.to_string()).unwrap();
    }
    let mut names: Vec<_> =
        fs::read_dir(ground.at("d")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names.len(), 300);
    fs::rename(ground.at("d/7"), ground.at("seven")).unwrap();
    assert_eq!(fs::read(ground.at("seven")).unwrap(), b"7");
    assert!(fs::metadata(ground.at("d/7")).is_err());
    fs::hard_link(ground.at("seven"), ground.at("d/again")).unwrap();
    assert_eq!(fs::metadata(ground.at("seven")).unwrap().nlink(), 2);
    std::os::unix::fs::symlink("seven", ground.at("link")).unwrap();
    assert_eq!(fs::read(ground.at("link")).unwrap(), b"7");
    assert!(fs::remove_dir(ground.at("d")).is_err());
    fs::remove_dir_all(ground.at("d")).unwrap();
    assert_eq!(fs::metadata(ground.at("seven")).unwrap().nlink(), 1);
    assert_eq!(fs::read_dir(ground.path()).unwrap().count(), 2);
}

#[test]
fn a_birth_time_is_told() {
    let ground = Ground::private();
    fs::write(ground.at("f"), b"x").unwrap();
    let before = fs::metadata(ground.at("f")).unwrap().created().unwrap();
    fs::write(ground.at("f"), b"y").unwrap();
    let meta = fs::metadata(ground.at("f")).unwrap();
    assert_eq!(meta.created().unwrap(), before);
    assert!(meta.modified().unwrap() > before);
}
