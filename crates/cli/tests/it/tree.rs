//! Two trees compared: names, types, modes, owners, sizes, times, attributes, which names are one
//! file, and contents.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{lgetxattr, lgetxattr_query, llistxattr, llistxattr_query};

/// What is compared of one entry, except its contents.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Entry {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    /// Of files; elsewhere it is the filesystem's own affair.
    size: u64,
    device: u64,
    mtime: (i64, i64),
    target: Option<PathBuf>,
    xattrs: BTreeMap<OsString, Vec<u8>>,
    /// The first path that names the same inode, and how many there are.
    same_as: Option<(PathBuf, u64)>,
}

/// All entries below a directory, and itself as the empty path.
pub(crate) fn describe(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut entries = BTreeMap::new();
    let mut inodes: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    let mut places = vec![PathBuf::new()];
    while let Some(place) = places.pop() {
        let full = root.join(&place);
        let meta = fs::symlink_metadata(&full)
            .unwrap_or_else(|error| panic!("{}: {error}", full.display()));
        let kind = meta.file_type();
        if kind.is_dir() {
            for entry in fs::read_dir(&full).unwrap() {
                places.push(place.join(entry.unwrap().file_name()));
            }
        } else if meta.nlink() > 1 {
            inodes.entry(meta.ino()).or_default().push(place.clone());
        }
        let entry = Entry {
            kind: match () {
                () if kind.is_dir() => "directory",
                () if kind.is_symlink() => "symlink",
                () if kind.is_fifo() => "fifo",
                () if kind.is_socket() => "socket",
                () if kind.is_char_device() || kind.is_block_device() => "device",
                () => "file",
            },
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            size: if kind.is_file() { meta.len() } else { 0 },
            device: meta.rdev(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            target: kind.is_symlink().then(|| fs::read_link(&full).unwrap()),
            xattrs: xattrs(&full),
            same_as: None,
        };
        entries.insert(place, entry);
    }
    for mut paths in inodes.into_values() {
        paths.sort();
        for path in &paths {
            entries.get_mut(path).unwrap().same_as = Some((paths[0].clone(), paths.len() as u64));
        }
    }
    entries
}

/// The extended attributes of a path, those of security modules aside: they come from the machine's
/// policy.
pub(crate) fn xattrs(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut names = vec![0; llistxattr_query(path).unwrap()];
    llistxattr(path, &mut names[..]).unwrap();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if name.starts_with(b"security.") {
            continue;
        }
        let name = OsStr::from_bytes(name);
        let mut value = vec![0; lgetxattr_query(path, name).unwrap()];
        lgetxattr(path, name, &mut value[..]).unwrap();
        found.insert(name.to_owned(), value);
    }
    found
}

/// Fails with every difference between two trees. Times of directories are left out where `times`
/// says so: a program that does not set them leaves the moment at which it ran.
pub(crate) fn assert_same(one: &Path, other: &Path, times: Times) {
    let (left, right) = (describe(one), describe(other));
    let mut differences = Vec::new();
    for (path, entry) in &left {
        match right.get(path) {
            None => differences.push(format!("{}: only in the first", path.display())),
            Some(twin) => {
                let (mut entry, mut twin) = (entry.clone(), twin.clone());
                if times == Times::Ignored {
                    (entry.mtime, twin.mtime) = ((0, 0), (0, 0));
                }
                if entry != twin {
                    differences.push(format!("{}:\n  {entry:?}\n  {twin:?}", path.display()));
                } else if entry.kind == "file" && !same_bytes(&one.join(path), &other.join(path)) {
                    differences.push(format!("{}: the contents differ", path.display()));
                }
            }
        }
    }
    let only = right.keys().filter(|path| !left.contains_key(*path));
    differences.extend(only.map(|path| format!("{}: only in the second", path.display())));
    let shown = differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(
        differences.is_empty(),
        "{} differences of {} and {}:\n{shown}",
        differences.len(),
        one.display(),
        other.display()
    );
}

/// Whether times count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// To the nanosecond.
    Exact,
    /// Not.
    Ignored,
}

/// Whether two files hold the same bytes.
pub(crate) fn same_bytes(one: &Path, other: &Path) -> bool {
    let (mut left, mut right) = (File::open(one).unwrap(), File::open(other).unwrap());
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let count = left.read(&mut a).unwrap();
        if count == 0 {
            return right.read(&mut b).unwrap() == 0;
        }
        if right.read_exact(&mut b[..count]).is_err() || a[..count] != b[..count] {
            return false;
        }
    }
}
