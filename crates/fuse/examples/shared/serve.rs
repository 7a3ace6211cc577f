//! What the example servers have in common: how they are mounted, and how they end.

use fuser::{Config, Filesystem, MountOption, Session, SessionACL};
use std::error::Error;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Serves until it is unmounted. The kernel checks permissions, as it does for a mount of Seamount.
pub(crate) fn serve(
    filesystem: impl Filesystem,
    name: &str,
    mountpoint: &Path,
    threads: usize,
) -> Result<(), Box<dyn Error>> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(name.into()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    config.acl = SessionACL::Owner;
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1;
    let session = Session::new(filesystem, mountpoint, &config)?;
    let mut watcher = watch(mountpoint)?;
    println!("{name} is at {}", mountpoint.display());
    println!("stop it with: umount {}, or with Ctrl-C", mountpoint.display());
    let ended = session.run();
    watcher.kill()?;
    watcher.wait()?;
    Ok(ended?)
}

/// A process that unmounts when this one is gone, whatever killed it: it waits for the end of its input.
/// In a process group of its own, Ctrl-C does not reach it.
fn watch(mountpoint: &Path) -> io::Result<Child> {
    let script =
        "cat >/dev/null; umount \"$1\" 2>/dev/null || exec fusermount3 -u -z \"$1\" 2>/dev/null";
    Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(mountpoint)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
}
