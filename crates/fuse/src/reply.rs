//! What is answered, in words that belong to no transport.

use bytes::Bytes;
use fs::{Attr, DirEntry, Lock, StatFs};
use std::time::Duration;

/// An error number of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const EINTR: Errno = Errno(4);
    pub(crate) const EIO: Errno = Errno(5);
    pub(crate) const EINVAL: Errno = Errno(22);
    pub(crate) const EMFILE: Errno = Errno(24);
    pub(crate) const ETXTBSY: Errno = Errno(26);
    pub(crate) const ERANGE: Errno = Errno(34);
    pub(crate) const ENOSYS: Errno = Errno(38);
    pub(crate) const EPROTO: Errno = Errno(71);
    pub(crate) const EOPNOTSUPP: Errno = Errno(95);
    pub(crate) const ESTALE: Errno = Errno(116);
}

impl From<fs::Error> for Errno {
    fn from(error: fs::Error) -> Self {
        let errno = Errno(error.errno());
        if errno == Errno::EIO {
            // The caller gets a number; what is behind it is for who looks after the store.
            tracing::error!("{error}");
        }
        errno
    }
}

/// How long the kernel may keep what it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ttl {
    pub(crate) attr: Duration,
    pub(crate) entry: Duration,
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Reply {
    Done,
    /// Nothing is sent: nobody waits.
    Silence,
    Entry {
        attr: Attr,
        ttl: Ttl,
    },
    /// There is no such name, and the kernel may remember that.
    NoEntry {
        ttl: Duration,
    },
    Attr {
        attr: Attr,
        ttl: Duration,
    },
    Statx {
        attr: Attr,
        ttl: Duration,
    },
    Opened {
        handle: u64,
        flags: u32,
        /// The file that the kernel uses by itself, with the flag that says so.
        backing: u32,
    },
    Created {
        attr: Attr,
        ttl: Ttl,
        handle: u64,
        flags: u32,
        backing: u32,
    },
    Bytes(Bytes),
    /// A list of names, laid out by [`crate::wire::encode::Listing`].
    Listing(Vec<u8>),
    Written(u32),
    Copied(u64),
    Offset(u64),
    Statfs(StatFs),
    /// How long an attribute is, for who asked with no room for it.
    Len(u32),
    Lock(Option<Lock>),
}

/// One name for a listing, with what is known of its inode when that was asked for.
#[derive(Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) entry: DirEntry<&'a [u8]>,
    pub(crate) attr: Option<&'a Attr>,
}
