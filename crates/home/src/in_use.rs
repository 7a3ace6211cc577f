//! Whether a file is open elsewhere. A lease for writing is given to the only one who has a file open, and
//! a file that is mapped counts as open: so asking for one and giving it back tells.

#![allow(unsafe_code, reason = "fcntl with leases is in no library that hides it")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Once;

/// Whether others have the file open or mapped. The descriptor must be open for writing.
pub(crate) fn is_in_use(file: BorrowedFd<'_>) -> io::Result<bool> {
    static DEAF: Once = Once::new();
    // Whoever opens the file in the moment between makes the kernel send this signal, which would end
    // the process.
    // SAFETY: ignoring a signal that nobody here handles runs no code of ours.
    DEAF.call_once(|| unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
    });
    // SAFETY: both calls take a number and touch no memory of this process; the descriptor is open.
    let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    if taken == -1 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EAGAIN) => Ok(true),
            _ => Err(error),
        };
    }
    // SAFETY: as above.
    let given_back = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    if given_back == -1 { Err(io::Error::last_os_error()) } else { Ok(false) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_second_descriptor_is_noticed_until_it_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file =
            std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        assert!(!is_in_use(file.as_fd()).unwrap());
        let reader = std::fs::File::open(&path).unwrap();
        assert!(is_in_use(file.as_fd()).unwrap());
        drop(reader);
        let writer = std::fs::File::options().write(true).open(&path).unwrap();
        assert!(is_in_use(file.as_fd()).unwrap());
        drop(writer);
        assert!(!is_in_use(file.as_fd()).unwrap());
        // The same open file twice is one user.
        let twin = file.try_clone().unwrap();
        assert!(!is_in_use(file.as_fd()).unwrap());
        drop(twin);
    }
}
