//! Other users through the mount: permission by class, sticky and setgid directories, groups, and
//! who may change what.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, open, utimensat};
use rustix::io::Errno;

use crate::ground::Ground;
use crate::person::{ANN, BOB, Person};

const SHARED: u32 = 63_000;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn give(path: &Path, to: Person, bits: u32) {
    chown(path, Some(to.uid), Some(to.gid)).unwrap();
    mode(path, bits);
}

fn can(who: Person, path: &Path, flags: OFlags) -> bool {
    who.does(|| match open(path, flags, Mode::empty()) {
        Ok(_) => true,
        Err(Errno::ACCESS) => false,
        Err(error) => panic!("{}: {error}", path.display()),
    })
}

/// What a call of std answered, as its number.
fn number<T>(answer: std::io::Result<T>) -> Option<i32> {
    answer.err().and_then(|error| error.raw_os_error())
}

const PERM: Option<i32> = Some(Errno::PERM.raw_os_error());
const ACCESS: Option<i32> = Some(Errno::ACCESS.raw_os_error());

#[test]
fn each_class_has_its_own_bits() {
    let Some(ground) = Ground::new("permission classes") else { return };
    let path = ground.file("file", b"x");
    let member = BOB.in_groups(&[SHARED]);
    // Mode, then who may read: the owner, a member of the group, anybody else. The first class that
    // fits decides.
    let cases = [
        (0o400, [true, false, false]),
        (0o040, [false, true, false]),
        (0o004, [false, false, true]),
        (0o044, [false, true, true]),
        (0o404, [true, false, true]),
        (0o000, [false, false, false]),
    ];
    for (bits, want) in cases {
        chown(&path, Some(ANN.uid), Some(SHARED)).unwrap();
        mode(&path, bits);
        let found = [ANN, member, BOB].map(|who| can(who, &path, OFlags::RDONLY));
        assert_eq!(found, want, "mode {bits:o}");
    }
    mode(&path, 0o640);
    assert!(!can(member, &path, OFlags::WRONLY) && can(ANN, &path, OFlags::RDWR));
    let many: &'static [u32] = Vec::leak((70_000..70_200).chain([SHARED]).collect());
    assert!(can(BOB.in_groups(many), &path, OFlags::RDONLY), "the last of many groups counts");
}

#[test]
fn directories_need_search_and_write() {
    let Some(ground) = Ground::new("directory permissions") else { return };
    let place = ground.directory("place");
    fs::write(place.join("file"), b"x").unwrap();
    mode(&place, 0o700);
    assert!(!can(ANN, &place.join("file"), OFlags::RDONLY));
    assert_eq!(ANN.does(|| number(fs::metadata(place.join("file")))), ACCESS);
    mode(&place, 0o711);
    assert!(can(ANN, &place.join("file"), OFlags::RDONLY));
    assert!(!can(ANN, &place, OFlags::RDONLY | OFlags::DIRECTORY));
    assert_eq!(ANN.does(|| number(fs::write(place.join("new"), b""))), ACCESS);
    assert_eq!(ANN.does(|| number(fs::remove_file(place.join("file")))), ACCESS);
    assert_eq!(ANN.does(|| number(fs::rename(place.join("file"), place.join("other")))), ACCESS);
    mode(&place, 0o744);
    assert_eq!(ANN.does(|| fs::read_dir(&place).unwrap().count()), 1);
    assert!(!can(ANN, &place.join("file"), OFlags::RDONLY));
    mode(&place, 0o733);
    ANN.does(|| fs::remove_file(place.join("file")).unwrap());
}

