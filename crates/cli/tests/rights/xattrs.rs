//! Extended attributes: the namespaces of the system are not for users, and those of users not for
//! everything.

use crate::ground::Ground;
use crate::person::{ANN, BOB};
use rustix::fs::{
    CWD, FileType, Mode, XattrFlags, getxattr, listxattr, lsetxattr, mknodat, setxattr,
};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

fn set(path: &Path, name: &str) -> Result<(), Errno> {
    setxattr(path, name, b"value", XattrFlags::empty())
}

fn names(path: &Path) -> String {
    let mut buffer = [0; 1024];
    let len = listxattr(path, &mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..len]).into_owned()
}

#[test]
fn namespaces_are_guarded() {
    let Some(ground) = Ground::new("namespaces of attributes") else { return };
    let path = ground.file("file", b"x");
    chown(&path, Some(ANN.uid), Some(ANN.gid)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    set(&path, "trusted.secret").unwrap();
    set(&path, "security.label").unwrap();
    ANN.does(|| {
        set(&path, "user.own").unwrap();
        assert_eq!(set(&path, "trusted.secret"), Err(Errno::PERM));
        assert_eq!(set(&path, "trusted.new"), Err(Errno::PERM));
        assert_eq!(set(&path, "security.label"), Err(Errno::PERM));
        assert!(set(&path, "security.capability").is_err());
        assert_eq!(set(&path, "system.nonsense"), Err(Errno::OPNOTSUPP));
        assert_eq!(set(&path, "nonsense.name"), Err(Errno::OPNOTSUPP));
        assert_eq!(getxattr(&path, "trusted.secret", &mut [0; 64]), Err(Errno::NODATA));
        assert!(!names(&path).contains("trusted"), "{}", names(&path));
    });
    BOB.does(|| assert_eq!(set(&path, "user.other"), Err(Errno::ACCESS)));
    assert!(names(&path).contains("trusted.secret") && names(&path).contains("user.own"));
}

#[test]
fn attributes_of_users_are_for_files_and_directories() {
    let Some(ground) = Ground::new("attributes of special files") else { return };
    let fifo = ground.at("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let link = ground.at("link");
    symlink("file", &link).unwrap();
    assert_eq!(set(&fifo, "user.name"), Err(Errno::PERM));
    let on_link = lsetxattr(&link, "user.name", b"value", XattrFlags::empty());
    assert_eq!(on_link, Err(Errno::PERM));
    // In a directory where everybody may make names, only its owner gives it attributes.
    let sticky = ground.directory("sticky");
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(ANN.does(|| set(&sticky, "user.name")), Err(Errno::PERM));
    set(&sticky, "user.name").unwrap();
}
