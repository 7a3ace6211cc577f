//! The device `/dev/fuse`: one descriptor for each thread, all of one connection.

use crate::watch::{LOOK_MAX, Watch};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

/// Where the device is.
pub(crate) const PATH: &str = "/dev/fuse";

/// A descriptor of a connection to the kernel.
#[derive(Debug)]
pub(crate) struct Device {
    fd: OwnedFd,
    watch: Watch,
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Device {
    /// A new descriptor, of no connection yet.
    pub(crate) fn open() -> io::Result<Self> {
        let fd = rustix::fs::open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { fd, watch: Watch::new() })
    }

    /// Takes a descriptor that somebody else has opened and mounted.
    pub(crate) fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        // Whoever had it may have looked.
        rustix::io::ioctl_fionbio(&fd, false)?;
        Ok(Self { fd, watch: Watch::new() })
    }

    /// One more descriptor of the same connection: requests and replies of different threads then
    /// meet in no lock.
    pub(crate) fn again(&self) -> io::Result<Self> {
        let fresh = Self::open()?;
        calls::attach(fresh.as_fd(), self.as_fd())?;
        Ok(Self { watch: self.watch.beside(), ..fresh })
    }

    /// The next request, into `buffer`; `None` when the connection is over. One thread at a time waits for it.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.watch.looks() {
            return self.look(buffer);
        }
        loop {
            match self.read(buffer)? {
                Read::Nothing => {}
                Read::Over => return Ok(None),
                Read::Request(len) => return Ok(Some(len)),
            }
        }
    }

    /// A request was received so long after the one before was answered.
    pub(crate) fn heard_after(&self, idle: Duration) -> io::Result<()> {
        if !self.watch.looks() && self.watch.slept(idle) {
            rustix::io::ioctl_fionbio(&self.fd, true)?;
        }
        Ok(())
    }

    /// The same without sleeping at first.
    fn look(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let (mut began, mut away) = (None, Duration::ZERO);
        let len = loop {
            match self.read(buffer)? {
                Read::Over => return Ok(None),
                Read::Request(len) => break len,
                Read::Nothing => {}
            }
            let now = Instant::now();
            if now.duration_since(*began.get_or_insert(now)) < LOOK_MAX {
                // Whoever else wants the CPU has it before the next look.
                std::thread::yield_now();
                away = away.max(now.elapsed());
                continue;
            }
            if !self.watch.looked(false, away) {
                rustix::io::ioctl_fionbio(&self.fd, false)?;
                return self.receive(buffer);
            }
            let mut waited = [PollFd::new(&self.fd, PollFlags::IN)];
            match poll(&mut waited, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            (began, away) = (None, Duration::ZERO);
        };
        if !self.watch.looked(true, away) {
            rustix::io::ioctl_fionbio(&self.fd, false)?;
        }
        Ok(Some(len))
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<Read> {
        match rustix::io::read(&self.fd, &mut *buffer) {
            Ok(len) => Ok(Read::Request(len)),
            // Or it was taken back before it was read.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => Ok(Read::Nothing),
            Err(Errno::NODEV) => Ok(Read::Over),
            Err(error) => Err(error.into()),
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
            [] => rustix::io::write(&self.fd, fixed),
            _ => rustix::io::writev(&self.fd, &[IoSlice::new(fixed), IoSlice::new(payload)]),
        };
        match sent {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// What was read.
enum Read {
    Request(usize),
    Nothing,
    /// The connection is over.
    Over,
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
