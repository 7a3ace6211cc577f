//! Which inodes this session has open. On a private store this is all there is; on a shared one the
//! first open of an inode also writes a lease that others can see.

use crate::types::Ino;
use base::sync::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct OpenFiles(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    inodes: BTreeMap<Ino, Open>,
    doomed: BTreeMap<Ino, u32>,
    /// Last handles that went without anybody who could wait for what that takes.
    abandoned: VecDeque<(Ino, Last)>,
    generation: u64,
    /// Inodes may be open of which nothing is known here.
    taken_over: bool,
}

#[derive(Debug, Default)]
struct Open {
    count: u64,
    /// The client may have it open without a handle of this session, until it says that it has not.
    held: bool,
    /// What the lease says. The same for all handles from the first to the last, so that the last one
    /// takes away what any of them has written, and nothing that a later first one has.
    generation: u64,
    /// The lease is in the store.
    leased: bool,
    /// The last name went while it was open: look when the last handle goes.
    garbage: bool,
    /// There may be locks of this session.
    locked: bool,
    /// Who reads and writes its bytes: the same for all handles from the first to the last, but that the kernel
    /// can do it by itself beside a handle that has no part in its cache.
    way: Option<Way>,
    /// It got capabilities, which whoever writes to it takes.
    capable: bool,
    /// The directory in which it was made, while it is open from then on and nothing is known of its size.
    made_in: Option<Ino>,
}

impl Open {
    fn last(&self) -> Last {
        let Self { generation, garbage, locked, made_in, .. } = *self;
        Last { generation, garbage, locked, made_in }
    }
}

/// Who reads and writes the bytes of an inode that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The kernel, by itself.
    Kernel,
    /// This process, for the kernel's cache.
    Cached,
    /// This process, past it. What the kernel has cached it drops before such a write and not after it, so
    /// nobody else may use the cache then.
    Direct,
}

/// What an open has to do about the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) generation: u64,
    pub(crate) is_new: bool,
}

/// What the last release of an inode has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) generation: u64,
    pub(crate) garbage: bool,
    pub(crate) locked: bool,
    /// The directory in which it was made, when nobody has asked yet.
    pub(crate) made_in: Option<Ino>,
}

/// An inode that must not be opened while this is there: it is about to be removed, its bytes are moved, or they are
/// given away before anybody asks for them.
#[derive(Debug)]
pub(crate) struct Doomed {
    table: Arc<Mutex<Table>>,
    ino: Ino,
}

impl Drop for Doomed {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if let Some(count) = table.doomed.get_mut(&self.ino) {
            *count -= 1;
            if *count == 0 {
                table.doomed.remove(&self.ino);
            }
        }
    }
}

impl Table {
    fn hold(&mut self, ino: Ino) {
        self.generation += 1;
        let generation = self.generation;
        let open = self.inodes.entry(ino).or_insert(Open { generation, ..Open::default() });
        open.garbage = true;
        open.held = true;
    }
}

impl OpenFiles {
    /// One handle more; `None` while the inode is about to be removed.
    pub(crate) fn enter(&self, ino: Ino) -> Option<Lease> {
        let mut table = self.0.lock();
        if table.doomed.contains_key(&ino) {
            return None;
        }
        table.generation += 1;
        let generation = table.generation;
        let open = table.inodes.entry(ino).or_insert(Open { generation, ..Open::default() });
        open.count += 1;
        Some(Lease { generation: open.generation, is_new: !open.leased })
    }

    /// A number for a lease, greater than all before.
    pub(crate) fn next_generation(&self) -> u64 {
        let mut table = self.0.lock();
        table.generation += 1;
        table.generation
    }

    /// One handle more of an inode that nobody else can know yet.
    pub(crate) fn adopt(&self, ino: Ino, generation: u64) {
        let mut table = self.0.lock();
        let open = table.inodes.entry(ino).or_insert(Open { generation, ..Open::default() });
        open.count += 1;
    }

    /// A handle that the client has from before this session, and how it is served.
    pub(crate) fn open_before(&self, ino: Ino, way: Way) {
        self.adopt(ino, self.next_generation());
        self.decide(ino, way);
        if way == Way::Direct {
            // It may have got capabilities before this process was there to see.
            self.is_capable(ino);
        }
    }

