//! What one operation takes: each is timed by itself.

use crate::error::Result;
use crate::table::median;
use std::time::Instant;

/// Microseconds of an operation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) median: f64,
    /// With what is done now and then for many of them.
    pub(crate) mean: f64,
}

impl Cost {
    pub(crate) fn of(samples: &[f64]) -> Self {
        let mean = samples.iter().sum::<f64>() / samples.len().max(1) as f64;
        Self { median: median(samples), mean }
    }
}

/// Times of the operations of one kind.
#[derive(Debug, Default)]
pub(crate) struct Clock(Vec<f64>);

impl Clock {
    pub(crate) fn time<T>(&mut self, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let done = operation();
        self.0.push(start.elapsed().as_secs_f64() * 1e6);
        done
    }

    /// Takes over what another one counted.
    pub(crate) fn absorb(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn cost(&self) -> Cost {
        Cost::of(&self.0)
    }
}
