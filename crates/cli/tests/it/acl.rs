//! Access control lists: the tools print the same as on the native filesystem, and the kernel obeys
//! them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use crate::ground::Ground;
use crate::person::{ANN, BOB};
use crate::tool::{has, shell};

/// The same lines on both filesystems; what they print must be the same.
fn alike(ground: &Ground, lines: &str) {
    let native = ground.beside().join("acl");
    let here = ground.at("acl");
    let run = |place: &Path| {
        fs::create_dir(place).unwrap();
        shell(place, lines)
    };
    let (want, found) = (run(&native), run(&here));
    assert!(want.contains("user:"), "the lines print lists");
    assert_eq!(found, want);
}

#[test]
fn the_tools_print_the_same_as_on_a_native_filesystem() {
    let proof = "setfacl and getfacl";
    let Some(ground) = Ground::new(proof) else { return };
    if !has(proof, &["setfacl", "getfacl"]) {
        return;
    }
    alike(
        &ground,
        "umask 022
        show() { getfacl -n \"$@\"; stat -c '%n %a %u %g' \"$@\"; }
        echo x > file
        setfacl -m u:61001:rw,g:62002:r file;          show file
        chmod 640 file;                                show file
        chmod g-rwx file;                              show file
        setfacl -m m::rwx file;                        show file
        setfacl -x u:61001 file;                       show file
        setfacl -b file;                               show file
        mkdir dir
        setfacl -d -m u:61001:rwx,g:62002:rx,o::- dir; show dir
        umask 077
        echo x > dir/file; mkdir dir/sub; mkfifo dir/fifo; ln -s x dir/link
        mkdir -m 700 dir/private; install -m 755 file dir/program
        show dir/file dir/sub dir/fifo dir/private dir/program
        umask 000; echo x > dir/open; mkdir -p dir/sub/deeper; show dir/open dir/sub/deeper
        setfacl -k dir/sub; umask 022; mkdir dir/sub/plain; show dir/sub dir/sub/plain
        cp -a dir copy; show copy copy/file copy/sub; mv copy/file moved; show moved
        chown 61002:62001 moved; show moved
        setfacl -m u:61001:rwx moved; chmod 4755 moved; show moved
        setfacl --restore=- <<EOF
# file: moved
user::r--
user:61005:rwx
group::---
mask::rwx
other::---
EOF
        show moved
        setfacl -m d:u:1:r file 2>&1 || echo refused",
    );
}

#[test]
fn the_kernel_obeys_them() {
    let proof = "access by ACL";
    let Some(mut ground) = Ground::new(proof) else { return };
    if !has(proof, &["setfacl"]) {
        return;
    }
    let path = ground.file("file", b"secret");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let reads = |path: &Path, who: crate::person::Person| {
        who.does(|| open(path, OFlags::RDONLY, Mode::empty()).is_ok())
    };
    let writes = |path: &Path, who: crate::person::Person| {
        who.does(|| open(path, OFlags::WRONLY, Mode::empty()).is_ok())
    };
    let set = |ground: &Ground, words: &str| shell(ground.root(), &format!("setfacl {words}"));
    let member = BOB.in_groups(&[63_000]);
    assert!(!reads(&path, ANN));
    set(&ground, "-m u:61001:rw file");
    assert!(reads(&path, ANN) && writes(&path, ANN) && !reads(&path, BOB));
    set(&ground, "-m m::r file");
    assert!(reads(&path, ANN) && !writes(&path, ANN), "the mask bounds a named user");
    set(&ground, "-m g:63000:r,m::rw file");
    assert!(reads(&path, member) && !writes(&path, member) && !reads(&path, BOB));
    set(&ground, "-m u:61002:- file");
    assert!(!reads(&path, member), "a named user decides before groups");
    ground.remount();
    assert!(reads(&path, ANN) && writes(&path, ANN) && !reads(&path, member));
    set(&ground, "-b file");
    assert!(!reads(&path, ANN));

    let place = ground.directory("place");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    set(&ground, "-d -m u:61002:rw,g::-,o::- place");
    ANN.does(|| fs::write(place.join("anns"), b"x").unwrap());
    assert!(reads(&place.join("anns"), BOB) && writes(&place.join("anns"), BOB));
    assert_eq!(
        fs::metadata(place.join("anns")).unwrap().mode() & 0o777,
        0o660,
        "the umask does not count"
    );
    let stranger = crate::person::Person { uid: 61_003, gid: 62_003, groups: &[] };
    assert!(!reads(&place.join("anns"), stranger));
    ANN.does(|| {
        fs::set_permissions(place.join("anns"), fs::Permissions::from_mode(0o600)).unwrap()
    });
    assert!(!reads(&place.join("anns"), BOB), "chmod moves the mask");
}