#[test]
fn what_a_user_makes_is_the_users() {
    let Some(ground) = Ground::new("owners of new things") else { return };
    let place = ground.directory("place");
    mode(&place, 0o777);
    ANN.does(|| {
        fs::write(place.join("file"), b"").unwrap();
        fs::create_dir(place.join("directory")).unwrap();
        symlink("x", place.join("link")).unwrap();
        rustix::fs::mknodat(CWD, place.join("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .unwrap();
        let unnamed = open(&place, OFlags::TMPFILE | OFlags::WRONLY, Mode::RUSR).unwrap();
        let stat = rustix::fs::fstat(unnamed).unwrap();
        assert_eq!((stat.st_uid, stat.st_gid), (ANN.uid, ANN.gid));
        let device = rustix::fs::FileType::CharacterDevice;
        let made = rustix::fs::mknodat(
            CWD,
            place.join("null"),
            device,
            Mode::RUSR,
            rustix::fs::makedev(1, 3),
        );
        assert_eq!(made, Err(Errno::PERM));
    });
    for name in ["file", "directory", "link", "fifo"] {
        let meta = fs::symlink_metadata(place.join(name)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (ANN.uid, ANN.gid), "{name}");
    }
}

#[test]
fn a_sticky_directory_protects_names() {
    let Some(ground) = Ground::new("sticky") else { return };
    let place = ground.directory("place");
    give(&place, Person { uid: 0, gid: 0, groups: &[] }, 0o1777);
    let path = place.join("anns");
    ANN.does(|| fs::write(&path, b"x").unwrap());
    BOB.does(|| {
        assert_eq!(number(fs::remove_file(&path)), PERM);
        assert_eq!(number(fs::rename(&path, place.join("bobs"))), PERM);
        fs::write(place.join("bobs"), b"y").unwrap();
        assert_eq!(number(fs::rename(place.join("bobs"), &path)), PERM, "nor by replacing");
        fs::create_dir(place.join("bobs directory")).unwrap();
    });
    ANN.does(|| {
        assert_eq!(number(fs::remove_dir(place.join("bobs directory"))), PERM);
        fs::rename(&path, place.join("renamed")).unwrap();
        fs::remove_file(place.join("renamed")).unwrap();
    });
    give(&place, ANN, 0o1777);
    ANN.does(|| fs::remove_file(place.join("bobs")).unwrap());
}

#[test]
fn a_setgid_directory_passes_its_group_on() {
    let Some(ground) = Ground::new("setgid directory") else { return };
    let place = ground.directory("place");
    chown(&place, Some(0), Some(SHARED)).unwrap();
    mode(&place, 0o2777);
    ANN.does(|| {
        fs::write(place.join("file"), b"").unwrap();
        fs::create_dir(place.join("directory")).unwrap();
        fs::write(place.join("directory/deeper"), b"").unwrap();
        // A file that is setgid and executable needs a member to make it.
        let create = OFlags::CREATE | OFlags::WRONLY;
        open(place.join("program"), create, Mode::from_raw_mode(0o2775)).unwrap();
    });
    let meta = |name: &str| fs::metadata(place.join(name)).unwrap();
    assert_eq!((meta("file").gid(), meta("file").mode() & 0o7777), (SHARED, 0o644));
    assert_eq!((meta("directory").gid(), meta("directory").mode() & 0o7777), (SHARED, 0o2755));
    assert_eq!(meta("directory/deeper").gid(), SHARED);
    assert_eq!((meta("program").gid(), meta("program").mode() & 0o7777), (SHARED, 0o755));
}

#[test]
fn who_may_change_owner_mode_and_times() {
    let Some(ground) = Ground::new("chown and chmod rules") else { return };
    let path = ground.file("file", b"x");
    give(&path, ANN, 0o666);
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let now = Timestamps { last_access: now, last_modification: now };
    let then = Timespec { tv_sec: 5, tv_nsec: 5 };
    let then = Timestamps { last_access: then, last_modification: then };
    BOB.does(|| {
        assert_eq!(number(fs::set_permissions(&path, Permissions::from_mode(0o777))), PERM);
        assert_eq!(number(chown(&path, Some(BOB.uid), None)), PERM);
        assert_eq!(utimensat(CWD, &path, &then, AtFlags::empty()), Err(Errno::PERM));
        utimensat(CWD, &path, &now, AtFlags::empty()).unwrap();
    });
    mode(&path, 0o644);
    assert_eq!(BOB.does(|| utimensat(CWD, &path, &now, AtFlags::empty())), Err(Errno::ACCESS));
    let member = ANN.in_groups(&[SHARED]);
    member.does(|| {
        assert_eq!(number(chown(&path, Some(BOB.uid), None)), PERM, "files are not given away");
        assert_eq!(number(chown(&path, None, Some(BOB.gid))), PERM, "nor to a strange group");
        utimensat(CWD, &path, &then, AtFlags::empty()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o6755)).unwrap();
        chown(&path, None, Some(SHARED)).unwrap();
    });
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (ANN.uid, SHARED));
    assert_eq!(meta.mode() & 0o7777, 0o755, "a change of owner takes the set-id bits");
    ANN.does(|| fs::set_permissions(&path, Permissions::from_mode(0o2755)).unwrap());
    assert_eq!(
        fs::metadata(&path).unwrap().mode() & 0o7777,
        0o755,
        "setgid needs a member of the group"
    );
    member.does(|| fs::set_permissions(&path, Permissions::from_mode(0o2755)).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o2755);
}

