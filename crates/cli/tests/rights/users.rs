//! A mount of an ordinary user's: for that user alone, without set-user programs, without devices.

use crate::person::BOB;
use crate::site::{NOBODY, Site, users_can_mount};
use crate::tool::{run, shell};
use rustix::fs::{FileType, Mode};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

#[test]
fn a_users_mount_gives_no_set_user_programs_and_no_devices() {
    let proof = "a user's own mount";
    let Some(site) = Site::new(proof) else { return };
    if !users_can_mount(proof) {
        return;
    }
    let home = site.directory("home", Some(NOBODY), 0o755);
    let (store, place) = (home.join("store"), home.join("place"));
    // A store with a program of root's and a device in it, which comes into a user's hands.
    site.mount(None, &store, &place);
    shell(&place, "cp \"$(command -v id)\" program && chmod 4755 program && chmod 755 .");
    let zero = rustix::fs::makedev(1, 5);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.join("zero"),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        zero,
    )
    .unwrap();
    fs::set_permissions(place.join("zero"), fs::Permissions::from_mode(0o666)).unwrap();
    site.umount(None, &place);
    for entry in fs::read_dir(&store).unwrap() {
        chown(entry.unwrap().path(), Some(NOBODY.uid), Some(NOBODY.gid)).unwrap();
    }
    for path in [&store, &place] {
        chown(path, Some(NOBODY.uid), Some(NOBODY.gid)).unwrap();
    }
    for words in [&[][..], &["-o", "suid,dev"][..]] {
        let mut all = vec!["mount".as_ref(), "--background".as_ref()];
        all.extend(words.iter().map(std::ffi::OsStr::new));
        all.extend([store.as_os_str(), place.as_os_str()]);
        let ended = site.run(Some(NOBODY), &all);
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        let line = table.lines().find(|line| line.contains(place.to_str().unwrap()));
        if !ended.success() {
            assert!(!words.is_empty() && line.is_none(), "{ended}");
            continue;
        }
        let line = line.unwrap();
        assert!(line.contains("nosuid") && line.contains("nodev"), "{line}");
        let mut command = Command::new(place.join("program"));
        command.arg("-u").uid(NOBODY.uid).gid(NOBODY.gid);
        assert_eq!(run(&mut command).text().trim(), NOBODY.uid.to_string(), "no rights of root's");
        let opened = NOBODY.does(|| fs::File::open(place.join("zero")).map(drop));
        assert_eq!(opened.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
        // Nobody else sees it, root included.
        assert!(BOB.does(|| fs::metadata(place.join("program")).is_err()));
        assert!(fs::metadata(place.join("program")).is_err());
        site.umount(Some(NOBODY), &place);
    }
}
