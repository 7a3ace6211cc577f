//! Mounting as an ordinary user: `fusermount3`, which may do what this process may not, mounts and
//! hands the device over.

use super::{MountError, MountErrorKind, MountOptions, open_device};
use crate::device::Device;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::FdFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

const HELPER: &str = "fusermount3";

fn missing(error: io::Error) -> MountError {
    let text = "an ordinary user mounts with fusermount3, which is not there: install the package \
                fuse3, or mount as root";
    MountError::new(MountErrorKind::NoHelper, text).caused_by(error)
}

pub(super) fn mount(options: &MountOptions) -> Result<Device, MountError> {
    // Asked for first, since its absence is told best here.
    drop(open_device()?);
    let at = options.mountpoint.display();
    let failed = |error: io::Error| {
        MountError::new(MountErrorKind::Other, format!("cannot mount on {at}")).caused_by(error)
    };
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    // The helper finds its end of the pair by its number, so it must outlive exec.
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty()).map_err(|error| failed(error.into()))?;
    let ended = Command::new(HELPER)
        .arg("-o")
        .arg(words(options))
        .arg("--")
        .arg(&options.mountpoint)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .output();
    drop(theirs);
    let ended = ended.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing(error),
        _ => failed(error),
    })?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        let kind = match () {
            () if said.contains("user_allow_other") => MountErrorKind::NoPermission,
            () if said.contains("ermission denied") => MountErrorKind::NoPermission,
            () => MountErrorKind::Other,
        };
        return Err(MountError::new(kind, format!("cannot mount on {at}: {}", said.trim())));
    }
    let device = receive(&ours).map_err(failed)?;
    Device::from_fd(device).map_err(failed)
}

/// The options, as the helper takes them. It refuses set-user programs and devices by itself.
fn words(options: &MountOptions) -> String {
    let mut words = vec!["default_permissions".to_owned(), "subtype=seamount".to_owned()];
    // Commas divide options.
    words.push(format!("fsname={}", options.source.replace('\\', "\\\\").replace(',', "\\,")));
    let set = [
        (options.read_only, "ro"),
        (options.allow_other, "allow_other"),
        (!options.exec, "noexec"),
    ];
    words.extend(set.iter().filter(|(wanted, _)| *wanted).map(|(_, word)| (*word).to_owned()));
    words.join(",")
}

/// The descriptor that the helper sends.
fn receive(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(descriptor) = descriptors.next()
        {
            return Ok(descriptor);
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "fusermount3 sent no descriptor"))
}

pub(super) fn unmount(mountpoint: &Path, lazy: bool) -> Result<(), MountError> {
    let mut command = Command::new(HELPER);
    command.arg("-u");
    if lazy {
        command.arg("-z");
    }
    let ended = command.arg("--").arg(mountpoint).stdin(Stdio::null()).output();
    let ended = ended.map_err(missing)?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let kind = match () {
        () if said.contains("busy") => MountErrorKind::Busy,
        () if said.contains("not found in") => MountErrorKind::NotMounted,
        () if said.contains("not permitted") => MountErrorKind::NoPermission,
        () => MountErrorKind::Other,
    };
    let at = mountpoint.display();
    Err(MountError::new(kind, format!("cannot unmount {at}: {}", said.trim())))
}
