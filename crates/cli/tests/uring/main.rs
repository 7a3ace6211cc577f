//! Mounts over io_uring by the built program: how they are asked for, what is told of them, how they end.
//! Needs root and a kernel that has it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";
const PATIENCE: Duration = Duration::from_secs(60);

/// A store with a place to mount it, and what the kernel's parameter was before.
struct Site {
    dir: tempfile::TempDir,
    before: String,
}

impl Site {
    /// `None`, said aloud, where the parameter cannot be changed.
    fn new() -> Option<Self> {
        let changed = fs::read_to_string(PARAMETER).and_then(|before| {
            fs::write(PARAMETER, "N")?;
            Ok(before)
        });
        match changed {
            Ok(before) => {
                let dir = tempfile::tempdir().unwrap();
                fs::create_dir(dir.path().join("mnt")).unwrap();
                Some(Self { dir, before })
            }
            Err(error) => {
                skip(&format!("{PARAMETER}: {error}"));
                None
            }
        }
    }

    fn mountpoint(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    fn program(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seamount"));
        command.args(words).env("HOME", self.dir.path()).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.program(words).output().unwrap()
    }

    /// What `status` says of the mount; null while there is none.
    fn mount(&self) -> Value {
        let said = self.run(&["--json", "status", "store"]).stdout;
        let report: Value = serde_json::from_slice(&said).unwrap_or_default();
        report["stores"][0]["volumes"][0]["mount"].clone()
    }

    /// A mount in the foreground that answers.
    fn begin(&self, words: &[&str]) -> Child {
        let mut child =
            self.program(&[&["mount", "store", "mnt"], words].concat()).spawn().unwrap();
        until("the mount answers", || {
            assert!(child.try_wait().unwrap().is_none(), "the mount ended");
            is_mounted(&self.mountpoint())
        });
        child
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.run(&["umount", "mnt"]);
        let _ = fs::write(PARAMETER, self.before.trim());
    }
}

fn skip(why: &str) {
    // Past the capture of the harness, and to the file that `./test` prints at its end.
    let line = format!("SKIPPED: mounts over io_uring: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("PROOF_SKIPPED")
        && let Ok(mut file) = fs::File::options().append(true).create(true).open(path)
    {
        let _ = file.write_all(line.as_bytes());
    }
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_mounted(place: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    table.lines().any(|line| line.split(' ').nth(1) == place.to_str())
}

#[test]
fn rings_are_used_where_they_are_offered_and_end_with_their_process() {
    let Some(site) = Site::new() else {
        return;
    };
    // Not offered: a mount that wants no less is refused in words, any other has the device.
    let refused = site.run(&["mount", "store", "mnt", "--transport", "uring"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("enable_uring"), "{words}");
    let mut child = site.begin(&[]);
    assert_eq!(site.mount()["transport"], "device");
    fs::write(site.mountpoint().join("kept"), b"by the device").unwrap();
    assert!(site.run(&["umount", "mnt"]).status.success());
    child.wait().unwrap();

    // Offered.
    fs::write(PARAMETER, "Y").unwrap();
    let mut child = site.begin(&[]);
    assert_eq!(site.mount()["transport"], "uring");
    assert_eq!(fs::read(site.mountpoint().join("kept")).unwrap(), b"by the device");
    let file = fs::File::create(site.mountpoint().join("synced")).unwrap();
    file.sync_all().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    until("nothing hangs at the mount of a process that is gone", || {
        fs::metadata(site.mountpoint().join("other")).is_err()
    });
    drop(file);
    let _ = site.run(&["umount", "mnt"]);
    until("the dead mount is gone", || !is_mounted(&site.mountpoint()));

    // Whoever must outlive its process has the device, which another one can take over.
    assert!(site.run(&["mount", "-b", "store", "mnt"]).status.success());
    let mount = site.mount();
    assert_eq!((&mount["transport"], &mount["supervised"]), (&"device".into(), &true.into()));
    assert!(site.mountpoint().join("synced").exists());
    assert!(site.run(&["umount", "mnt"]).status.success());

    // Unless it is asked for.
    assert!(site.run(&["mount", "-b", "--transport", "uring", "store", "mnt"]).status.success());
    let mount = site.mount();
    assert_eq!((&mount["transport"], &mount["supervised"]), (&"uring".into(), &false.into()));
    assert!(site.run(&["umount", "mnt"]).status.success());
}
