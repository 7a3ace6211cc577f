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
        calls::attach(fresh.as_fd(), self.as_fd())?;
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

    /// Makes a file known to the kernel, which then can use it by itself: its number there.
    pub(crate) fn open_backing(&self, file: BorrowedFd<'_>) -> io::Result<u32> {
        calls::open(self.as_fd(), file)
    }

    /// The kernel need not know it any more. Files that are open stay so.
    pub(crate) fn close_backing(&self, id: u32) -> io::Result<()> {
        calls::close(self.as_fd(), id)
    }

    /// Sends a reply. One that nobody waits for any more is dropped.
    pub(crate) fn send(&self, fixed: &[u8], payload: &[u8]) -> io::Result<()> {
        let sent = match payload {
            [] => rustix::io::write(&self.0, fixed),
            _ => rustix::io::writev(&self.0, &[IoSlice::new(fixed), IoSlice::new(payload)]),
        };
        match sent {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Calls of the kernel that no library offers: joining a descriptor to a connection, and telling it which
/// files it can use by itself.
mod calls {
    #![allow(unsafe_code, reason = "an ioctl is unsafe to name; these read a few numbers")]

    use rustix::fd::{AsRawFd, BorrowedFd};
    use rustix::ioctl::{self, Setter, opcode};
    use std::io;

    /// `FUSE_DEV_IOC_CLONE`.
    const CLONE: ioctl::Opcode = opcode::read::<u32>(229, 0);
    /// `FUSE_DEV_IOC_BACKING_OPEN` and `_CLOSE`.
    const BACKING_OPEN: ioctl::Opcode = opcode::write::<BackingMap>(229, 1);
    const BACKING_CLOSE: ioctl::Opcode = opcode::write::<u32>(229, 2);

    /// `struct fuse_backing_map`.
    #[repr(C)]
    struct BackingMap {
        fd: i32,
        flags: u32,
        padding: u64,
    }

    /// The call that opens: its answer is the number that the kernel gave.
    struct Open(BackingMap);

    // SAFETY: the kernel reads one `BackingMap` through the pointer, which lives as long as the call, and
    // writes nothing.
    unsafe impl ioctl::Ioctl for Open {
        type Output = u32;
        const IS_MUTATING: bool = false;

        fn opcode(&self) -> ioctl::Opcode {
            BACKING_OPEN
        }

        fn as_ptr(&mut self) -> *mut core::ffi::c_void {
            std::ptr::from_mut(&mut self.0).cast()
        }

        unsafe fn output_from_ptr(
            out: ioctl::IoctlOutput,
            _: *mut core::ffi::c_void,
        ) -> rustix::io::Result<u32> {
            u32::try_from(out).map_err(|_| rustix::io::Errno::INVAL)
        }
    }

    pub(super) fn open(device: BorrowedFd<'_>, file: BorrowedFd<'_>) -> io::Result<u32> {
        let map = BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: as said above; both descriptors are open while it runs.
        Ok(unsafe { ioctl::ioctl(device, Open(map))? })
    }

    pub(super) fn close(device: BorrowedFd<'_>, id: u32) -> io::Result<()> {
        // SAFETY: the kernel reads one `u32` through the pointer that `Setter` gives it.
        unsafe { ioctl::ioctl(device, Setter::<BACKING_CLOSE, u32>::new(id))? };
        Ok(())
    }

    pub(super) fn attach(fresh: BorrowedFd<'_>, of: BorrowedFd<'_>) -> io::Result<()> {
        let number = of.as_raw_fd().cast_unsigned();
        // SAFETY: the kernel reads one `u32` through the pointer that `Setter` gives it, and changes
        // nothing in this process's memory. Both descriptors are open while it does.
        unsafe { ioctl::ioctl(fresh, Setter::<CLONE, u32>::new(number))? };
        Ok(())
    }
}
