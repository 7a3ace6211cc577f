//! The numbers of the protocol that have names in `linux/fuse.h`.

#![allow(missing_docs, reason = "the names of linux/fuse.h")]

/// The version that is spoken.
pub(crate) const MAJOR: u32 = 7;
pub(crate) const MINOR: u32 = 45;
/// The oldest version that is understood: that of Linux 5.13.
pub(crate) const MINOR_MIN: u32 = 33;

/// Bytes of the header of a request, and of a reply.
pub(crate) const IN_HEADER: usize = 40;
pub(crate) const OUT_HEADER: usize = 16;

/// What a connection can do (`FUSE_INIT`), as one word of 64 bits.
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const POSIX_LOCKS: u64 = 1 << 1;
    pub(crate) const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub(crate) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const FLOCK_LOCKS: u64 = 1 << 10;
    pub(crate) const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(crate) const PASSTHROUGH: u64 = 1 << 37;
    pub(crate) const HAS_RESEND: u64 = 1 << 39;
    pub(crate) const OVER_IO_URING: u64 = 1 << 41;
}

/// Which fields of `FUSE_SETATTR` are meant.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// What the kernel is told of an open file.
pub(crate) mod fopen {
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const CACHE_DIR: u32 = 1 << 3;
    pub(crate) const NOFLUSH: u32 = 1 << 5;
    pub(crate) const PASSTHROUGH: u32 = 1 << 7;
}

pub(crate) const OPEN_KILL_SUIDGID: u32 = 1;
/// In the number of a request: it was sent before.
pub(crate) const UNIQUE_RESEND: u64 = 1 << 63;
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1;
pub(crate) const RELEASE_FLUSH: u32 = 1;
pub(crate) const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
pub(crate) const LK_FLOCK: u32 = 1;
pub(crate) const FSYNC_DATA: u32 = 1;

/// Each kind of request, with its number and a name for people.
macro_rules! opcodes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// What a request asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Opcode { $($name,)* }

        impl Opcode {
            /// How many there are.
            pub(crate) const COUNT: usize = [$(Opcode::$name,)*].len();

            pub(crate) const ALL: [Opcode; Self::COUNT] = [$(Opcode::$name,)*];

            pub(crate) fn of_number(number: u32) -> Option<Self> {
                match number { $($number => Some(Opcode::$name),)* _ => None }
            }

            pub(crate) fn name(self) -> &'static str {
                match self { $(Opcode::$name => $text,)* }
            }
        }
    };
}

impl Opcode {
    /// Whether doing it a second time would fail, or do something else.
    pub(crate) fn is_done_once(self) -> bool {
        use Opcode::{
            Create, Link, Mkdir, Mknod, Removexattr, Rename, Rename2, Rmdir, Setxattr, Symlink,
            Tmpfile, Unlink,
        };
        matches!(
            self,
            Create
                | Link
                | Mkdir
                | Mknod
                | Removexattr
                | Rename
                | Rename2
                | Rmdir
                | Setxattr
                | Symlink
                | Tmpfile
                | Unlink
        )
    }
}

opcodes! {
    Lookup = 1, "lookup";
    Forget = 2, "forget";
    Getattr = 3, "getattr";
    Setattr = 4, "setattr";
    Readlink = 5, "readlink";
    Symlink = 6, "symlink";
    Mknod = 8, "mknod";
    Mkdir = 9, "mkdir";
    Unlink = 10, "unlink";
    Rmdir = 11, "rmdir";
    Rename = 12, "rename";
    Link = 13, "link";
    Open = 14, "open";
    Read = 15, "read";
    Write = 16, "write";
    Statfs = 17, "statfs";
    Release = 18, "release";
    Fsync = 20, "fsync";
    Setxattr = 21, "setxattr";
    Getxattr = 22, "getxattr";
    Listxattr = 23, "listxattr";
    Removexattr = 24, "removexattr";
    Flush = 25, "flush";
    Init = 26, "init";
    Opendir = 27, "opendir";
    Readdir = 28, "readdir";
    Releasedir = 29, "releasedir";
    Fsyncdir = 30, "fsyncdir";
    Getlk = 31, "getlk";
    Setlk = 32, "setlk";
    Setlkw = 33, "setlkw";
    Access = 34, "access";
    Create = 35, "create";
    Interrupt = 36, "interrupt";
    Destroy = 38, "destroy";
    Ioctl = 39, "ioctl";
    BatchForget = 42, "forget-many";
    Fallocate = 43, "fallocate";
    Readdirplus = 44, "readdirplus";
    Rename2 = 45, "rename2";
    Lseek = 46, "lseek";
    CopyFileRange = 47, "copy_file_range";
    Syncfs = 50, "syncfs";
    Tmpfile = 51, "tmpfile";
    Statx = 52, "statx";
    CopyFileRange64 = 53, "copy_file_range64";
}