    /// The lease is in the store.
    pub(crate) fn leased(&self, ino: Ino) {
        if let Some(open) = self.0.lock().inodes.get_mut(&ino) {
            open.leased = true;
        }
    }

    /// The session may have locks on an inode. False when it is not open.
    pub(crate) fn locked(&self, ino: Ino) -> bool {
        match self.0.lock().inodes.get_mut(&ino) {
            Some(open) => {
                open.locked = true;
                true
            }
            None => false,
        }
    }

    /// One handle less. Tells what to do when it was the last.
    pub(crate) fn leave(&self, ino: Ino) -> Option<Last> {
        let mut table = self.0.lock();
        let open = table.inodes.get_mut(&ino)?;
        open.count = open.count.saturating_sub(1);
        if open.count > 0 || open.held {
            return None;
        }
        let open = table.inodes.remove(&ino)?;
        Some(open.last())
    }

    /// One handle less, and nobody waits: what the last one has to do is left to the background.
    pub(crate) fn abandon(&self, ino: Ino) {
        if let Some(last) = self.leave(ino) {
            self.leave_later(ino, last);
        }
    }

    /// What the last handle has to do was not done to its end.
    pub(crate) fn leave_later(&self, ino: Ino, last: Last) {
        self.0.lock().abandoned.push_back((ino, last));
    }

    /// How much was left to the background.
    pub(crate) fn abandoned(&self) -> usize {
        self.0.lock().abandoned.len()
    }

    /// The first of what was left to the background.
    pub(crate) fn take_abandoned(&self) -> Option<(Ino, Last)> {
        self.0.lock().abandoned.pop_front()
    }

    /// From now on an inode whose last name goes stays until the client has forgotten it.
    pub(crate) fn take_over(&self) {
        self.0.lock().taken_over = true;
    }

    /// The client may have an inode without names.
    pub(crate) fn hold(&self, ino: Ino) {
        self.0.lock().hold(ino);
    }

    /// The client has an inode no more. Tells what to do when nobody else has it.
    pub(crate) fn forget(&self, ino: Ino) -> Option<Last> {
        let mut table = self.0.lock();
        let open = table.inodes.get_mut(&ino).filter(|open| open.held)?;
        open.held = false;
        if open.count > 0 {
            return None;
        }
        let open = table.inodes.remove(&ino)?;
        Some(open.last())
    }

    /// Those that the client may have.
    pub(crate) fn held(&self) -> Vec<Ino> {
        let table = self.0.lock();
        table.inodes.iter().filter(|(_, open)| open.held).map(|(ino, _)| *ino).collect()
    }

    /// The last name of an inode goes: as [`OpenFiles::doom`], and it is held when the client may have
    /// it.
    pub(crate) fn doom_unless_held(&self, ino: Ino) -> Option<Doomed> {
        {
            let mut table = self.0.lock();
            if table.taken_over {
                table.hold(ino);
                return None;
            }
        }
        self.doom(ino)
    }

    /// Keeps an inode from being opened; `None` when it is open.
    pub(crate) fn bar(&self, ino: Ino) -> Option<Doomed> {
        let mut table = self.0.lock();
        if table.inodes.contains_key(&ino) {
            return None;
        }
        *table.doomed.entry(ino).or_default() += 1;
        Some(Doomed { table: Arc::clone(&self.0), ino })
    }

    /// Keeps an inode that one handle has open for the kernel's cache from being opened again; `None` when it is open
    /// otherwise, or is not.
    pub(crate) fn hold_still(&self, ino: Ino) -> Option<Doomed> {
        let mut table = self.0.lock();
        let open = table.inodes.get(&ino)?;
        let cached = matches!(open.way, None | Some(Way::Cached));
        let alone = open.count == 1 && !open.held && cached;
        if !alone || table.doomed.contains_key(&ino) {
            return None;
        }
        *table.doomed.entry(ino).or_default() += 1;
        Some(Doomed { table: Arc::clone(&self.0), ino })
    }

    /// Who reads and writes the file of an inode that is open: as was decided before, or as is `wanted`.
    pub(crate) fn decide(&self, ino: Ino, wanted: Way) -> Way {
        let mut table = self.0.lock();
        let Some(open) = table.inodes.get_mut(&ino) else {
            return Way::Cached;
        };
        let way = match (open.way, wanted) {
            (None, wanted) | (Some(Way::Direct), wanted @ Way::Kernel) => wanted,
            (Some(decided), _) => decided,
        };
        open.way = Some(way);
        way
    }

