//! What the checker says.

use std::fmt;
use std::ops::AddAssign;

/// What is wrong with a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Two commits have one version.
    VersionTwice,
    /// A commit is not later than what it read, or a transaction that wrote nothing claims to have
    /// happened at another version than that.
    VersionOrder,
    /// A transaction does not see what was over before it began.
    RealTime,
    /// A read does not show the store as it was at the snapshot, with the own writes on top.
    SnapshotRead,
    /// A serializable read would have shown something else right before the commit.
    NotSerializable,
    /// A commit that had to conflict by the contract, although what it read came out the same.
    MissedConflict,
    /// A conflict that nothing explains.
    SpuriousConflict,
    /// A transaction that did not commit has left something, or an unknown one cannot be placed.
    Ghost,
    /// A transaction that committed is gone.
    Lost,
    /// The store's end is not what the commits add up to.
    End,
}

/// One thing that is wrong, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What kind of thing.
    pub wrong: Wrong,
    /// Which transaction, which key, what was seen and what should have been.
    pub text: String,
}

impl Violation {
    pub(super) fn new(wrong: Wrong, text: String) -> Self {
        Self { wrong, text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.wrong, self.text)
    }
}

/// How much a history that is right has shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Transactions that wrote and committed.
    pub committed: usize,
    /// Transactions that wrote nothing and committed.
    pub read_only: usize,
    /// Conflicts.
    pub conflicts: usize,
    /// Transactions that failed or were abandoned.
    pub failed: usize,
    /// Unknown outcomes that turned out to be commits.
    pub unknown_committed: usize,
    /// Unknown outcomes that turned out to be nothing.
    pub unknown_lost: usize,
    /// Reads that were checked.
    pub reads: usize,
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.committed += other.committed;
        self.read_only += other.read_only;
        self.conflicts += other.conflicts;
        self.failed += other.failed;
        self.unknown_committed += other.unknown_committed;
        self.unknown_lost += other.unknown_lost;
        self.reads += other.reads;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} committed, {} read only, {} conflicts, {} failed, {} unknown that had committed, \
             {} unknown that had not, {} reads",
            self.committed,
            self.read_only,
            self.conflicts,
            self.failed,
            self.unknown_committed,
            self.unknown_lost,
            self.reads
        )
    }
}
