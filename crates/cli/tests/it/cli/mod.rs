//! The verbs of the command line: mounted and not, as words and as JSON, and how they refuse.

mod control;
mod helper;
mod refusals;
mod settings;
mod verbs;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ground::{PATIENCE, is_mounted};
use crate::tool::{Ended, finish, skip};

/// The home directory of somebody who has never used the program.
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("seamount-cli-").tempdir().unwrap();
        Self { dir }
    }

    /// The same, or `None` with a loud line where nothing can be mounted.
    pub(crate) fn to_mount(proof: &str) -> Option<Self> {
        let root = rustix::process::geteuid().is_root();
        if !root || rustix::fs::access("/dev/fuse", rustix::fs::Access::WRITE_OK).is_err() {
            skip(proof, "root and /dev/fuse are needed to mount");
            return None;
        }
        Some(Self::new())
    }

    /// A path in it.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The same as a word.
    pub(crate) fn word(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    /// The program with these words, before it is run.
    pub(crate) fn command<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seamount"));
        command.args(words).env("HOME", self.dir.path()).current_dir(self.dir.path());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("SEAMOUNT_") || name.starts_with("XDG_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Ended {
        finish(&mut self.command(words), PATIENCE)
    }

    /// Runs it; it must end well. Gives what it printed.
    pub(crate) fn say(&self, words: &[&str]) -> String {
        let ended = self.run(words);
        assert!(ended.success(), "{ended}");
        ended.text()
    }

    /// Runs it with `--json`; it must end well, and print one document.
    pub(crate) fn json(&self, words: &[&str]) -> serde_json::Value {
        let ended = self.run(words.iter().copied().chain(["--json"]));
        assert!(ended.success(), "{ended}");
        serde_json::from_slice(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended}"))
    }

    /// Runs it; it must fail with this code, and its words must have these in them. The same with
    /// `--json` must fail the same way, in JSON.
    pub(crate) fn refuses(&self, code: i32, words: &[&str], said: &[&str]) {
        let ended = self.run(words);
        let status = ended.status.and_then(|status| status.code());
        assert_eq!(status, Some(code), "{ended}");
        let complaint = String::from_utf8_lossy(&ended.err).into_owned();
        for word in said {
            assert!(complaint.contains(word), "\"{word}\" is not said: {ended}");
        }
        assert!(!complaint.contains("panicked"), "{ended}");
        let ended = self.run(words.iter().copied().chain(["--json"]));
        assert_eq!(ended.status.and_then(|status| status.code()), Some(code), "{ended}");
        if code != 2 {
            let last = String::from_utf8_lossy(&ended.err).lines().last().unwrap().to_owned();
            let value: serde_json::Value = serde_json::from_str(&last).unwrap();
            assert_eq!(value["error"]["code"], code, "{ended}");
        }
    }

    /// Mounts in the background.
    pub(crate) fn mount(&self, store: &str, place: &str) {
        let (store, place) = (self.word(store), self.word(place));
        self.say(&["mount", "--background", &store, &place]);
        assert!(is_mounted(Path::new(&place)));
    }

    /// Unmounts.
    pub(crate) fn umount(&self, place: &str) {
        self.say(&["umount", &self.word(place)]);
        assert!(!is_mounted(&self.at(place)));
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = table.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
        for place in places.filter(|place| place.starts_with(self.dir.path())) {
            finish(Command::new("umount").arg("-l").arg(place), PATIENCE);
        }
    }
}