#[test]
fn writing_clears_set_id_bits() {
    let Some(ground) = Ground::new("suid cleared on write") else { return };
    let bits = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let path = ground.file("program", vec![1; 10_000]);
    let fresh = || give(&path, ANN, 0o6777);
    fresh();
    BOB.does(|| File::options().write(true).open(&path).unwrap().write_all_at(b"x", 0).unwrap());
    assert_eq!(bits(&path), 0o777, "write by another user");
    fresh();
    BOB.does(|| File::options().write(true).open(&path).unwrap().set_len(5).unwrap());
    assert_eq!(bits(&path), 0o777, "truncate by another user");
    fresh();
    BOB.does(|| drop(File::options().write(true).truncate(true).open(&path).unwrap()));
    assert_eq!(bits(&path), 0o777, "O_TRUNC by another user");
    fresh();
    ANN.does(|| File::options().write(true).open(&path).unwrap().write_all_at(b"x", 0).unwrap());
    assert_eq!(bits(&path), 0o777, "write by the owner");
    fresh();
    File::options().write(true).open(&path).unwrap().write_all_at(b"x", 0).unwrap();
    assert_eq!(bits(&path), 0o6777, "the superuser's write leaves them");
    chown(&path, Some(BOB.uid), None).unwrap();
    assert_eq!(bits(&path), 0o777, "chown takes them, even the superuser's");
}

#[test]
fn another_process_of_another_user() {
    let Some(ground) = Ground::new("a user's shell") else { return };
    let place = ground.directory("home");
    give(&place, ANN, 0o700);
    let line = "umask 027; echo hello > file; mkdir d; cp file d/copy; cat d/copy; stat -c '%a %u %g' file d";
    let mut command = Command::new("sh");
    command.args(["-ec", line]).current_dir(&place).uid(ANN.uid).gid(ANN.gid);
    let text = crate::tool::run(&mut command).text();
    assert_eq!(text, format!("hello\n640 {0} {1}\n750 {0} {1}\n", ANN.uid, ANN.gid));
    let mut command = Command::new("cat");
    command.arg(place.join("file")).uid(BOB.uid).gid(BOB.gid);
    let ended = crate::tool::finish(&mut command, crate::ground::PATIENCE);
    assert!(!ended.success() && ended.all().contains("Permission denied"), "{ended}");
}

#[test]
fn a_set_user_program_runs_as_its_owner() {
    let Some(ground) = Ground::new("set-user program") else { return };
    // Copied by another process: no thread here has it open for writing when it is run.
    crate::tool::shell(ground.root(), "cp \"$(command -v id)\" program");
    give(&ground.at("program"), ANN, 0o4755);
    let mut command = Command::new(ground.at("program"));
    command.arg("-u").uid(BOB.uid).gid(BOB.gid);
    assert_eq!(crate::tool::run(&mut command).text().trim(), ANN.uid.to_string());
    mode(&ground.at("program"), 0o700);
    let mut command = Command::new(ground.at("program"));
    command.arg("-u").uid(BOB.uid).gid(BOB.gid);
    assert_eq!(number(command.spawn()), ACCESS);
}
