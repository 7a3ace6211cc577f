//! The ways in which mount(8) calls the program.

use super::Home;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::ground::{PATIENCE, is_mounted};
use crate::tool::finish;

#[test]
fn by_the_name_of_a_mount_helper() {
    let Some(home) = Home::to_mount("mount.seamount") else { return };
    symlink(env!("CARGO_BIN_EXE_seamount"), home.at("mount.seamount")).unwrap();
    fs::create_dir(home.at("m")).unwrap();
    let call = |words: &[&str]| {
        let mut command = Command::new(home.at("mount.seamount"));
        command.args(words).env("HOME", home.at(""));
        finish(&mut command, PATIENCE)
    };
    let (store, place) = (home.word("s"), home.word("m"));
    let ended = call(&[&store, &place, "-f"]);
    assert!(ended.success() && !home.at("s").exists(), "{ended}");
    let ended =
        call(&[&store, &place, "-o", "rw,nosuid,nodev,noatime,_netdev,x-systemd.automount"]);
    assert!(ended.success() && ended.all().is_empty(), "{ended}");
    assert!(is_mounted(&home.at("m")));
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table.lines().find(|line| line.contains(&place)).unwrap();
    assert!(line.contains("fuse.seamount") && line.contains("nosuid,nodev"), "{line}");
    assert_eq!(call(&[&home.word("s2"), &place]).status.unwrap().code(), Some(32));
    home.umount("m");
    assert_eq!(call(&[&store, &place, "-o", "memroy=1"]).status.unwrap().code(), Some(1));
    assert!(call(&[&store, &place, "-s", "-o", "memroy=1"]).success());
    home.umount("m");
}

#[test]
fn as_mount_fuse_does_for_the_type_fuse_seamount() {
    let Some(home) = Home::to_mount("mount -t fuse.seamount") else { return };
    fs::create_dir(home.at("m")).unwrap();
    let (store, place) = (home.word("s"), home.word("m"));
    home.say(&[&store, &place, "-o", "rw,dev,suid"]);
    assert!(is_mounted(&home.at("m")));
    home.umount("m");
    if !crate::tool::has("mount -t fuse.seamount by mount(8)", &["mount.fuse3", "unshare"]) {
        return;
    }
    // mount.fuse looks for the program in the system's own directories; a mount namespace has others.
    let line = format!(
        "mount -t tmpfs none /usr/local/bin\n\
         ln -s {program} /usr/local/bin/seamount\n\
         mount -t fuse.seamount -o noatime,volume=two {store} {place}\n\
         grep -q '{place} fuse.seamount' /proc/mounts\n\
         echo hello > {place}/file\n\
         seamount umount {place}",
        program = env!("CARGO_BIN_EXE_seamount"),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &line]).env("HOME", home.at(""));
    let ended = finish(&mut command, PATIENCE);
    assert!(ended.success(), "{ended}");
    let info = home.json(&["info", "--store", &format!("{store}#two"), "/file"]);
    assert_eq!(info[0]["bytes"], 6);
}
