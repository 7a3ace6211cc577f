//! What is asked, in words that belong to no transport.

use std::ops::Range;

/// Who asks for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The number under which the answer is awaited.
    pub(crate) unique: u64,
    /// The inode that is meant.
    pub(crate) ino: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// It was asked before, of a process that died.
    pub(crate) again: bool,
    /// The number of its place among those under way, for what must not be done twice; 0 for none.
    pub(crate) slot: u32,
}

/// A request. Names and values borrow from the transport's buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Op<'a> {
    Lookup {
        name: &'a [u8],
    },
    /// The kernel knows these inodes no more, each eight bytes among sixteen. Nobody waits.
    Forget {
        inodes: &'a [u8],
    },
    Getattr,
    Statx,
    Setattr(Setattr),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        rdev: u32,
        umask: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        ino: u64,
        name: &'a [u8],
    },
    Open {
        flags: u32,
        kill: bool,
    },
    Create {
        name: &'a [u8],
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Tmpfile {
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        len: u32,
    },
    Write(Write),
    Statfs,
    Release {
        handle: u64,
        owner: Option<u64>,
        flock: bool,
    },
    Fsync {
        handle: u64,
        data_only: bool,
    },
    Flush {
        handle: u64,
        owner: u64,
    },
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
        kill_group: bool,
    },
    Getxattr {
        name: &'a [u8],
        len: u32,
    },
    Listxattr {
        len: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Opendir,
    Readdir {
        handle: u64,
        cookie: u64,
        len: u32,
    },
    Readdirplus {
        handle: u64,
        cookie: u64,
        len: u32,
    },
    Releasedir {
        handle: u64,
    },
    Fsyncdir {
        handle: u64,
    },
    Getlk(Lk),
    Setlk {
        lk: Lk,
        wait: bool,
    },
    Access {
        mask: u32,
    },
    Interrupt {
        unique: u64,
    },
    Destroy,
    Fallocate {
        handle: u64,
        offset: u64,
        len: u64,
        mode: u32,
    },
    Lseek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    CopyRange(CopyRange),
    Syncfs,
    /// Known, and not done here.
    Refused,
}

/// What to change of an inode; times as seconds and nanoseconds, `None` within for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Setattr {
    pub(crate) handle: Option<u64>,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<Option<(i64, u32)>>,
    pub(crate) mtime: Option<Option<(i64, u32)>>,
    /// Set-user and set-group bits must go.
    pub(crate) kill: bool,
}

/// Bytes to write: where they are in what the transport brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) handle: u64,
    pub(crate) offset: u64,
    pub(crate) data: Range<usize>,
    /// Set-user and set-group bits must go.
    pub(crate) kill: bool,
}

/// Bytes to copy from one open file to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyRange {
    pub(crate) from: u64,
    pub(crate) from_offset: u64,
    pub(crate) to_ino: u64,
    pub(crate) to: u64,
    pub(crate) to_offset: u64,
    pub(crate) len: u64,
    pub(crate) flags: u64,
    /// Whether the answer has 64 bits.
    pub(crate) wide: bool,
}

/// A lock to set or to ask for, `start..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lk {
    pub(crate) handle: u64,
    pub(crate) owner: u64,
    pub(crate) start: u64,
    pub(crate) last: u64,
    /// F_RDLCK, F_WRLCK or F_UNLCK.
    pub(crate) kind: u32,
    pub(crate) pid: u32,
    pub(crate) flock: bool,
}

/// What the kernel says of itself when the connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Init {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) max_readahead: u32,
    pub(crate) flags: u64,
}
