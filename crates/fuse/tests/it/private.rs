//! What the kernel sees of a private store.

use crate::ground::Ground;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
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

#[test]
fn space_that_is_freed_is_seen() {
    let ground = Ground::private();
    let path = ground.at("f");
    // Bytes that do not compress, in more chunks than one transaction frees.
    let mut state = 1_u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(100 << 20)
    .collect();
    fs::write(&path, &bytes).unwrap();
    let before = fs::metadata(&path).unwrap().blocks();
    let file = fs::File::options().write(true).open(&path).unwrap();
    for keep in [95, 1] {
        file.set_len(keep << 20).unwrap();
        // The kernel keeps this answer until it is told otherwise.
        fs::metadata(&path).unwrap();
        base::block_on(ground.session.maintain()).unwrap();
        let after = fs::metadata(&path).unwrap().blocks();
        assert!(after <= before * keep / 100 + 200, "{before} became {after}");
    }
}

#[test]
fn a_read_of_what_the_kernel_has_cached_changes_the_access_time() {
    let ground = Ground::private();
    let path = ground.at("f");
    fs::write(&path, b"news").unwrap();
    let written = fs::metadata(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"news");
    let read = fs::metadata(&path).unwrap();
    assert!(read.accessed().unwrap() > written.modified().unwrap());
    // The next read does not, and is answered by the kernel.
    let reads = |ground: &Ground| {
        ground.mount.stats().iter().find(|stats| stats.name == "read").map(|stats| stats.count)
    };
    let before = reads(&ground);
    assert_eq!(fs::read(&path).unwrap(), b"news");
    assert_eq!(fs::metadata(&path).unwrap().accessed().unwrap(), read.accessed().unwrap());
    assert_eq!(reads(&ground), before);
}

/// The kernel keeps what a listing tells of names, and for ever: it must be what they are now.
#[test]
fn a_listing_brings_no_old_name_back() {
    let ground = Ground::private();
    let place = ground.at("d");
    fs::create_dir(&place).unwrap();
    for number in 0..900 {
        fs::write(place.join(format!("{number:03}")), number.to_string()).unwrap();
    }
    let dir = fs::File::open(&place).unwrap();
    let mut buffer = vec![MaybeUninit::uninit(); 4096];
    let mut listing = rustix::fs::RawDir::new(&dir, &mut buffer);
    let mut listed = vec![listing.next().unwrap().unwrap().file_name().to_owned()];
    while !listing.is_buffer_empty() {
        listed.push(listing.next().unwrap().unwrap().file_name().to_owned());
    }
    assert!(listed.len() < 400, "all at once");
    fs::rename(place.join("500"), place.join("moved")).unwrap();
    fs::rename(place.join("600"), place.join("601")).unwrap();
    fs::remove_file(place.join("700")).unwrap();
    fs::write(place.join("700"), b"anew").unwrap();
    fs::rename(place.join("800"), ground.at("elsewhere")).unwrap();
    let plus = |ground: &Ground| {
        let stats = ground.mount.stats();
        stats.iter().find(|stats| stats.name == "readdirplus").map_or(0, |stats| stats.count)
    };
    let before = plus(&ground);
    while let Some(entry) = {
        // The kernel asks for attributes on behalf of one who wants those that it was just told of.
        if listing.is_buffer_empty() {
            let last = std::str::from_utf8(listed.last().unwrap().to_bytes()).unwrap();
            fs::metadata(place.join(last)).unwrap();
        }
        listing.next()
    } {
        listed.push(entry.unwrap().file_name().to_owned());
    }
    assert!(plus(&ground) > before + 10, "attributes were not asked for");
    for gone in ["500", "600", "800"] {
        let found = fs::metadata(place.join(gone));
        assert_eq!(found.unwrap_err().kind(), std::io::ErrorKind::NotFound, "{gone}");
    }
    assert_eq!(fs::read(place.join("700")).unwrap(), b"anew");
    assert_eq!(fs::read(place.join("601")).unwrap(), b"600");
    assert_eq!(fs::read(place.join("moved")).unwrap(), b"500");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 898);
}
