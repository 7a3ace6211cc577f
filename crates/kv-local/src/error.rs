//! From what the disk says to what the caller should do.

use kv::{Error, ErrorKind};
use std::io;

/// An error of the disk, met while doing `what`.
pub(crate) fn io_error(what: impl Into<String>, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
        io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, what.into()).caused_by(error)
}

/// Stored bytes are not what was written.
pub(crate) fn corrupt(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, what.into())
}
