//! Space inside a file: allocating, holes and where they are, copying ranges, and a file of an
//! exbibyte.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use rustix::io::Errno;

use crate::ground::Ground;

const MIB: u64 = 1 << 20;

fn editable(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn blocks(file: &File) -> u64 {
    file.metadata().unwrap().blocks()
}

#[test]
fn allocating_takes_space_and_reads_as_zeros() {
    let Some(ground) = Ground::new("fallocate") else { return };
    let file = editable(&ground.at("file"));
    file.write_all_at(b"start", 0).unwrap();
    fallocate(&file, FallocateFlags::empty(), MIB, MIB).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2 * MIB);
    fallocate(&file, FallocateFlags::KEEP_SIZE, 2 * MIB, MIB).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2 * MIB);
    let bytes = fs::read(ground.at("file")).unwrap();
    assert!(bytes.starts_with(b"start") && bytes[5..].iter().all(|byte| *byte == 0));
    assert_eq!(fallocate(&file, FallocateFlags::empty(), 0, 0), Err(Errno::INVAL));
    let reader = File::open(ground.at("file")).unwrap();
    assert_eq!(fallocate(&reader, FallocateFlags::empty(), 0, 1), Err(Errno::BADF));
}

#[test]
fn punching_and_zeroing() {
    let Some(ground) = Ground::new("punch and zero") else { return };
    let file = editable(&ground.at("file"));
    file.write_all_at(&vec![9; 16 * MIB as usize], 0).unwrap();
    file.sync_all().unwrap();
    let full = blocks(&file);
    assert!(full * 512 >= 8 * MIB / 100, "a full file takes space");
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, 100, 12 * MIB).unwrap();
    file.sync_all().unwrap();
    assert!(blocks(&file) < full, "a hole takes none: {} of {full}", blocks(&file));
    fallocate(&file, FallocateFlags::ZERO_RANGE, 14 * MIB - 10, 3 * MIB).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 17 * MIB - 10);
    fallocate(&file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 17 * MIB - 20, MIB)
        .unwrap();
    assert_eq!(file.metadata().unwrap().len(), 17 * MIB - 10);
    fallocate(&file, hole, 40 * MIB, MIB).unwrap();
    assert_eq!(
        file.metadata().unwrap().len(),
        17 * MIB - 10,
        "a hole behind the end changes nothing"
    );
    let bytes = fs::read(ground.at("file")).unwrap();
    for (at, byte) in bytes.iter().enumerate() {
        let at = at as u64;
        let want = if at < 100 || (12 * MIB + 100..14 * MIB - 10).contains(&at) { 9 } else { 0 };
        assert!(*byte == want, "byte {at} is {byte}");
    }
    // What is not done is refused, and harms nothing.
    if !ground.is_native() {
        for flags in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
            assert_eq!(fallocate(&file, flags, 0, 4096), Err(Errno::OPNOTSUPP));
        }
        assert!(fs::read(ground.at("file")).unwrap() == bytes);
    }
}

#[test]
fn seeking_finds_data_and_holes() {
    let Some(ground) = Ground::new("SEEK_DATA") else { return };
    let file = editable(&ground.at("file"));
    file.write_all_at(&vec![1; MIB as usize], 0).unwrap();
    file.write_all_at(&vec![2; MIB as usize], 64 * MIB).unwrap();
    let end = 65 * MIB;
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(0));
    let hole = seek(&file, SeekFrom::Hole(0)).unwrap();
    assert!((MIB..64 * MIB).contains(&hole), "the hole is found: {hole}");
    let data = seek(&file, SeekFrom::Data(hole)).unwrap();
    assert!(data > hole && data <= 64 * MIB, "the second piece is found: {data}");
    assert_eq!(seek(&file, SeekFrom::Hole(64 * MIB)), Ok(end), "the end counts as a hole");
    assert_eq!(seek(&file, SeekFrom::Data(end)), Err(Errno::NXIO));
    assert_eq!(seek(&file, SeekFrom::Hole(end + 1)), Err(Errno::NXIO));
    file.set_len(80 * MIB).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(70 * MIB)), Err(Errno::NXIO), "only a hole is left");
    assert_eq!(seek(&file, SeekFrom::End(0)), Ok(80 * MIB));
}

#[test]
fn ranges_are_copied() {
    let Some(ground) = Ground::new("copy_file_range") else { return };
    let source = editable(&ground.at("source"));
    let bytes: Vec<u8> = (0..10 * MIB).map(|at| (at % 251) as u8).collect();
    source.write_all_at(&bytes, 0).unwrap();
    let target = editable(&ground.at("target"));
    target.write_all_at(b"head", 0).unwrap();
    let (mut from, mut to) = (1000, 5000);
    loop {
        let count =
            copy_file_range(&source, Some(&mut from), &target, Some(&mut to), 4 << 20).unwrap();
        if count == 0 {
            break;
        }
    }
    let found = fs::read(ground.at("target")).unwrap();
    assert_eq!(found.len(), 5000 + bytes.len() - 1000, "it ends at the end of the source");
    assert!(found.starts_with(b"head") && found[4..5000].iter().all(|byte| *byte == 0));
    assert!(found[5000..] == bytes[1000..]);
    let (mut from, mut to) = (0, 100);
    let overlap = copy_file_range(&source, Some(&mut from), &source, Some(&mut to), 1000);
    assert_eq!(overlap, Err(Errno::INVAL));
    let reader = File::open(ground.at("target")).unwrap();
    assert_eq!(copy_file_range(&source, None, &reader, None, 10), Err(Errno::BADF));
}

#[test]
fn a_file_of_an_exbibyte() {
    // A file of the host has the host's bounds.
    let Some(mut ground) = Ground::in_store("1 EiB file") else { return };
    // A native filesystem may not have room for such numbers; this one must.
    let size: u64 = if ground.is_native() { 8 << 40 } else { 1 << 60 };
    let path = ground.at("huge");
    let file = editable(&path);
    file.set_len(size).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    file.write_all_at(b"last", size - 4).unwrap();
    let check = |file: &File| {
        let meta = file.metadata().unwrap();
        assert_eq!(meta.len(), size);
        assert!(meta.blocks() * 512 < 64 * MIB, "it takes {} blocks", meta.blocks());
        let mut bytes = [1; 8];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"first\0\0\0");
        file.read_exact_at(&mut bytes, size - 8).unwrap();
        assert_eq!(&bytes, b"\0\0\0\0last");
        file.read_exact_at(&mut bytes, size / 2).unwrap();
        assert_eq!(bytes, [0; 8]);
        let hole = seek(file, SeekFrom::Hole(0)).unwrap();
        assert!(hole < 64 * MIB);
        let data = seek(file, SeekFrom::Data(hole)).unwrap();
        assert!(data > size - 64 * MIB, "the last piece is found across the hole: {data}");
    };
    check(&file);
    drop(file);
    ground.remount();
    let file = editable(&path);
    check(&file);
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, 0, size).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)), Err(Errno::NXIO));
    file.set_len(1).unwrap();
    drop(file);
    fs::remove_file(&path).unwrap();
}
