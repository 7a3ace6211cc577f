//! Errors of the filesystem: what kind, what happened to what, and the one table to errno.

use std::borrow::Cow;
use std::fmt;

/// The result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What an operation failed with. Each kind has one errno, see [`Kind::errno`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// No such name, or the inode is gone.
    NotFound,
    /// The name is taken.
    Exists,
    /// Something other than a directory where a directory is needed.
    NotDirectory,
    /// A directory where something else is needed.
    IsDirectory,
    /// The directory has entries.
    NotEmpty,
    /// The mode or an access control list forbids it.
    AccessDenied,
    /// Only the owner or a privileged caller may do it.
    NotPermitted,
    /// An argument makes no sense.
    Invalid,
    /// A name or a link's target is too long.
    NameTooLong,
    /// An inode cannot have more links.
    TooManyLinks,
    /// The file would be larger than a file can be.
    FileTooBig,
    /// The volume, the quota or the engine is full.
    NoSpace,
    /// There is no such extended attribute.
    NoAttribute,
    /// The result does not fit the caller's buffer.
    Range,
    /// A value is larger than such a value may be.
    TooBig,
    /// This is not done here.
    Unsupported,
    /// The two ends are in different volumes.
    CrossDevice,
    /// Something else uses it now.
    Busy,
    /// There is no such handle, or it was not opened for this.
    BadHandle,
    /// Too many symbolic links, or one where none may be.
    Loop,
    /// It would have to wait.
    WouldBlock,
    /// Waiting would never end.
    Deadlock,
    /// There is no more data or hole behind the offset; no such device.
    NoDevice,
    /// The volume is read-only.
    ReadOnly,
    /// This session was ended by others, or the handle belongs to one that was.
    Stale,
    /// The caller stopped waiting.
    Interrupted,
    /// A table of this session is full.
    TooManyOpen,
    /// No more locks can be had.
    NoLocks,
    /// Stored bytes are not what was written.
    Corrupt,
    /// The store failed, or cannot be reached.
    Io,
    /// The store is not a volume of this kind, or of a version that this program does not know.
    Format,
}

impl Kind {
    /// The errno of Linux for this kind. The one place where numbers are given.
    pub fn errno(self) -> i32 {
        match self {
            Kind::NotPermitted => 1,
            Kind::NotFound => 2,
            Kind::Interrupted => 4,
            Kind::Io | Kind::Corrupt | Kind::Format => 5,
            Kind::NoDevice => 6,
            Kind::TooBig => 7,
            Kind::BadHandle => 9,
            Kind::WouldBlock => 11,
            Kind::AccessDenied => 13,
            Kind::Busy => 16,
            Kind::Exists => 17,
            Kind::CrossDevice => 18,
            Kind::NotDirectory => 20,
            Kind::IsDirectory => 21,
            Kind::Invalid => 22,
            Kind::TooManyOpen => 24,
            Kind::FileTooBig => 27,
            Kind::NoSpace => 28,
            Kind::ReadOnly => 30,
            Kind::TooManyLinks => 31,
            Kind::Range => 34,
            Kind::Deadlock => 35,
            Kind::NameTooLong => 36,
            Kind::NoLocks => 37,
            Kind::NotEmpty => 39,
            Kind::Loop => 40,
            Kind::NoAttribute => 61,
            Kind::Unsupported => 95,
            Kind::Stale => 116,
        }
    }
}

/// An error: its kind for programs, its words for people.
#[derive(Clone)]
pub struct Error(Inner);

#[derive(Clone)]
enum Inner {
    Own(Kind, Cow<'static, str>),
    Store(kv::Error),
    /// What a truncation cut off must be gone first: run this job, then try again. Never leaves the
    /// crate.
    Trimming(u64),
    /// The bytes are, or are to be, in a file of the local home: look there. Never leaves the crate.
    Moved,
}

impl Error {
    pub(crate) fn trimming(job: u64) -> Self {
        Self(Inner::Trimming(job))
    }

