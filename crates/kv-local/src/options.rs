//! What can be chosen when a store is opened.

use kv::{Capabilities, Native};

/// Options of a store. None of them changes what is on disk: a store can be opened with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Memory that the engine may use, about: overlays, cache and buffers together.
    pub memory_bytes: usize,
    /// Divides the size at which levels are merged. One, but for tests, which want to see merges of
    /// small stores.
    pub level_scale: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { memory_bytes: 256 << 20, level_scale: 1 }
    }
}

impl Options {
    /// What a layer holds before it is frozen. Two layers can be in memory at once, and a snapshot
    /// may hold parts of older ones for a while.
    pub(crate) fn overlay_bytes(&self) -> usize {
        self.memory_bytes / 10
    }

    /// In which steps a log takes room from the disk.
    pub(crate) fn log_step_bytes(&self) -> u64 {
        (self.overlay_bytes() as u64 / 8).clamp(4 << 10, 4 << 20)
    }

    /// What a log may take of the reserve for commits that free space.
    pub(crate) fn slack_bytes(&self) -> u64 {
        2 * self.log_step_bytes()
    }

    /// What the cache holds.
    pub(crate) fn cache_bytes(&self) -> usize {
        self.memory_bytes / 16 * 7
    }

    /// What indexes of tables may take before they must share the cache.
    pub(crate) fn pinned_bytes(&self) -> usize {
        self.memory_bytes / 5
    }
}

/// The bounds of this engine.
pub(crate) fn capabilities() -> Capabilities {
    Capabilities {
        name: "local",
        key_bytes_max: 4 << 10,
        value_bytes_max: 1 << 20,
        txn_bytes_max: 16 << 20,
        txn_ops_max: 1 << 16,
        txn_lifetime_max: None,
        durable: true,
        shared: false,
        unknown_commits: false,
        native: Native::ALL,
    }
}
