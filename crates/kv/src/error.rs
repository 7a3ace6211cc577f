//! Errors, by what to do about them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The result of a store's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Somebody else's commit came between. Nothing was written. Try again.
    Conflict,
    /// The commit may have happened or not, and that no longer changes. Look, then try again.
    Unknown,
    /// The engine cannot be reached or its disk fails now. Nothing was written. Try again later.
    Unavailable,
    /// No room is left. Nothing was written. Make room, then try again.
    Full,
    /// A key, value or transaction is over a bound. Write less at once.
    TooLarge,
    /// The snapshot is no longer kept. Try again on a new one.
    TooOld,
    /// The engine does not do this, or the argument is not one that it can take. Do it otherwise.
    Unsupported,
    /// The store was opened for reading only, or its disk takes no writes. Nothing was written.
    ReadOnly,
    /// Stored bytes are not what was written. Repair or restore.
    Corrupt,
    /// The store is closed, or must be opened again. No call can succeed on this handle.
    Closed,
}

impl ErrorKind {
    /// Whether the same transaction, run again, may succeed with nobody's help.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Conflict | Self::Unknown | Self::Unavailable | Self::TooOld)
    }
}

/// An error: its kind says what to do, its text what happened and to what.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    context: Cow<'static, str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error with the words that people will read.
    pub fn new(kind: ErrorKind, context: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, context: context.into(), source: None }
    }

    /// The same, caused by `source`.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What to do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same words under another kind.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
