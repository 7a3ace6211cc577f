//! tar and rsync both ways with a tree of everything that they can carry, compared entry by entry.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, lsetxattr, setxattr, utimensat};

use crate::draw::Draw;
use crate::ground::Ground;
use crate::tool::{has, shell};
use crate::tree::{Times, assert_same, describe, same_bytes};

/// A tree with hard links, attributes, lists, holes, odd modes, owners, names and times.
fn plant(root: &Path) {
    let mut draw = Draw::new(11);
    fs::create_dir(root).unwrap();
    let odd =
        ["plain", "with space", "-dash", "new\nline", "quote'\"", "back\\slash", "*?[", "ünïcode"];
    for (number, name) in odd.iter().enumerate() {
        let place = root.join(format!("{name} dir"));
        fs::create_dir(&place).unwrap();
        for file in 0..25_usize {
            let path = place.join(format!("{name}{file}"));
            let length = if file == 0 { 0 } else { draw.below(1 << (6 + file % 12)) as usize };
            fs::write(&path, draw.bytes(length)).unwrap();
            let bits = [0o644, 0o000, 0o777, 0o4755, 0o2711, 0o1600][(number + file) % 6];
            if file % 5 == 0 {
                lchown(&path, Some(61_001 + file as u32), Some(62_001)).unwrap();
                setxattr(&path, "user.note", &draw.bytes(file * 7), XattrFlags::empty()).unwrap();
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
        }
        fs::hard_link(place.join(format!("{name}3")), root.join(format!("{name} link"))).unwrap();
        fs::hard_link(place.join(format!("{name}3")), place.join("again")).unwrap();
        symlink(format!("{name} dir/{name}1"), root.join(format!("{name} symlink"))).unwrap();
        lchown(root.join(format!("{name} symlink")), Some(61_001), Some(62_001)).unwrap();
    }
    symlink("/nowhere/".repeat(30), root.join("dangling")).unwrap();
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(128 << 20).unwrap();
    sparse.write_all_at(&draw.bytes(70_000), 100 << 20).unwrap();
    shell(
        root,
        "mkfifo -m 640 fifo; mknod device c 1 3; mkdir -m 2775 setgid; mkdir -m 1777 sticky; mkdir empty",
    );
    if crate::tool::find("setfacl").is_some() {
        shell(
            root,
            "setfacl -m u:61001:rw,g:62002:r 'plain dir/plain7'; setfacl -d -m u:61002:rwx setgid",
        );
    }
    lsetxattr(root.join("dangling"), "trusted.x", b"of a link", XattrFlags::empty()).unwrap();
    // Last, and the deepest first: making things changes the times of directories.
    for (number, path) in describe(root).keys().rev().enumerate() {
        let moment = Timespec {
            tv_sec: 1_500_000_000 + number as i64 * 1013,
            tv_nsec: (number as i64 * 7_654_321) % 1_000_000_000,
        };
        let times = Timestamps { last_access: moment, last_modification: moment };
        utimensat(CWD, root.join(path), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

fn is_sparse(path: &Path) -> bool {
    fs::metadata(path).unwrap().blocks() < 20_000
}

#[test]
fn rsync_carries_everything_both_ways() {
    let proof = "rsync";
    let Some(mut ground) = Ground::new(proof) else { return };
    if !has(proof, &["rsync"]) {
        return;
    }
    let (source, back) = (ground.beside().join("source"), ground.beside().join("back"));
    plant(&source);
    let rsync = |from: &Path, to: &Path| {
        let words = format!("rsync -aHAXS --numeric-ids '{}/' '{}/'", from.display(), to.display());
        shell(Path::new("/"), &words);
    };
    rsync(&source, &ground.at("copy"));
    assert_same(&source, &ground.at("copy"), Times::Exact);
    assert!(is_sparse(&ground.at("copy/sparse")));
    ground.remount();
    assert_same(&source, &ground.at("copy"), Times::Exact);
    rsync(&ground.at("copy"), &back);
    assert_same(&source, &back, Times::Exact);
    assert!(is_sparse(&back.join("sparse")), "holes are seen by who copies them");
    let again = shell(
        Path::new("/"),
        &format!(
            "rsync -aHAXSi --numeric-ids '{}/' '{}/'",
            source.display(),
            ground.at("copy").display()
        ),
    );
    assert_eq!(again, "", "a second run finds nothing to do");
}

#[test]
fn tar_carries_everything_both_ways() {
    let proof = "tar";
    let Some(ground) = Ground::new(proof) else { return };
    if !has(proof, &["tar"]) {
        return;
    }
    let source = ground.beside().join("source");
    plant(&source);
    let words = "--format=posix --sparse-version=0.0 \
        --pax-option=delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f --xattrs --xattrs-include='*' --acls -S \
        --hole-detection=raw --numeric-owner --sort=name";
    let pack = |place: &Path, archive: &Path| {
        shell(place, &format!("tar {words} -cf '{}' .", archive.display()));
    };
    let unpack = |place: &Path, archive: &Path| {
        fs::create_dir(place).unwrap();
        shell(place, &format!("tar {words} -xpf '{}'", archive.display()));
    };
    let (first, second) = (ground.beside().join("first.tar"), ground.at("second.tar"));
    pack(&source, &first);
    unpack(&ground.at("copy"), &first);
    assert_same(&source, &ground.at("copy"), Times::Exact);
    assert!(is_sparse(&ground.at("copy/sparse")));
    pack(&ground.at("copy"), &second);
    assert!(same_bytes(&first, &second), "the archives are the same, byte for byte");
    unpack(&ground.beside().join("back"), &second);
    assert_same(&source, &ground.beside().join("back"), Times::Exact);
}

#[test]
fn cp_carries_a_tree_and_says_what_it_cannot_share() {
    let proof = "cp";
    let Some(ground) = Ground::new(proof) else { return };
    let source = ground.beside().join("source");
    plant(&source);
    shell(
        ground.root(),
        &format!("cp -a '{}' copy && cp -a --reflink=auto copy second", source.display()),
    );
    assert_same(&source, &ground.at("copy"), Times::Exact);
    assert_same(&source, &ground.at("second"), Times::Exact);
    let mut command = std::process::Command::new("cp");
    command.args(["--reflink=always", "copy/plain link", "shared"]).current_dir(ground.root());
    let ended = crate::tool::finish(&mut command, crate::ground::PATIENCE);
    // Sharing is done or refused, never pretended.
    if ended.success() {
        assert!(same_bytes(&ground.at("copy/plain link"), &ground.at("shared")));
    } else {
        assert!(ended.all().contains("Operation not supported"), "{ended}");
    }
}
