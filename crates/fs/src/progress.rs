//! How far long work has come, told to whoever started it, who may also ask it to stop.

use crate::error::{Error, Kind, Result};

/// Is told of the steps of long work. What `done` counts is said by each work that takes one.
pub trait Progress: Sync {
    /// `done` of `total` steps are done; `total` is absent where nobody knows.
    fn advance(&self, done: u64, total: Option<u64>);

    /// Whether the work should go on. Once this is false it ends with [`crate::Kind::Interrupted`] soon.
    fn goes_on(&self) -> bool {
        true
    }
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn advance(&self, _done: u64, _total: Option<u64>) {}
}

/// Ends work whose starter does not want it to go on.
pub(crate) fn go_on(progress: &dyn Progress) -> Result<()> {
    match progress.goes_on() {
        true => Ok(()),
        false => Err(Error::new(Kind::Interrupted, "it was asked to stop before it was done")),
    }
}
