//! `mount --recover`: what is left of a damaged store can be read, and the store is not touched.

use crate::bytes_of;
use crate::ground::{Ground, wait};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

const FILES: u64 = 120;

fn len_of(number: u64) -> usize {
    [100, 5_000, 70_000, 300_000][(number % 4) as usize]
}

/// A closed store with some tables, in `store`.
fn make(ground: &Ground, store: &Path, place: &Path) {
    fs::create_dir_all(place).unwrap();
    let words = ["mount", "--background", "--local=false", "--memory", "16M"].map(OsStr::new);
    let words: Vec<&OsStr> =
        words.into_iter().chain([store.as_os_str(), place.as_os_str()]).collect();
    let ended = ground.seamount(&words);
    assert!(ended.success(), "{ended}");
    for number in 0..FILES {
        fs::write(place.join(format!("file-{number}")), bytes_of(number, len_of(number))).unwrap();
    }
    ground.unmount_at(place);
    wait("the daemon ends", || !store.join("control").exists());
    let _ = fs::remove_file(store.join("daemon.log"));
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// Mounts what is left, and counts the files that can be read. None may be wrong. The error when
/// there is nothing to mount.
fn readable(ground: &Ground, store: &Path, place: &Path, context: &str) -> Result<u64, String> {
    let before = contents(store);
    let words = ["mount", "--recover", "--background"].map(OsStr::new);
    let words: Vec<&OsStr> =
        words.into_iter().chain([store.as_os_str(), place.as_os_str()]).collect();
    let ended = ground.seamount(&words);
    if !ended.success() {
        assert!(before == contents(store), "{context}: the store was changed");
        return Err(ended.all());
    }
    let mut right = 0;
    for number in 0..FILES {
        match fs::read(place.join(format!("file-{number}"))) {
            Ok(found) => {
                assert!(found == bytes_of(number, len_of(number)), "{context}: file {number}");
                right += 1;
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(5), "{context}: {error}"),
        }
    }
    let error = fs::write(place.join("new"), "x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(30), "{context}: {error}");
    ground.unmount_at(place);
    wait("the daemon ends", || {
        ground.daemons().iter().all(|pid| {
            let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
            !String::from_utf8_lossy(&words.unwrap_or_default()).contains("--recover")
        })
    });
    assert!(before == contents(store), "{context}: the store was changed");
    Ok(right)
}

#[test]
fn what_is_left_of_a_damaged_store_is_mounted_read_only() {
    let Some(ground) = Ground::new("recover") else { return };
    if ground.is_native() {
        return;
    }
    let beside = ground.beside();
    let (whole, place) = (beside.join("whole"), beside.join("mnt"));
    make(&ground, &whole, &place);
    assert_eq!(readable(&ground, &whole, &place, "nothing is damaged"), Ok(FILES));

    let names: Vec<String> = fs::read_dir(&whole)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let tables: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| name.starts_with("table")).collect();
    assert!(tables.len() > 1, "{names:?}");
    let mut left = 0;
    for name in ["format", "manifest"].iter().chain(&tables) {
        for kind in ["lost", "damaged"] {
            let context = format!("{name} {kind}");
            let store = beside.join("damaged");
            fs::create_dir(&store).unwrap();
            for name in &names {
                match whole.join(name).is_dir() {
                    true => fs::create_dir(store.join(name)).unwrap(),
                    false => drop(fs::copy(whole.join(name), store.join(name)).unwrap()),
                }
            }
            let path = store.join(name);
            let mut bytes = fs::read(&path).unwrap();
            match kind {
                "lost" => fs::remove_file(&path).unwrap(),
                _ if tables.contains(name) => {
                    let (start, end) = (bytes.len() / 2, bytes.len() / 4 * 3);
                    bytes[start..end].fill(0xee);
                    fs::write(&path, bytes).unwrap();
                }
                _ => {
                    bytes.fill(0xee);
                    fs::write(&path, bytes).unwrap();
                }
            }
            match readable(&ground, &store, &place, &context) {
                Ok(right) if tables.contains(name) => left += right,
                Ok(right) => assert_eq!(right, FILES, "{context}: its copy says it all"),
                // Without the table that has the volume's own record there is no volume.
                Err(words) => {
                    assert!(tables.contains(name) && words.contains(*name), "{context}: {words}");
                }
            }
            fs::remove_dir_all(&store).unwrap();
        }
    }
    let most = FILES * 2 * tables.len() as u64;
    assert!(0 < left && left < most, "of {most} files {left} were read");
}
