//! Why a benchmark did not come to its end.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A failed benchmark. What it had made is removed in every case where that was possible.
#[derive(Debug)]
pub enum Error {
    /// What was asked for cannot be done: an unknown workload, a bound that is exceeded.
    Asked(String),
    /// A directory cannot be measured: it is missing, not writable, too small.
    Target {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it, for programs.
        trouble: Trouble,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// A call of a workload failed.
    Io {
        /// What was being done.
        doing: String,
        /// Where.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The filesystem gave back something else than what was put in.
    Wrong {
        /// The file or directory.
        path: PathBuf,
        /// What was expected, and what was found.
        what: String,
    },
    /// git or sqlite3 failed.
    Program {
        /// The command.
        command: String,
        /// What it said.
        said: String,
    },
    /// A signal asked to stop.
    Interrupted,
}

/// What is wrong with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It is not there.
    Missing,
    /// It is something else.
    NotDirectory,
    /// Nothing can be made in it.
    NoPermission,
    /// It has too little room.
    NoRoom,
    /// Anything else.
    Other,
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { doing: doing.into(), path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn wrong(path: &Path, what: impl Into<String>) -> Self {
        Self::Wrong { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn target(path: &Path, trouble: Trouble, why: impl Into<String>) -> Self {
        Self::Target { path: path.to_owned(), trouble, why: why.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked(text) => f.write_str(text),
            Self::Target { path, why, .. } => write!(f, "{}: {why}", path.display()),
            Self::Io { doing, path, source } => {
                write!(f, "{doing} in {}: {source}", path.display())?;
                match source.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        f.write_str("; free some space, or ask for less with --quick or --files")
                    }
                    _ => Ok(()),
                }
            }
            Self::Wrong { path, what } => {
                write!(
                    f,
                    "{}: {what}: this filesystem does not keep what it is given",
                    path.display()
                )
            }
            Self::Program { command, said } => write!(f, "{command} failed: {said}"),
            Self::Interrupted => f.write_str("interrupted; what was made is removed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
