//! What an engine can do and where its bounds are.

use std::time::Duration;

/// What an engine declares of itself. A bound that it does not have is `usize::MAX` or `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The engine's name, for people and logs; nothing is decided by it.
    pub name: &'static str,
    /// The longest key.
    pub key_bytes_max: usize,
    /// The longest value.
    pub value_bytes_max: usize,
    /// Keys and values that one transaction may write, in bytes, added up.
    pub txn_bytes_max: usize,
    /// Operations that one transaction may write.
    pub txn_ops_max: usize,
    /// How long after its snapshot a transaction may still read and commit.
    pub txn_lifetime_max: Option<Duration>,
    /// Whether commits survive: false for an engine that lives in memory.
    pub durable: bool,
    /// Whether other processes may use the store at the same time.
    pub shared: bool,
    /// Whether a commit can end unknown while the store goes on. False when an unknown outcome also
    /// closes the store, so that nobody can try again and do the same twice.
    pub unknown_commits: bool,
    /// What the engine does itself and what is emulated.
    pub native: Native,
}

/// What an engine does in one step of its own. What is not native works all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Native {
    /// Deletes a range without reading it.
    pub delete_range: bool,
    /// Adds and compares on the server side.
    pub atomics: bool,
    /// Tells of changes; otherwise a watch polls.
    pub watch: bool,
}

impl Native {
    /// Everything.
    pub const ALL: Native = Native { delete_range: true, atomics: true, watch: true };
}
