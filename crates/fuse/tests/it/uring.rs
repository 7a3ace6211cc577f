//! The same over io_uring, where the kernel has it and this user may turn it on.

use crate::ground::Ground;
use fuse::Transport;
use std::fs;
use std::io::Write;
use std::process::Command;

/// Set where private stores are to be mounted so.
pub(crate) const ASKED: &str = "FUSE_TESTS_OVER_IO_URING";
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Mounts that are made while this lives can have rings. Those that others make meanwhile too, which does
/// them no harm.
struct Enabled(bool);

impl Enabled {
    /// `None`, said aloud, where it cannot be had.
    fn new(proof: &str) -> Option<Self> {
        let why = match fs::read_to_string(PARAMETER) {
            Ok(text) if text.trim() == "Y" => return Some(Self(false)),
            Ok(_) => match fs::write(PARAMETER, "Y") {
                Ok(()) => return Some(Self(true)),
                Err(error) => format!("{PARAMETER} is N and cannot be changed: {error}"),
            },
            Err(error) => format!("this kernel has no FUSE over io_uring: {PARAMETER}: {error}"),
        };
        // Past the capture of the harness, and to the file that `./test` prints at its end.
        let line = format!("SKIPPED: {proof}: {why}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        if let Some(path) = std::env::var_os("PROOF_SKIPPED")
            && let Ok(mut file) = fs::File::options().append(true).create(true).open(path)
        {
            let _ = file.write_all(line.as_bytes());
        }
        None
    }
}

impl Drop for Enabled {
    fn drop(&mut self) {
        if self.0 {
            let _ = fs::write(PARAMETER, "N");
        }
    }
}

#[test]
fn everything_of_a_private_store_holds_over_io_uring() {
    if std::env::var_os(ASKED).is_some() {
        return;
    }
    let Some(_enabled) = Enabled::new("FUSE over io_uring") else {
        return;
    };
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["private::", "uring::rings_"])
        .env(ASKED, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.contains("rings_answer_many_at_once ... ok"), "{said}");
}

/// More than a ring has entries, from all CPUs, with much that waits for the disk.
#[test]
fn rings_answer_many_at_once() {
    if std::env::var_os(ASKED).is_none() {
        return;
    }
    let ground = Ground::private();
    assert_eq!(ground.mount.transport(), Transport::Uring);
    std::thread::scope(|scope| {
        for thread in 0..24_u8 {
            let ground = &ground;
            scope.spawn(move || {
                let dir = ground.at(&format!("d{thread}"));
                fs::create_dir(&dir).unwrap();
                for number in 0..20_usize {
                    let path = dir.join(number.to_string());
                    let bytes = vec![thread; number * 40_000 + 1];
                    let mut file = fs::File::create(&path).unwrap();
                    file.write_all(&bytes).unwrap();
                    file.sync_all().unwrap();
                    drop(file);
                    let to = dir.join(format!("{}{number}", "n".repeat(200)));
                    fs::rename(&path, &to).unwrap();
                    assert!(fs::read(&to).unwrap() == bytes, "{to:?}");
                }
                assert_eq!(fs::read_dir(&dir).unwrap().count(), 20);
                fs::remove_dir_all(&dir).unwrap();
            });
        }
    });
    assert_eq!(fs::read_dir(ground.path()).unwrap().count(), 0);
}
