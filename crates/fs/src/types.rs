//! What callers say and what they are told, in no protocol's words.

/// The number of an inode. The root is 1; a number is never used again.
pub type Ino = u64;

/// The root directory.
pub const ROOT: Ino = 1;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest target of a symbolic link.
pub const SYMLINK_BYTES_MAX: usize = 4095;
/// The largest file: offsets are signed for callers.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// The most links of one inode.
pub const LINKS_MAX: u32 = i32::MAX as u32;
/// The longest value of an extended attribute.
pub const XATTR_BYTES_MAX: usize = 65_536;

/// The bits of a mode, as Linux has them.
pub mod mode {
    #![allow(missing_docs, reason = "the names of stat.h")]
    pub const TYPE: u32 = 0o170_000;
    pub const SOCKET: u32 = 0o140_000;
    pub const SYMLINK: u32 = 0o120_000;
    pub const FILE: u32 = 0o100_000;
    pub const BLOCK: u32 = 0o060_000;
    pub const DIRECTORY: u32 = 0o040_000;
    pub const CHARACTER: u32 = 0o020_000;
    pub const FIFO: u32 = 0o010_000;
    pub const SETUID: u32 = 0o4000;
    pub const SETGID: u32 = 0o2000;
    pub const STICKY: u32 = 0o1000;
    pub const PERMISSIONS: u32 = 0o7777;
}

/// What an inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    Character,
    /// A block device.
    Block,
}

impl FileType {
    /// From the type bits of a mode.
    pub fn of_mode(mode: u32) -> Option<Self> {
        Some(match mode & mode::TYPE {
            mode::FILE => Self::File,
            mode::DIRECTORY => Self::Directory,
            mode::SYMLINK => Self::Symlink,
            mode::FIFO => Self::Fifo,
            mode::SOCKET => Self::Socket,
            mode::CHARACTER => Self::Character,
            mode::BLOCK => Self::Block,
            _ => return None,
        })
    }

    /// The type bits of a mode.
    pub fn mode(self) -> u32 {
        match self {
            Self::File => mode::FILE,
            Self::Directory => mode::DIRECTORY,
            Self::Symlink => mode::SYMLINK,
            Self::Fifo => mode::FIFO,
            Self::Socket => mode::SOCKET,
            Self::Character => mode::CHARACTER,
            Self::Block => mode::BLOCK,
        }
    }
}

/// An instant: seconds since 1970 and nanoseconds after them, below 10^9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time {
    /// Seconds since the beginning of 1970, negative before.
    pub secs: i64,
    /// Nanoseconds after that second.
    pub nanos: u32,
}

/// Who asks. Checks that the caller's own side has done already are not repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group; new inodes belong to it.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// Bits that new inodes do not get.
    pub umask: u32,
    /// Whether permissions are checked here. False when somebody below has checked them, as a kernel
    /// does that was asked to.
    pub checked_here: bool,
}

impl Caller {
    /// The superuser, with no umask.
    pub fn root() -> Self {
        Self::user(0, 0)
    }

    /// A user whose permissions are checked here.
    pub fn user(uid: u32, gid: u32) -> Self {
        Self { uid, gid, groups: Vec::new(), umask: 0, checked_here: true }
    }

    /// Whether it may do what only the superuser may.
    pub fn is_privileged(&self) -> bool {
        self.uid == 0
    }

    /// Whether it is in a group.
    pub fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// What is known of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub ino: Ino,
    /// Type and permission bits.
    pub mode: u32,
    /// How many names it has; for a directory, two and one for each directory in it.
    pub nlink: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The device, of a device.
    pub rdev: u32,
    /// Bytes; of a symbolic link, those of its target; of a directory always 4,096.
    pub size: u64,
    /// What it takes, in units of 512 bytes.
    pub blocks: u64,
    /// The unit in which its data is best read and written.
    pub block_bytes: u32,
    /// Last read.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// When it was made.
    pub btime: Time,
    /// Its bytes may change without anybody being told, as those of a file that is mapped: what is said here
    /// is not to be kept.
    pub live: bool,
}

impl Attr {
    /// What it is.
    pub fn file_type(&self) -> FileType {
        FileType::of_mode(self.mode).unwrap_or(FileType::File)
    }
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// This one.
    To(Time),
}

/// What to change of an inode; `None` leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// Permission bits; type bits are ignored.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size, of a file.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of the contents.
    pub mtime: Option<SetTime>,
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Every write goes to the end.
    pub append: bool,
    /// Cut it to nothing first.
    pub truncate: bool,
    /// In `create`: the name must be new. Otherwise an existing file is opened.
    pub exclusive: bool,
}

impl OpenFlags {
    /// Reading only.
    pub const READ: Self =
        Self { read: true, write: false, append: false, truncate: false, exclusive: false };
    /// Reading and writing.
    pub const READ_WRITE: Self = Self { write: true, ..Self::READ };
}

/// How to rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenameFlags {
    /// The new name must be free.
    pub no_replace: bool,
    /// The two names change places. Excludes the others.
    pub exchange: bool,
    /// A whiteout (a character device 0,0) stays at the old name.
    pub whiteout: bool,
}

/// What fallocate does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallocate {
    /// Space for the range is taken now; the file grows when `keep_size` is false.
    Allocate {
        /// Whether the size stays.
        keep_size: bool,
    },
    /// The range becomes a hole; the size stays.
    PunchHole,
    /// The range reads as zeros and its space stays taken; the file grows when `keep_size` is false.
    ZeroRange {
        /// Whether the size stays.
        keep_size: bool,
    },
}

/// What to look for in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// The first byte at or behind the offset that is not in a hole.
    Data,
    /// The first byte at or behind the offset that is in a hole; the end counts as one.
    Hole,
}

/// Whether an extended attribute must be new or must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrMode {
    /// Either.
    Any,
    /// New.
    Create,
    /// There.
    Replace,
}

/// An open file of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u64);

/// An open directory of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirHandle(pub u64);

/// One name of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry<N = bytes::Bytes> {
    /// The name.
    pub name: N,
    /// What it names.
    pub ino: Ino,
    /// What that is.
    pub file_type: FileType,
    /// Where to go on behind this entry.
    pub cookie: u64,
}

impl DirEntry {
    /// The same, with the name where it is.
    pub fn by_ref(&self) -> DirEntry<&[u8]> {
        let &Self { ref name, ino, file_type, cookie } = self;
        DirEntry { name, ino, file_type, cookie }
    }
}

/// The volume as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatFs {
    /// The unit of the block counts.
    pub block_bytes: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks that are free.
    pub blocks_free: u64,
    /// Inodes in all.
    pub files: u64,
    /// Inodes that can still be made.
    pub files_free: u64,
    /// The longest name.
    pub name_bytes_max: u32,
}

/// The kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// None: frees the range.
    Unlock,
}

/// A byte-range lock: `start..end`, where an `end` of `u64::MAX` is the end of any file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// What it does.
    pub kind: LockKind,
    /// The first byte.
    pub start: u64,
    /// The first byte behind it.
    pub end: u64,
    /// The process, for those who ask who is in the way.
    pub pid: u32,
}
