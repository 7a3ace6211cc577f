//! Counts and latencies of requests, by kind.

use crate::wire::numbers::Opcode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many classes of latency are told apart: class `n` is below `2^n` microseconds.
pub const BUCKETS: usize = 32;

/// What is known of one kind of request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpStats {
    /// Its name.
    pub name: &'static str,
    /// How many were answered.
    pub count: u64,
    /// How many of these with an error, a missing name included.
    pub errors: u64,
    /// The time from reading the request to its answer, all together.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Bytes that were read or written.
    pub bytes: u64,
    /// How many took less than `2^n` microseconds, and not less than half of that; the last has all
    /// longer ones.
    pub buckets: [u64; BUCKETS],
}

/// Counters of all kinds.
#[derive(Debug)]
pub(crate) struct Stats([Counters; Opcode::COUNT]);

#[derive(Debug, Default)]
struct Counters {
    errors: AtomicU64,
    total_ns: AtomicU64,
    max_ns: AtomicU64,
    bytes: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Stats {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counters::default()))
    }
}

impl Stats {
    /// One request more.
    pub(crate) fn note(&self, opcode: Opcode, took: Duration, failed: bool, bytes: u64) {
        let Some(counters) = self.0.get(opcode as usize) else {
            return;
        };
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        counters.total_ns.fetch_add(nanos, Ordering::Relaxed);
        if nanos > counters.max_ns.load(Ordering::Relaxed) {
            counters.max_ns.fetch_max(nanos, Ordering::Relaxed);
        }
        if failed {
            counters.errors.fetch_add(1, Ordering::Relaxed);
        }
        if bytes != 0 {
            counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        let class = (u64::BITS - (nanos / 1000).leading_zeros()) as usize;
        if let Some(bucket) = counters.buckets.get(class.min(BUCKETS - 1)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What was counted so far, of those kinds that there were.
    pub(crate) fn snapshot(&self) -> Vec<OpStats> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counted = |(opcode, counters): (&Opcode, &Counters)| {
            let buckets: [u64; BUCKETS] =
                std::array::from_fn(|at| counters.buckets.get(at).map_or(0, read));
            OpStats {
                name: opcode.name(),
                // Each is in one of them.
                count: buckets.iter().sum(),
                errors: read(&counters.errors),
                total_ns: read(&counters.total_ns),
                max_ns: read(&counters.max_ns),
                bytes: read(&counters.bytes),
                buckets,
            }
        };
        let all = Opcode::ALL.iter().zip(&self.0).map(counted);
        all.filter(|stats| stats.count > 0).collect()
    }
}
