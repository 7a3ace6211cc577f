//! Mounting as root: the kernel's own calls.

use super::{FS_TYPE, MountError, MountErrorKind, MountOptions, open_device};
use crate::device::Device;
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::path::Path;

pub(super) fn mount(options: &MountOptions) -> Result<Device, MountError> {
    let at = options.mountpoint.display();
    let failed = |error: Errno| {
        let kind = match error {
            Errno::PERM | Errno::ACCESS => MountErrorKind::NoPermission,
            Errno::BUSY => MountErrorKind::Busy,
            Errno::NODEV => MountErrorKind::NoDevice,
            _ => MountErrorKind::Other,
        };
        MountError::new(kind, format!("cannot mount on {at}")).caused_by(error)
    };
    // Held open: what is mounted on is what was looked at, whatever happens to the path.
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = rustix::fs::open(&options.mountpoint, how, Mode::empty()).map_err(failed)?;
    let mode = rustix::fs::fstat(&place).map_err(failed)?.st_mode;
    let device = open_device()?;
    let mut data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions",
        device.as_fd().as_raw_fd(),
        mode,
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let mut flags = MountFlags::empty();
    let set = [
        (options.read_only, MountFlags::RDONLY),
        (!options.suid, MountFlags::NOSUID),
        (!options.dev, MountFlags::NODEV),
        (!options.exec, MountFlags::NOEXEC),
    ];
    for (wanted, flag) in set {
        if wanted {
            flags |= flag;
        }
    }
    let data = CString::new(data).map_err(|_| failed(Errno::INVAL))?;
    let place = format!("/proc/self/fd/{}", place.as_raw_fd());
    rustix::mount::mount(options.source.as_str(), place, FS_TYPE, flags, data.as_c_str())
        .map_err(failed)?;
    Ok(device)
}

pub(super) fn unmount(mountpoint: &Path, lazy: bool) -> Result<(), MountError> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    unmount_with(mountpoint, flags)
}

/// Cuts the connection too: what is asked and not answered yet fails.
pub(super) fn abort(mountpoint: &Path) -> Result<(), MountError> {
    unmount_with(mountpoint, UnmountFlags::FORCE | UnmountFlags::DETACH)
}

fn unmount_with(mountpoint: &Path, flags: UnmountFlags) -> Result<(), MountError> {
    let flags = flags | UnmountFlags::NOFOLLOW;
    rustix::mount::unmount(mountpoint, flags).map_err(|error| {
        let at = mountpoint.display();
        let (kind, text) = match error {
            Errno::BUSY => (MountErrorKind::Busy, format!("{at} is in use")),
            Errno::PERM => (MountErrorKind::NoPermission, format!("may not unmount {at}")),
            Errno::INVAL => (MountErrorKind::NotMounted, format!("nothing is mounted on {at}")),
            Errno::NOENT => (MountErrorKind::NotFound, format!("there is no {at}")),
            _ => (MountErrorKind::Other, format!("cannot unmount {at}")),
        };
        MountError::new(kind, text).caused_by(error)
    })
}
