//! What cannot be done: the exit code, what happened to what, and what to do.

use super::Home;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::ground::PATIENCE;
use crate::tool::finish;

#[test]
fn wrong_words() {
    let home = Home::new();
    home.refuses(2, &["mnt"], &["mount"]);
    home.refuses(2, &["mount"], &["MOUNTPOINT"]);
    home.refuses(2, &["mount", &home.word("m"), "-o", "memroy=1G"], &["memory"]);
    home.refuses(2, &["mount", &home.word("m"), "--memory", "lots"], &["--memory", "10G"]);
    home.refuses(2, &["status", "--log-level", "loud"], &["--log-level", "debug"]);
    home.refuses(2, &["format", &home.word("s"), "--codec", "lz5"], &["lz4"]);
    assert!(!home.at("s").exists(), "wrong words leave nothing behind");
    home.refuses(2, &["format", &home.word("s"), "--chunk", "3MiB"], &["1, 2, 4 or 8 MiB"]);
}

#[test]
fn wrong_stores() {
    let home = Home::new();
    let none = home.word("none");
    for verb in ["status", "fsck", "gc", "dump", "destroy"] {
        home.refuses(3, &[verb, &none], &["there is no store at", "none", "seamount format"]);
    }
    assert!(!home.at("none").exists(), "looking makes nothing");
    home.refuses(7, &["status", "etcd://host/x"], &["etcd", "local:///path"]);
    home.refuses(2, &["status", "local://host/x"], &["three slashes"]);
    fs::create_dir(home.at("photos")).unwrap();
    fs::write(home.at("photos/one.jpg"), "x").unwrap();
    for words in [["status", &home.word("photos")], ["format", &home.word("photos")]] {
        home.refuses(4, &words, &["is not a store", "one.jpg"]);
    }
    assert_eq!(fs::read_dir(home.at("photos")).unwrap().count(), 1);
    let store = home.word("s");
    home.say(&["format", &store]);
    home.refuses(3, &["fsck", &format!("{store}#nope")], &["nope", "seamount status"]);
    home.refuses(2, &["fsck", &format!("{store}#a"), "--volume", "b"], &["two volumes"]);
}

#[test]
fn wrong_mountpoints() {
    let Some(home) = Home::to_mount("wrong mountpoints") else { return };
    let store = home.word("s");
    home.refuses(3, &["mount", &store, &home.word("a/b/c")], &["mkdir -p"]);
    fs::write(home.at("file"), "x").unwrap();
    home.refuses(2, &["mount", &store, &home.word("file")], &["not a directory"]);
    fs::create_dir(home.at("full")).unwrap();
    fs::write(home.at("full/x"), "x").unwrap();
    home.refuses(4, &["mount", &store, &home.word("full")], &["not empty", "nonempty"]);
    assert!(!home.at("s").exists(), "nothing is made for a mount that cannot be");
    home.say(&["mount", "--background", "-o", "nonempty", &store, &home.word("full")]);
    assert!(!home.at("full/x").exists());
    home.umount("full");
    assert!(home.at("full/x").exists());
    home.refuses(2, &["mount", "-o", "nonempty", &store, &home.word("")], &["inside"]);
    home.refuses(3, &["umount", &home.word("full")], &["nothing of Seamount is mounted"]);
    home.refuses(3, &["umount", &home.word("nowhere")], &["nothing of Seamount is mounted"]);
}

#[test]
fn a_store_and_a_volume_and_a_mountpoint_are_mounted_once() {
    let Some(home) = Home::to_mount("mounted twice") else { return };
    home.mount("s", "m");
    let (store, place) = (home.word("s"), home.word("m"));
    home.refuses(4, &["mount", &store, &home.word("m2")], &["mounted already", &place]);
    assert!(!home.at("m2").exists(), "a mountpoint that was made for nothing goes again");
    home.refuses(4, &["mount", &home.word("s2"), &place], &["is a mountpoint already", &store]);
    let busy = fs::File::create(home.at("m/busy")).unwrap();
    home.refuses(4, &["umount", &place], &["in use", "--lazy"]);
    drop(busy);
    home.umount("m");
}

