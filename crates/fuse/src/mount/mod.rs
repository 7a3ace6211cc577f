//! Mounting and unmounting: by the kernel's calls as root, with the help of `fusermount3` otherwise.

mod direct;
mod helper;
mod table;

#[cfg(feature = "fuzzing")]
pub(crate) use table::parse as parse_line;
pub use table::{MountEntry, mounted};

use crate::device::{self, Device};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The type of our mounts in /proc/mounts.
pub(crate) const FS_TYPE: &str = "fuse.seamount";

/// By what requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// `/dev/fuse`, which there always is.
    Device,
    /// Rings of io_uring. The mount ends with its process, also when that `survives`.
    Uring,
}

impl Transport {
    /// The one that is called so.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Device, Self::Uring].into_iter().find(|transport| transport.to_string() == name)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "device",
            Self::Uring => "uring",
        })
    }
}

/// How a volume is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// Where.
    pub mountpoint: PathBuf,
    /// What /proc/mounts names as the source.
    pub source: String,
    /// A directory on the disk that holds the bytes, if one does: `df` tells of its free space.
    pub backing: Option<PathBuf>,
    /// Whether nothing can be written through the mount.
    pub read_only: bool,
    /// Whether users other than the one who mounts may use it.
    pub allow_other: bool,
    /// Whether set-user and set-group bits count.
    pub suid: bool,
    /// Whether device files are devices.
    pub dev: bool,
    /// Whether programs can be run.
    pub exec: bool,
    /// Whether another process takes the mount over when this one dies: then the session must
    /// survive too.
    pub survives: bool,
    /// The kernel reads and writes files of the local home by itself, where it can.
    pub passthrough: bool,
    /// Threads that face the kernel; 0 for as many as suit the machine. With io_uring there is one for
    /// each CPU.
    pub threads: usize,
    /// By what requests come. `None`: by io_uring where the kernel offers that, the store is private and
    /// the mount need not survive its process; otherwise by the device.
    pub transport: Option<Transport>,
    /// How long the kernel may keep attributes. `None`: for ever when the store is private, otherwise
    /// for a second.
    pub attr_ttl: Option<Duration>,
    /// How long it may keep names. `None`: as for attributes.
    pub entry_ttl: Option<Duration>,
    /// How long it may remember that there is no such name. `None`: for ever when the store is
    /// private, otherwise not at all.
    pub negative_ttl: Option<Duration>,
}

impl MountOptions {
    /// What suits the user who runs this: root's mounts are for everybody, with devices and set-user
    /// programs; those of others are for themselves, without.
    pub fn new(mountpoint: impl Into<PathBuf>, source: impl Into<String>) -> Self {
        let root = is_root();
        Self {
            mountpoint: mountpoint.into(),
            source: source.into(),
            backing: None,
            read_only: false,
            allow_other: root,
            suid: root,
            dev: root,
            exec: true,
            survives: false,
            passthrough: true,
            threads: 0,
            transport: None,
            attr_ttl: None,
            entry_ttl: None,
            negative_ttl: None,
        }
    }
}

/// What went wrong with a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountErrorKind {
    /// There is no /dev/fuse, or this process may not open it.
    NoDevice,
    /// This user may not mount or unmount there.
    NoPermission,
    /// The mountpoint does not exist.
    NotFound,
    /// The mountpoint is no directory.
    NotDirectory,
    /// Something uses the mount.
    Busy,
    /// There is a mount whose server is gone.
    Stale,
    /// `fusermount3` is needed and not there.
    NoHelper,
    /// Nothing of the kind is mounted there.
    NotMounted,
    /// The kernel's protocol is too old.
    TooOld,
    /// Anything else.
    Other,
}

/// Why something could not be mounted or unmounted, and what to do.
#[derive(Debug)]
pub struct MountError {
    kind: MountErrorKind,
    text: String,
    source: Option<io::Error>,
}

impl MountError {
    pub(crate) fn new(kind: MountErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), source: None }
    }

    pub(crate) fn caused_by(mut self, error: impl Into<io::Error>) -> Self {
        self.source = Some(error.into());
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> MountErrorKind {
        self.kind
    }
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for MountError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Mounts, and returns the device on which the kernel will ask.
pub(crate) fn attach(options: &MountOptions) -> Result<Device, MountError> {
    let at = options.mountpoint.display();
    if is_stale(&options.mountpoint) {
        let text = format!("{at} has a mount whose server is gone; unmount it first");
        return Err(MountError::new(MountErrorKind::Stale, text));
    }
    match std::fs::metadata(&options.mountpoint) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            let text = format!("{at} is no directory; give one to mount on");
            return Err(MountError::new(MountErrorKind::NotDirectory, text));
        }
        Err(error) => {
            let kind = match error.kind() {
                io::ErrorKind::NotFound => MountErrorKind::NotFound,
                io::ErrorKind::PermissionDenied => MountErrorKind::NoPermission,
                _ => MountErrorKind::Other,
            };
            let text = format!("cannot mount on {at}");
            return Err(MountError::new(kind, text).caused_by(error));
        }
    }
    if is_root() { direct::mount(options) } else { helper::mount(options) }
}

/// Opens the device, or says why it cannot be had.
fn open_device() -> Result<Device, MountError> {
    Device::open().map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound => {
                "there is no /dev/fuse: load the kernel's module (modprobe fuse), or give the \
                 container the device"
            }
            _ => "cannot open /dev/fuse",
        };
        MountError::new(MountErrorKind::NoDevice, what).caused_by(error)
    })
}

/// Unmounts what FUSE has mounted at a path. A `lazy` unmount takes it away at once, and what still
/// uses it can go on until it lets go.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<(), MountError> {
    if is_root() { direct::unmount(mountpoint, lazy) } else { helper::unmount(mountpoint, lazy) }
}

/// Unmounts at once and cuts the connection, where this process may; otherwise it goes lazily.
pub(crate) fn abort(mountpoint: &Path) -> Result<(), MountError> {
    if is_root() { direct::abort(mountpoint) } else { helper::unmount(mountpoint, true) }
}

/// Whether a path is a mount whose server is gone.
pub fn is_stale(mountpoint: &Path) -> bool {
    // Of its root the kernel may know the attributes by heart, but not how full it is. What was asked
    // while the server went is aborted.
    let answer = rustix::fs::statfs(mountpoint);
    matches!(answer, Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// Whether this machine has the device at all.
pub fn has_device() -> bool {
    Path::new(device::PATH).exists()
}
