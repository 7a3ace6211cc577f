//! The device `/dev/fuse`: one descriptor for each thread, all of one connection.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::{self, IoSlice};

/// Where the device is.
pub(crate) const PATH: &str = "/dev/fuse";

/// A descriptor of a connection to the kernel.
#[derive(Debug)]
pub(crate) struct Device(OwnedFd);

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Device {
    /// A new descriptor, of no connection yet.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self(rustix::fs::open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Takes a descriptor that somebody else has opened and mounted.
    pub(crate) fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self(fd))
    }

    /// One more descriptor of the same connection: requests and replies of different threads then
    /// meet in no lock.
    pub(crate) fn again(&self) -> io::Result<Self> {
        let fresh = Self::open()?;
        clone::attach(fresh.as_fd(), self.as_fd())?;
        Ok(fresh)
    }

    /// The next request, into `buffer`; `None` when the connection is over.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.0, &mut *buffer) {
                Ok(len) => return Ok(Some(len)),
                // The request was taken back before it was read.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NODEV) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a reply. One that nobody waits for any more is dropped.
    pub(crate) fn send(&self, fixed: &[u8], payload: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(fixed), IoSlice::new(payload)];
        let parts = if payload.is_empty() { &parts[..1] } else { &parts[..] };
        match rustix::io::writev(&self.0, parts) {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Joins a descriptor to a connection. The one call of the kernel here that no library offers.
mod clone {
    #![allow(unsafe_code, reason = "an ioctl is unsafe to name; this one reads a single number")]

    use rustix::fd::{AsRawFd, BorrowedFd};
    use rustix::ioctl::{self, Setter, opcode};
    use std::io;

    /// `FUSE_DEV_IOC_CLONE`.
    const CLONE: ioctl::Opcode = opcode::read::<u32>(229, 0);

    pub(super) fn attach(fresh: BorrowedFd<'_>, of: BorrowedFd<'_>) -> io::Result<()> {
        let number = of.as_raw_fd().cast_unsigned();
        // SAFETY: the kernel reads one `u32` through the pointer that `Setter` gives it, and changes
        // nothing in this process's memory. Both descriptors are open while it does.
        unsafe { ioctl::ioctl(fresh, Setter::<CLONE, u32>::new(number))? };
        Ok(())
    }
}