    /// The inode was made in a directory.
    pub(crate) fn made_in(&self, ino: Ino, dir: Ino) {
        if let Some(open) = self.0.lock().inodes.get_mut(&ino) {
            open.made_in = Some(dir);
        }
    }

    /// Where it was made, when it is open from then on: told once.
    pub(crate) fn take_made_in(&self, ino: Ino) -> Option<Ino> {
        self.0.lock().inodes.get_mut(&ino)?.made_in.take()
    }

    /// What was decided.
    pub(crate) fn way(&self, ino: Ino) -> Option<Way> {
        self.0.lock().inodes.get(&ino)?.way
    }

    /// An inode has capabilities from here on.
    pub(crate) fn is_capable(&self, ino: Ino) {
        if let Some(open) = self.0.lock().inodes.get_mut(&ino) {
            open.capable = true;
        }
    }

    /// Whether it may have some.
    pub(crate) fn may_be_capable(&self, ino: Ino) -> bool {
        self.0.lock().inodes.get(&ino).is_some_and(|open| open.capable)
    }

    /// Whether it may have some: told once.
    pub(crate) fn take_capable(&self, ino: Ino) -> bool {
        let mut table = self.0.lock();
        table.inodes.get_mut(&ino).is_some_and(|open| std::mem::take(&mut open.capable))
    }

    /// Keeps an inode from being opened while it is removed; `None` when it is open. Then the last
    /// handle will have to look.
    pub(crate) fn doom(&self, ino: Ino) -> Option<Doomed> {
        let mut table = self.0.lock();
        if let Some(open) = table.inodes.get_mut(&ino) {
            open.garbage = true;
            return None;
        }
        *table.doomed.entry(ino).or_default() += 1;
        Some(Doomed { table: Arc::clone(&self.0), ino })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_removed_cannot_be_opened_and_the_other_way_round() {
        let open = OpenFiles::default();
        let doomed = open.doom(5).unwrap();
        assert!(open.enter(5).is_none());
        drop(doomed);
        assert!(open.enter(5).unwrap().is_new);
        assert!(open.doom(5).is_none());
        assert!(open.enter(5).is_some());
        assert_eq!(open.leave(5), None);
        assert!(open.leave(5).unwrap().garbage);
        assert!(open.doom(5).is_some());
    }

    #[test]
    fn what_one_handle_has_open_can_be_held_still() {
        let open = OpenFiles::default();
        assert!(open.hold_still(5).is_none());
        open.enter(5);
        let still = open.hold_still(5).unwrap();
        assert!(open.enter(5).is_none());
        assert!(open.hold_still(5).is_none());
        drop(still);
        assert!(open.enter(5).is_some());
        assert!(open.hold_still(5).is_none(), "two handles");
        open.leave(5);
        assert!(open.hold_still(5).is_some());
        for way in [Way::Kernel, Way::Direct] {
            open.enter(6);
            open.decide(6, way);
            assert!(open.hold_still(6).is_none());
            open.leave(6);
        }
    }

    #[test]
    fn the_first_handle_says_who_reads_and_writes() {
        for first in [Way::Kernel, Way::Cached, Way::Direct] {
            for second in [Way::Kernel, Way::Cached, Way::Direct] {
                let open = OpenFiles::default();
                open.enter(5);
                assert_eq!(open.decide(5, first), first);
                open.enter(5);
                // The kernel takes this order, and no other.
                let both = first == Way::Direct && second == Way::Kernel;
                let right = if both { second } else { first };
                assert_eq!(open.decide(5, second), right);
                assert_eq!(open.decide(5, first), right);
                assert_eq!(open.leave(5), None);
                assert!(open.leave(5).is_some());
                assert_eq!(open.way(5), None);
            }
        }
    }

    #[test]
    fn all_handles_from_the_first_to_the_last_have_one_lease() {
        let open = OpenFiles::default();
        let first = open.enter(5).unwrap();
        // Refused before the first one is known to be in the store.
        assert_eq!(open.enter(5), Some(first));
        open.leased(5);
        assert_eq!(open.leave(5), None);
        let last = open.leave(5).unwrap();
        assert_eq!(last.generation, first.generation);
        assert!(open.enter(5).unwrap().generation > first.generation);
    }
}