    /// The job that must be run before the operation can be.
    pub(crate) fn waits_for_trim(&self) -> Option<u64> {
        match &self.0 {
            Inner::Trimming(job) => Some(*job),
            Inner::Own(..) | Inner::Store(_) | Inner::Moved => None,
        }
    }

    pub(crate) fn moved() -> Self {
        Self(Inner::Moved)
    }

    /// Whether the bytes are in a file of the local home.
    pub(crate) fn is_moved(&self) -> bool {
        matches!(self.0, Inner::Moved)
    }

    /// The transaction has to be run again, as after a conflict.
    pub(crate) fn again(context: &'static str) -> Self {
        kv::Error::new(kv::ErrorKind::Conflict, context).into()
    }

    /// Whether the same transaction, run again, may succeed.
    pub(crate) fn passes(&self) -> bool {
        matches!(&self.0, Inner::Store(error) if error.kind().is_retryable())
    }

    /// An error with the words that people will read.
    pub fn new(kind: Kind, context: impl Into<Cow<'static, str>>) -> Self {
        Self(Inner::Own(kind, context.into()))
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        match &self.0 {
            Inner::Own(kind, _) => *kind,
            Inner::Trimming(_) | Inner::Moved => Kind::Busy,
            Inner::Store(error) => match error.kind() {
                kv::ErrorKind::Corrupt => Kind::Corrupt,
                kv::ErrorKind::Full => Kind::NoSpace,
                kv::ErrorKind::ReadOnly => Kind::ReadOnly,
                kv::ErrorKind::Unsupported | kv::ErrorKind::TooLarge => Kind::Io,
                kv::ErrorKind::Conflict
                | kv::ErrorKind::Unknown
                | kv::ErrorKind::Unavailable
                | kv::ErrorKind::TooOld
                | kv::ErrorKind::Closed => Kind::Io,
            },
        }
    }

    /// The errno of Linux.
    pub fn errno(&self) -> i32 {
        self.kind().errno()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Own(_, context) => f.write_str(context),
            Inner::Store(error) => write!(f, "the store: {error}"),
            Inner::Trimming(_) => f.write_str("a truncation is still being carried out"),
            Inner::Moved => f.write_str("the bytes are in a file of the local home"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Own(kind, context) => write!(f, "{kind:?}({context})"),
            Inner::Store(error) => write!(f, "Store({error:?})"),
            Inner::Trimming(job) => write!(f, "Trimming({job})"),
            Inner::Moved => f.write_str("Moved"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Inner::Own(..) | Inner::Trimming(_) | Inner::Moved => None,
            Inner::Store(error) => Some(error),
        }
    }
}

impl From<kv::Error> for Error {
    fn from(error: kv::Error) -> Self {
        Self(Inner::Store(error))
    }
}

impl kv::Failure for Error {
    fn store_error(&self) -> Option<&kv::Error> {
        match &self.0 {
            Inner::Own(..) | Inner::Trimming(_) | Inner::Moved => None,
            Inner::Store(error) => Some(error),
        }
    }
}

/// Short ways to the errors that every operation has.
macro_rules! shorts {
    ($($name:ident $kind:ident;)*) => {$(
        #[doc = concat!("[`Kind::", stringify!($kind), "`] with these words.")]
        pub(crate) fn $name(context: impl Into<Cow<'static, str>>) -> Error {
            Error::new(Kind::$kind, context)
        }
    )*};
}

shorts! {
    not_found NotFound;
    exists Exists;
    not_directory NotDirectory;
    is_directory IsDirectory;
    not_empty NotEmpty;
    access_denied AccessDenied;
    not_permitted NotPermitted;
    invalid Invalid;
    too_long NameTooLong;
    corrupt Corrupt;
    unsupported Unsupported;
    bad_handle BadHandle;
    no_space NoSpace;
    too_big FileTooBig;
    stale Stale;
}
