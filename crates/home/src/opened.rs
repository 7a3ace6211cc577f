//! How many files of a home are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opened(Arc<AtomicUsize>);

/// One that is open, until this is dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<AtomicUsize>);

impl Opened {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn one_more(&self) -> Open {
        self.0.fetch_add(1, Ordering::AcqRel);
        Open(Arc::clone(&self.0))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
