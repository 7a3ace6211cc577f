//! One error for all engines: words for people, and the store's own error where there is one, so
//! that the store's retry loop can act on it.

use std::any::Any;
use std::fmt;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Not a [`std::error::Error`] itself: that is what lets `?` take any error that is one.
#[derive(Debug)]
pub(crate) struct Error {
    text: String,
    store: Option<kv::Error>,
}

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), store: None }
    }

    /// The same error, after the words that say what was being done.
    pub(crate) fn during(mut self, what: impl fmt::Display) -> Self {
        self.text = format!("{what}: {}", self.text);
        self
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let store = (&error as &dyn Any).downcast_ref::<kv::Error>().cloned();
        Self { text: error.to_string(), store }
    }
}

impl kv::Failure for Error {
    fn store_error(&self) -> Option<&kv::Error> {
        self.store.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
