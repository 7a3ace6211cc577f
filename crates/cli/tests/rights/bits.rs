//! Set-user and set-group bits of files that others write to: as the host takes them.

use crate::person::BOB;
use crate::site::Site;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// More than goes into a record: the bytes are in a file of the home, which the kernel may write to by itself.
const LARGE: usize = 200_000;

/// What is left of a mode when a stranger has written to the file.
fn left(dir: &Path, len: usize, mode: u32) -> u32 {
    let path = dir.join(format!("{mode:o}-{len}"));
    fs::write(&path, vec![1; len]).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    BOB.does(|| {
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"more").unwrap();
    });
    fs::metadata(&path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn who_writes_takes_the_bits_that_the_host_takes() {
    let Some(site) = Site::new("set-user bits that others take") else { return };
    let (store, place) = (site.at("store"), site.directory("place", None, 0o755));
    let host = site.directory("host", None, 0o755);
    site.mount(None, &store, &place);
    fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
    for len in [10, LARGE] {
        for mode in [0o4666, 0o2666, 0o2676, 0o6666, 0o6777, 0o666] {
            assert_eq!(
                format!("{:o}", left(&place, len, mode)),
                format!("{:o}", left(&host, len, mode)),
                "{mode:o}, {len} bytes"
            );
        }
    }
    site.umount(None, &place);
}
