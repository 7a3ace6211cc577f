//! Several volumes mounted at once: of two stores, and of one store, where the running daemon takes
//! the second on.

use std::ffi::OsString;
use std::fs;

use crate::ground::Ground;
use crate::tool::shell;
use crate::tree::{Times, assert_same};

#[test]
fn two_stores_at_once() {
    let Some(ground) = Ground::new("two stores") else { return };
    if ground.is_native() {
        return;
    }
    let place = ground.beside().join("mnt");
    fs::create_dir(&place).unwrap();
    ground.mount_at(ground.beside().join("store").as_os_str(), &place);
    shell(ground.root(), "mkdir tree; for i in $(seq 200); do echo $i > tree/$i; done");
    shell(ground.root(), &format!("cp -a tree '{}'", place.display()));
    assert_same(&ground.at("tree"), &place.join("tree"), Times::Exact);
    fs::write(place.join("tree/1"), b"other").unwrap();
    assert_eq!(fs::read(ground.at("tree/1")).unwrap(), b"1\n");
    let moved = fs::rename(place.join("tree/1"), ground.at("moved"));
    assert_eq!(moved.unwrap_err().raw_os_error(), Some(rustix::io::Errno::XDEV.raw_os_error()));
    ground.unmount_at(&place);
    assert_eq!(fs::read(ground.at("tree/2")).unwrap(), b"2\n", "the other mount goes on");
}

#[test]
fn two_volumes_of_one_store() {
    let Some(mut ground) = Ground::new("two volumes") else { return };
    let Some(store) = ground.store().map(OsString::from) else { return };
    let place = ground.beside().join("mnt");
    fs::create_dir(&place).unwrap();
    let mut second = store;
    second.push("#second");
    ground.mount_at(&second, &place);
    assert_eq!(ground.daemons().len(), 1, "the daemon that has the store serves both");
    ground.file("here", b"first");
    fs::write(place.join("here"), b"second").unwrap();
    assert_eq!(fs::read(ground.at("here")).unwrap(), b"first");
    ground.unmount();
    assert_eq!(fs::read(place.join("here")).unwrap(), b"second", "one mount goes, the other stays");
    ground.mount();
    assert_eq!(fs::read(ground.at("here")).unwrap(), b"first");
    ground.unmount_at(&place);
    ground.remount();
    ground.mount_at(&second, &place);
    assert_eq!(fs::read(place.join("here")).unwrap(), b"second");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
    ground.unmount_at(&place);
}
