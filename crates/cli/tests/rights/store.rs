//! A store's files are their owner's alone, and one process's at a time.

use crate::person::{ANN, BOB};
use crate::site::Site;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Everything of a store is for its owner alone.
fn assert_private(store: &Path) {
    assert_eq!(fs::metadata(store).unwrap().mode() & 0o7777, 0o700, "{}", store.display());
    for entry in fs::read_dir(store).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            assert_private(&path);
            continue;
        }
        let mode = found.mode() & 0o7777;
        assert_eq!(mode, 0o600, "{} has mode {mode:o}", path.display());
    }
}

#[test]
fn everything_of_a_store_is_for_its_owner_alone() {
    let Some(site) = Site::new("modes of a store") else { return };
    let (store, place) = (site.at("store"), site.at("place"));
    // Also when whoever makes it gives everything to everybody, and the directory is there already.
    fs::create_dir(&store).unwrap();
    fs::create_dir(&place).unwrap();
    let words = [
        "mount".as_ref(),
        "--background".as_ref(),
        "--memory=1MiB".as_ref(),
        store.as_os_str(),
        place.as_os_str(),
    ];
    let mut command = site.behind("umask 0; exec \"$@\"", None, &words);
    let ended = crate::tool::finish(&mut command, crate::ground::PATIENCE);
    assert!(ended.success(), "{ended}");
    // Enough for tables.
    for number in 0..40_u8 {
        let bytes: Vec<u8> =
            (0..200_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8 ^ number).collect();
        fs::write(place.join(number.to_string()), bytes).unwrap();
    }
    assert_private(&store);
    assert!(store.join("control").exists() && store.join("daemon.log").exists());
    for who in [ANN, BOB] {
        who.does(|| {
            assert!(fs::read_dir(&store).is_err() && fs::read(store.join("format")).is_err());
        });
    }
    site.umount(None, &place);
    assert_private(&store);
}

#[test]
fn a_second_process_on_a_store_is_refused() {
    let Some(site) = Site::new("a second daemon") else { return };
    let (store, place) = (site.at("store"), site.at("place"));
    site.mount(None, &store, &place);
    fs::write(place.join("file"), "x").unwrap();
    let second = kv_local::Local::open_dir(&store, kv_local::Options::default());
    let words = second.expect_err("the store is in use").to_string();
    assert!(words.contains("in use by process"), "{words}");
    let other = site.at("other");
    let ended = site.run(None, &["mount".as_ref(), store.as_os_str(), other.as_os_str()]);
    assert_eq!(ended.status.unwrap().code(), Some(4), "{ended}");
    assert!(ended.all().contains("mounted already"), "{ended}");
    assert_eq!(fs::read(place.join("file")).unwrap(), b"x");
    site.umount(None, &place);
}
