//! The kernel's caches: whether they can be dropped, and dropping them.

use super::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

const SWITCH: &str = "/proc/sys/vm/drop_caches";

fn switch() -> io::Result<File> {
    OpenOptions::new().write(true).open(SWITCH)
}

/// Whether this process may drop them.
pub(crate) fn can_drop() -> bool {
    switch().is_ok()
}

/// Drops pages, entries and inodes of all filesystems. Dirty pages would stay, so they are written first.
pub(crate) fn drop_all() -> Result<(), Error> {
    rustix::fs::sync();
    let dropped = switch().and_then(|mut file| file.write_all(b"3\n"));
    dropped.map_err(|error| Error::io("dropping the kernel's caches", Path::new(SWITCH), error))
}
