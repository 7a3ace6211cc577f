//! A disk that is really full: a small filesystem of its own under the store.

use crate::bytes_of;
use crate::ground::{Ground, PATIENCE, wait};
use crate::tool::finish;
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

const DISK: &str = "size=64m";
const FILE_BYTES: usize = 400_000;

/// A small disk, gone when this is dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(place: PathBuf) -> Self {
        fs::create_dir(&place).unwrap();
        let ended = finish(
            Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "small-disk"]).arg(&place),
            PATIENCE,
        );
        assert!(ended.success(), "{ended}");
        Self(place)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        finish(Command::new("umount").arg("-l").arg(&self.0), PATIENCE);
    }
}

/// Writes a file and syncs it; its name is there whether that works or not.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Writes files until the disk is full. Returns those that were acknowledged.
fn fill(place: &Path, from: u64) -> Vec<u64> {
    let mut kept = Vec::new();
    for number in from.. {
        let path = place.join(format!("file-{number}"));
        match write(&path, &bytes_of(number, FILE_BYTES)) {
            Ok(()) => kept.push(number),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                let _ = fs::remove_file(&path);
                return kept;
            }
        }
    }
    kept
}

fn all_there(place: &Path, numbers: &[u64]) {
    for number in numbers {
        let found = fs::read(place.join(format!("file-{number}"))).unwrap();
        assert!(found == bytes_of(*number, FILE_BYTES), "file {number} is not what was written");
    }
}

#[test]
fn a_full_disk_can_be_read_and_emptied_and_written_again() {
    let Some(ground) = Ground::new("full disk") else { return };
    if ground.is_native() {
        return;
    }
    let disk = Disk::mount(ground.beside().join("small"));
    let place = ground.beside().join("mnt");
    fs::create_dir(&place).unwrap();
    let store = disk.0.join("store");
    ground.mount_at(store.as_os_str(), &place);
    let mut kept = fill(&place, 0);
    assert!(kept.len() > 30, "only {} files fit", kept.len());
    for round in 1..4u64 {
        all_there(&place, &kept);
        // Half of them go, one by one, while the disk is full.
        let gone: Vec<u64> =
            kept.iter().copied().filter(|number| number % 2 == round % 2).collect();
        for number in &gone {
            fs::remove_file(place.join(format!("file-{number}"))).unwrap();
        }
        kept.retain(|number| !gone.contains(number));
        all_there(&place, &kept);
        // Their space comes back, to the same daemon.
        let probe = place.join("probe");
        wait("there is room again", || write(&probe, &bytes_of(7, FILE_BYTES)).is_ok());
        fs::remove_file(&probe).unwrap();
        let new = fill(&place, round * 1_000);
        assert!(2 * new.len() >= gone.len(), "{} went and {} came", gone.len(), new.len());
        kept.extend(new);
    }
    // What grew can be cut short, and a directory can go, on a full disk too.
    fs::File::options()
        .write(true)
        .open(place.join(format!("file-{}", kept[0])))
        .unwrap()
        .set_len(10)
        .unwrap();
    kept.remove(0);
    all_there(&place, &kept);
    // A daemon that is killed on a full disk comes back on it.
    ground.unmount_at(&place);
    wait("the daemon ends", || !store.join("control").exists());
    ground.mount_at(store.as_os_str(), &place);
    all_there(&place, &kept);
    ground.unmount_at(&place);
    wait("the daemon ends", || !store.join("control").exists());
    let ended = ground.seamount(&[OsStr::new("fsck"), store.as_os_str()]);
    assert!(ended.success(), "{ended}");
}
