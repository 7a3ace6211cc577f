//! A directory to try things in, with the program at hand for any user.

use crate::ground::{PATIENCE, is_mounted, wait};
use crate::person::Person;
use crate::tool::{Ended, finish, has, skip};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    /// A new one that other users can go through, or `None` with a loud line where nothing can be tried.
    pub(crate) fn new(proof: &str) -> Option<Self> {
        let root = rustix::process::geteuid().is_root();
        if !root || rustix::fs::access("/dev/fuse", rustix::fs::Access::WRITE_OK).is_err() {
            skip(proof, "root and /dev/fuse are needed to mount and to change users");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("seamount-rights-").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { dir })
    }

    /// A path in it.
    pub(crate) fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a directory for a user.
    pub(crate) fn directory(&self, name: &str, who: Option<Person>, mode: u32) -> PathBuf {
        let path = self.at(name);
        fs::create_dir(&path).unwrap();
        if let Some(who) = who {
            chown(&path, Some(who.uid), Some(who.gid)).unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// The program with these words, by this user or by root.
    pub(crate) fn command(&self, who: Option<Person>, words: &[&OsStr]) -> Command {
        self.prepared(Command::new(env!("CARGO_BIN_EXE_seamount")), who, words)
    }

    /// The same behind a line of shell that ends with `"$@"`.
    pub(crate) fn behind(&self, line: &str, who: Option<Person>, words: &[&OsStr]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line, "sh", env!("CARGO_BIN_EXE_seamount")]);
        self.prepared(command, who, words)
    }

    fn prepared(&self, mut command: Command, who: Option<Person>, words: &[&OsStr]) -> Command {
        command.args(words).current_dir("/").env("HOME", self.at("home"));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("SEAMOUNT_") || name.starts_with("XDG_") {
                command.env_remove(name);
            }
        }
        if let Some(who) = who {
            command.uid(who.uid).gid(who.gid);
        }
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, who: Option<Person>, words: &[&OsStr]) -> Ended {
        finish(&mut self.command(who, words), PATIENCE)
    }

    /// Mounts in the background; it must succeed.
    pub(crate) fn mount(&self, who: Option<Person>, store: &Path, place: &Path) {
        let words =
            ["mount".as_ref(), "--background".as_ref(), store.as_os_str(), place.as_os_str()];
        let ended = self.run(who, &words);
        assert!(ended.success() && is_mounted(&place.canonicalize().unwrap()), "{ended}");
    }

    /// Unmounts; it must succeed.
    pub(crate) fn umount(&self, who: Option<Person>, place: &Path) {
        wait("it is unmounted", || {
            self.run(who, &["umount".as_ref(), place.as_os_str()]).success()
        });
    }
}

/// A user that fusermount3 knows by name.
pub(crate) const NOBODY: Person = Person { uid: 65_534, gid: 65_534, groups: &[] };

/// Whether users other than root can mount on this machine; says so loudly if not.
pub(crate) fn users_can_mount(proof: &str) -> bool {
    if !has(proof, &["fusermount3"]) {
        return false;
    }
    let opened =
        NOBODY.does(|| fs::File::options().read(true).write(true).open("/dev/fuse").is_ok());
    if !opened {
        skip(proof, "/dev/fuse is for root alone here, so nobody else can mount");
    }
    opened
}

impl Drop for Site {
    fn drop(&mut self) {
        let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = table.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
        for place in places.filter(|place| place.starts_with(self.dir.path())) {
            finish(Command::new("umount").arg("-l").arg(place), PATIENCE);
        }
    }
}
