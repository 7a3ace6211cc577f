//! Extended attributes: what is set is there, with its limits and its errors.

use std::fs;
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, lsetxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::ground::Ground;
use crate::tree::xattrs;

const ANY: XattrFlags = XattrFlags::empty();

fn get(path: &Path, name: &str, room: usize) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; room];
    let count = getxattr(path, name, &mut value[..])?;
    value.truncate(count);
    Ok(value)
}

#[test]
fn attributes_are_kept() {
    let Some(mut ground) = Ground::new("xattrs") else { return };
    let path = ground.file("file", b"x");
    let directory = ground.directory("directory");
    std::os::unix::fs::symlink("file", ground.at("link")).unwrap();
    let values: [(&str, &[u8]); 4] = [
        ("user.plain", b"value"),
        ("user.empty", b""),
        ("user.binary", b"\0\xff\n\0"),
        ("trusted.root", b"only"),
    ];
    for place in [&path, &directory] {
        for (name, value) in values {
            setxattr(place, name, value, XattrFlags::CREATE).unwrap();
        }
    }
    lsetxattr(ground.at("link"), "trusted.link", b"of the link", ANY).unwrap();
    assert_eq!(lsetxattr(ground.at("link"), "user.link", b"x", ANY), Err(Errno::PERM));
    ground.remount();
    for place in [&path, &directory] {
        let found = xattrs(place);
        assert_eq!(found.len(), values.len());
        for (name, value) in values {
            assert_eq!(found[std::ffi::OsStr::new(name)], value);
        }
    }
    assert_eq!(xattrs(&ground.at("link")).len(), 1);
    assert_eq!(setxattr(&path, "user.plain", b"x", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(setxattr(&path, "user.missing", b"x", XattrFlags::REPLACE), Err(Errno::NODATA));
    setxattr(&path, "user.plain", b"longer than before", XattrFlags::REPLACE).unwrap();
    assert_eq!(get(&path, "user.plain", 100).unwrap(), b"longer than before");
    removexattr(&path, "user.plain").unwrap();
    assert_eq!(removexattr(&path, "user.plain"), Err(Errno::NODATA));
    assert_eq!(get(&path, "user.plain", 100), Err(Errno::NODATA));
    fs::rename(&path, ground.at("renamed")).unwrap();
    assert_eq!(get(&ground.at("renamed"), "user.binary", 100).unwrap(), b"\0\xff\n\0");
}

#[test]
fn limits_of_attributes() {
    let Some(ground) = Ground::new("xattr limits") else { return };
    let path = ground.file("file", b"x");
    setxattr(&path, "user.value", b"0123456789", ANY).unwrap();
    assert_eq!(get(&path, "user.value", 9), Err(Errno::RANGE));
    assert_eq!(rustix::fs::getxattr_query(&path, "user.value"), Ok(10));
    let mut small = [0; 3];
    assert_eq!(rustix::fs::listxattr(&path, &mut small[..]), Err(Errno::RANGE));
    assert_eq!(setxattr(&path, "user.large", &vec![1; 65_537], ANY), Err(Errno::TOOBIG));
    assert_eq!(setxattr(&path, format!("user.{}", "n".repeat(251)), b"x", ANY), Err(Errno::RANGE));
    assert_eq!(setxattr(&path, "nowhere.name", b"x", ANY), Err(Errno::OPNOTSUPP));
    let longest = format!("user.{}", "n".repeat(250));
    setxattr(&path, &longest, b"x", ANY).unwrap();
    assert_eq!(get(&path, &longest, 10).unwrap(), b"x");
    // A native filesystem may keep them all in one block; this one must not.
    if !ground.is_native() {
        setxattr(&path, "user.large", &vec![7; 65_536], ANY).unwrap();
        assert_eq!(get(&path, "user.large", 65_536).unwrap(), vec![7; 65_536]);
        for number in 0..500 {
            setxattr(&path, format!("user.{number}"), &[8; 100], ANY).unwrap();
        }
        assert_eq!(xattrs(&path).len(), 503);
    }
}
