//! Which of a session's operations are under way: their replies must stay in the log.

use std::collections::BTreeSet;

/// How many dead replies are worth a range to delete.
const BATCH: u64 = 64;

/// Operations by number, in the order in which they began.
#[derive(Debug)]
pub(super) struct OpLog {
    next: u64,
    live: BTreeSet<u64>,
    /// Everything below is gone from the store.
    cleared: u64,
}

impl OpLog {
    pub(super) fn new() -> Self {
        Self { next: 1, live: BTreeSet::new(), cleared: 1 }
    }

    pub(super) fn begin(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        self.live.insert(id);
        id
    }

    pub(super) fn end(&mut self, id: u64) {
        self.live.remove(&id);
    }

    /// The number below which all replies are dead, when there are enough of them; else 0.
    pub(super) fn clearable(&self) -> u64 {
        let oldest = self.live.first().copied().unwrap_or(self.next);
        if oldest.saturating_sub(self.cleared) >= BATCH { oldest } else { 0 }
    }

    pub(super) fn cleared(&mut self, below: u64) {
        self.cleared = self.cleared.max(below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_operation_keeps_its_reply_and_all_later_ones() {
        let mut log = OpLog::new();
        let slow = log.begin();
        for _ in 0..1000 {
            let id = log.begin();
            log.end(id);
        }
        assert_eq!(log.clearable(), 0);
        log.end(slow);
        assert_eq!(log.clearable(), 1002);
        log.cleared(1002);
        assert_eq!(log.clearable(), 0);
    }
}
