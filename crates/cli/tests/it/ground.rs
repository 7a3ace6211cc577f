//! Where a proof stands: a fresh Seamount mount of its own, with the default options; or a plain
//! directory when `PROOF_DIR` names one, to show that a proof asks nothing that a native
//! filesystem does not give.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::tool::{Ended, finish, skip};

/// How long anything that should be quick may take before the proof gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory to work in, alone.
pub(crate) struct Ground {
    dir: tempfile::TempDir,
    root: PathBuf,
    /// The store's path, when this is a mount.
    store: Option<PathBuf>,
    mounted: bool,
    /// Words for the mount.
    words: &'static [&'static str],
}

impl Ground {
    /// A fresh ground for the proof of this name, or `None` with a loud line where nothing can be
    /// mounted.
    pub(crate) fn new(proof: &str) -> Option<Self> {
        Self::with(proof, &[])
    }

    /// The same, whose mount ends with its daemon.
    pub(crate) fn unsupervised(proof: &str) -> Option<Self> {
        Self::with(proof, &["--supervise=false"])
    }

    /// The same, whose files are all in the store.
    pub(crate) fn in_store(proof: &str) -> Option<Self> {
        Self::with(proof, &["--local=false"])
    }

    /// The same, whose files are all read and written by the daemon.
    pub(crate) fn through_daemon(proof: &str) -> Option<Self> {
        Self::with(proof, &["--passthrough=false"])
    }