#[test]
fn a_store_that_another_process_has_open() {
    let home = Home::new();
    home.say(&["format", &home.word("s")]);
    let engine = kv_local::Local::open_dir(&home.at("s"), kv_local::Options::default()).unwrap();
    let ended = home.run(["status", &home.word("s"), "--json"]);
    let said = String::from_utf8_lossy(&ended.err).into_owned();
    assert_eq!(ended.status.unwrap().code(), Some(4), "{ended}");
    assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
    engine.close().unwrap();
    home.say(&["status", &home.word("s")]);
}

#[test]
fn a_store_from_the_future() {
    let home = Home::new();
    home.say(&["format", &home.word("s")]);
    let path = home.at("s/format");
    let old = fs::read(&path).unwrap();
    // The version is behind the magic word; each of both copies ends with its checksum.
    let mut copy = old[..40].to_vec();
    copy[8] = 9;
    let magic = u64::from_le_bytes(*b"SEAMOUNT");
    let sum = base::checksum::hash64(magic, &copy);
    copy.extend_from_slice(&sum.to_le_bytes());
    fs::write(&path, copy.repeat(2)).unwrap();
    for words in [["status", &home.word("s")], ["fsck", &home.word("s")]] {
        home.refuses(7, &words, &["later program", "newer"]);
    }
    fs::write(&path, &old).unwrap();
    home.say(&["status", &home.word("s")]);
}

#[test]
fn a_damaged_store() {
    let home = Home::new();
    home.say(&["format", &home.word("s")]);
    let mut bytes = fs::read(home.at("s/manifest")).unwrap();
    for byte in &mut bytes {
        *byte ^= 0x55;
    }
    fs::write(home.at("s/manifest"), bytes).unwrap();
    home.refuses(5, &["status", &home.word("s")], &["s"]);
}

#[test]
fn somebody_elses_store() {
    let Some(home) = Home::to_mount("another user's store") else { return };
    home.mount("s", "m");
    fs::set_permissions(home.at(""), fs::Permissions::from_mode(0o755)).unwrap();
    for words in [["status", &home.word("s")], ["fsck", &home.word("s")]] {
        let mut command = home.command(words);
        command.uid(65_534).gid(65_534);
        let ended = finish(&mut command, PATIENCE);
        assert_eq!(ended.status.unwrap().code(), Some(6), "{ended}");
    }
    home.umount("m");
    let mut command = home.command(["format", &home.word("theirs")]);
    command.uid(65_534).gid(65_534);
    let ended = finish(&mut command, PATIENCE);
    assert_eq!(ended.status.unwrap().code(), Some(6), "{ended}");
}

#[test]
fn a_machine_without_fuse() {
    let Some(home) = Home::to_mount("no /dev/fuse") else { return };
    // A mount namespace of its own, with an empty /dev in it.
    let line = format!(
        "mount -t tmpfs none /dev && exec {} mount {} {}",
        env!("CARGO_BIN_EXE_seamount"),
        home.word("s"),
        home.word("m")
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &line]).env("HOME", home.at(""));
    let ended = finish(&mut command, PATIENCE);
    assert_eq!(ended.status.unwrap().code(), Some(8), "{ended}");
    assert!(ended.all().contains("/dev/fuse") && ended.all().contains("modprobe"), "{ended}");
    assert!(!home.at("s").exists(), "no store is made for it");
}

#[test]
fn a_full_disk() {
    let Some(home) = Home::to_mount("full disk") else { return };
    let disk = home.at("disk");
    fs::create_dir(&disk).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=8k", "none"]).arg(&disk).status();
    assert!(mounted.unwrap().success());
    let ended = home.run(["format", &home.word("disk/s"), "--json"]);
    assert_eq!(ended.status.unwrap().code(), Some(8), "{ended}");
    assert!(ended.all().contains("make room"), "{ended}");
    fs::remove_dir_all(home.at("disk/s")).unwrap();
    home.mount("s", "m");
    fs::write(home.at("m/file"), vec![1; 1 << 20]).unwrap();
    let file = home.word("disk/dump");
    home.refuses(8, &["dump", &home.word("m"), "--to", &file], &["No space left", "make room"]);
    home.umount("m");
    home.refuses(8, &["dump", &home.word("s"), "--to", &file], &["No space left", "make room"]);
    assert!(!home.at("disk/dump").exists(), "half a dump goes again");
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
}
