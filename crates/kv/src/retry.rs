//! When to try again, how often, and for how long.

use crate::{Error, ErrorKind};
use base::Random;
use std::time::Duration;

/// Bounds of the retry loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all, the first one included.
    pub attempts_max: u32,
    /// No try is started later than this after the first one failed.
    pub deadline: Duration,
    /// The longest wait before the second try; it doubles with each.
    pub backoff_min: Duration,
    /// The longest wait of all.
    pub backoff_max: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts_max: 64,
            deadline: Duration::from_secs(30),
            backoff_min: Duration::from_micros(100),
            backoff_max: Duration::from_millis(500),
        }
    }
}

impl Retry {
    /// How long to wait after try number `attempt` (from 1) failed: a random part of a bound that
    /// doubles, so that those who collided do not collide again.
    pub(crate) fn backoff(&self, attempt: u32, random: &dyn Random) -> Duration {
        let doubled = self.backoff_min.saturating_mul(1 << attempt.saturating_sub(1).min(20));
        let bound = doubled.min(self.backoff_max).as_nanos() as u64;
        Duration::from_nanos(random.below(bound.saturating_add(1)))
    }
}

/// Which try this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// An earlier try ended unknown: what this transaction is about to do may be done already.
    pub maybe_committed: bool,
}

/// An error of a transaction's body, which may carry one of the store's.
pub trait Failure: From<Error> {
    /// The store's error, when it is one: the retry loop acts on its kind.
    fn store_error(&self) -> Option<&Error>;
}

impl Failure for Error {
    fn store_error(&self) -> Option<&Error> {
        Some(self)
    }
}

/// What the loop says when it gives up.
pub(crate) fn gave_up(last: Error, attempts: u32, maybe_committed: bool) -> Error {
    // An earlier try may have committed, whatever the last one says.
    let kind = if maybe_committed { ErrorKind::Unknown } else { last.kind() };
    let outcome = if maybe_committed { ", one of which may have committed" } else { "" };
    Error::new(kind, format!("gave up after {attempts} attempts{outcome}")).caused_by(last)
}