    fn with(proof: &str, words: &'static [&'static str]) -> Option<Self> {
        static UMASK: Once = Once::new();
        UMASK.call_once(|| {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        });
        let native = std::env::var_os("PROOF_DIR");
        if native.is_none() && !can_mount(proof) {
            return None;
        }
        let base = native.as_ref().map_or_else(std::env::temp_dir, PathBuf::from);
        let dir = tempfile::Builder::new().prefix("seamount-proof-").tempdir_in(base).unwrap();
        // Other users go through it.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let root = dir.path().join("mnt");
        fs::create_dir(&root).unwrap();
        let store = native.is_none().then(|| dir.path().join("store"));
        let mut ground = Self { dir, root, store, mounted: false, words };
        ground.mount();
        Some(ground)
    }

    /// The top of the ground.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path in the ground.
    pub(crate) fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// Writes a file and gives its path.
    pub(crate) fn file(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Makes a directory and gives its path.
    pub(crate) fn directory(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir(&path).unwrap();
        path
    }

    /// A directory beside it on the native filesystem, which exists.
    pub(crate) fn beside(&self) -> PathBuf {
        let path = self.dir.path().join("beside");
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Whether this is a plain directory and no mount.
    pub(crate) fn is_native(&self) -> bool {
        self.store.is_none()
    }

    /// The store, of a mount.
    pub(crate) fn store(&self) -> Option<&Path> {
        self.store.as_deref()
    }

    /// Runs `seamount` with these words and waits until it ends.
    pub(crate) fn seamount(&self, words: &[&std::ffi::OsStr]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seamount"));
        command.args(words);
        // What it keeps of its own goes away with the ground.
        for place in ["CONFIG", "DATA", "STATE", "CACHE"] {
            command.env(format!("XDG_{place}_HOME"), self.dir.path().join(place.to_lowercase()));
        }
        finish(&mut command, PATIENCE)
    }

    /// Mounts it, where it is a mount that is not mounted. Gives what was said.
    pub(crate) fn mount(&mut self) -> String {
        let Some(store) = self.store.clone() else { return String::new() };
        assert!(!self.mounted, "mounted already");
        let said = self.mount_at(store.as_os_str(), &self.root.clone());
        self.mounted = true;
        said
    }

    /// Mounts a store, or a volume of it, at another place. Who does it unmounts it.
    pub(crate) fn mount_at(&self, store: &std::ffi::OsStr, place: &Path) -> String {
        let mut words: Vec<&std::ffi::OsStr> = vec!["mount".as_ref(), "--background".as_ref()];
        words.extend(self.words.iter().map(|word| std::ffi::OsStr::new(*word)));
        words.extend([store, place.as_os_str()]);
        let ended = self.seamount(&words);
        assert!(ended.success(), "mount failed: {ended}\n{}", self.log());
        assert!(
            is_mounted(place),
            "mount said yes, but nothing is mounted: {ended}\n{}",
            self.log()
        );
        ended.all()
    }

    /// Unmounts what `mount_at` mounted. Somebody may hold a file of it for a moment: a process on
    /// its way to exec.
    pub(crate) fn unmount_at(&self, place: &Path) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.seamount(&["umount".as_ref(), place.as_os_str()]);
            if ended.success() {
                break;
            }
            assert!(Instant::now() < deadline, "umount failed: {ended}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(!is_mounted(place), "umount said yes, but it is still mounted");
    }

    /// Unmounts it; on a plain directory nothing.
    pub(crate) fn unmount(&mut self) {
        if self.mounted {
            self.unmount_at(&self.root);
            self.mounted = false;
        }
    }

    /// Mounts it after its daemon went by itself.
    pub(crate) fn mount_again(&mut self) {
        self.mounted = false;
        self.mount();
    }

    /// Unmounts it, waits until its daemon is gone, and mounts it again: whatever is there now is
    /// what was kept.
    pub(crate) fn remount(&mut self) {
        self.unmount();
        wait("the daemon ends after umount", || self.daemons().is_empty());
        self.mount();
    }

    /// Kills the supervisors of this ground, the children of its daemons.
    pub(crate) fn kill_supervisors(&self) {
        for daemon in self.daemons() {
            let daemon = daemon.as_raw_nonzero();
            let threads = fs::read_dir(format!("/proc/{daemon}/task")).unwrap().flatten();
            for thread in threads {
                let children = fs::read_to_string(thread.path().join("children")).unwrap();
                for child in children.split_whitespace() {
                    kill_process(Pid::from_raw(child.parse().unwrap()).unwrap(), Signal::KILL)
                        .unwrap();
                }
            }
        }
    }

    /// Kills the daemon where it stands, and waits until it is no more.
    pub(crate) fn kill_daemon(&mut self) {
        let daemons = self.daemons();
        assert!(!daemons.is_empty(), "no daemon to kill");
        for pid in daemons {
            kill_process(pid, Signal::KILL).unwrap();
        }
        wait("the killed daemon is gone", || self.daemons().is_empty());
        self.mounted = false;
    }

    /// The processes that serve this ground: those whose words name its directory.
    pub(crate) fn daemons(&self) -> Vec<Pid> {
        let needle = self.dir.path().as_os_str().as_encoded_bytes();
        let program = Path::new(env!("CARGO_BIN_EXE_seamount"));
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let Ok(words) = fs::read(entry.path().join("cmdline")) else { continue };
            let is_ours = fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program);
            let is_supervisor = words.split(|byte| *byte == 0).nth(1) == Some(b"supervisor");
            if is_ours
                && !is_supervisor
                && words.windows(needle.len()).any(|window| window == needle)
            {
                found.extend(Pid::from_raw(pid));
            }
        }
        found
    }

    /// What the daemon wrote, for a proof that fails.
    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        let mut places = vec![self.dir.path().to_owned()];
        while let Some(place) = places.pop() {
            // Never through the mount: it may be what hangs.
            if place == self.root || place == self.dir.path().join("beside") {
                continue;
            }
            for entry in fs::read_dir(place).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    places.push(entry.path());
                } else if entry.path().extension().is_some_and(|end| end == "log")
                    && !is_mounted(&entry.path())
                {
                    let bytes = fs::read(entry.path()).unwrap_or_default();
                    let tail = &bytes[bytes.len().saturating_sub(16_384)..];
                    text += &format!(
                        "--- {}\n{}\n",
                        entry.path().display(),
                        String::from_utf8_lossy(tail)
                    );
                }
            }
        }
        text
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if self.store.is_none() {
            return;
        }
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "the daemon's log:\n{}", self.log());
        }
        let places = mounts_under(self.dir.path());
        for place in places.iter().rev() {
            let polite = self.seamount(&["umount".as_ref(), place.as_os_str()]);
            if !polite.success() {
                finish(Command::new("umount").arg("-l").arg(place), PATIENCE);
            }
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.daemons().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        for pid in self.daemons() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Waits until something is so, and fails the proof when it does not come to be.
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether something is mounted at this very path.
pub(crate) fn is_mounted(path: &Path) -> bool {
    mounts_under(path).iter().any(|place| place == path)
}

/// Every mountpoint at or below a path, outer ones first.
fn mounts_under(path: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    places.filter(|place| place.starts_with(path)).collect()
}

/// Whether this machine and this user can mount at all; says so once if not.
fn can_mount(proof: &str) -> bool {
    let device = rustix::fs::access("/dev/fuse", rustix::fs::Access::WRITE_OK);
    if device.is_err() {
        skip(proof, "/dev/fuse cannot be opened here, so nothing can be mounted");
        return false;
    }
    if !rustix::process::geteuid().is_root() {
        skip(proof, "the proofs mount for other users and change users: run them as root");
        return false;
    }
    true
}
