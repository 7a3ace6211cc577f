//! A transaction's own writes, kept until it commits, in a form that its reads can look through.

use crate::points::{Points, Write};
use crate::{AtomicOp, Key, KeyRange, Op, Page, Query};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Writes by key, over ranges that were deleted whole. Later writes replace earlier ones, so the
/// order that is left is: ranges first, then points.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    points: Points,
    /// Disjoint ranges by their start; the value is the end. A point on top of one wins.
    cleared: BTreeMap<Key, Key>,
}

/// What a transaction's own writes say of a key.
pub(crate) enum Own<'a> {
    /// Nothing: the snapshot's value holds.
    Untouched,
    /// Its value, or that it is gone.
    Known(Option<&'a Bytes>),
    /// Changes of whatever the snapshot holds.
    Pending(&'a [AtomicOp]),
}

impl Writes {
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty() && self.cleared.is_empty()
    }

    pub(crate) fn put(&mut self, key: Key, value: Bytes) {
        self.points.insert(key, Write::Put(value));
    }

    pub(crate) fn delete(&mut self, key: Key) {
        self.points.insert(key, Write::Delete);
    }

    pub(crate) fn delete_range(&mut self, range: KeyRange) {
        if range.is_empty() {
            return;
        }
        self.points.remove_in(&range);
        // Join with what touches it, so that the ranges stay disjoint.
        let KeyRange { mut start, mut end } = range;
        while let Some((other_start, other_end)) = self.cleared.range(..=end.clone()).next_back() {
            if *other_end < start {
                break;
            }
            let other_start = other_start.clone();
            end = end.max(other_end.clone());
            start = start.min(other_start.clone());
            self.cleared.remove(&other_start);
        }
        self.cleared.insert(start, end);
    }

    pub(crate) fn atomic(&mut self, key: Key, op: AtomicOp) {
        let cleared = self.is_cleared(&key);
        let write = self.points.get_mut(&key);
        let known = match write {
            Some(Write::Atomics(ops)) => {
                ops.push(op);
                return;
            }
            Some(write @ Write::Atomic(_)) => {
                if let Write::Atomic(first) = std::mem::replace(write, Write::Delete) {
                    *write = Write::Atomics(vec![first, op]);
                }
                return;
            }
            Some(Write::Put(value)) => Some(op.apply(Some(value))),
            Some(Write::Delete) => Some(op.apply(None)),
            None if cleared => Some(op.apply(None)),
            None => None,
        };
        let write = match known {
            Some(value) => Write::of(value),
            None => Write::Atomic(op),
        };
        self.points.insert(key, write);
    }

    fn is_cleared(&self, key: &[u8]) -> bool {
        if self.cleared.is_empty() {
            return false;
        }
        self.cleared
            .range::<[u8], _>((Bound::Unbounded, Bound::Included(key)))
            .next_back()
            .is_some_and(|(_, end)| **end > *key)
    }

    pub(crate) fn own(&self, key: &[u8]) -> Own<'_> {
        match self.points.get(key) {
            Some(Write::Put(value)) => Own::Known(Some(value)),
            Some(Write::Delete) => Own::Known(None),
            Some(Write::Atomic(op)) => Own::Pending(std::slice::from_ref(op)),
            Some(Write::Atomics(ops)) => Own::Pending(ops),
            None if self.is_cleared(key) => Own::Known(None),
            None => Own::Untouched,
        }
    }

    /// Whether anything in `range` was written.
    pub(crate) fn touches(&self, range: &KeyRange) -> bool {
        self.points.any_in(range)
            || self
                .cleared
                .range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&*range.end)))
                .next_back()
                .is_some_and(|(_, end)| *end > range.start)
    }

    /// Lays the writes of `covered` over `base`, the snapshot's entries there, and appends the
    /// result to `page` until `query` says that it is full. Returns false when it was full first.
    pub(crate) fn overlay(
        &self,
        covered: &KeyRange,
        base: &Page,
        query: &Query,
        page: &mut Page,
    ) -> bool {
        let mut points = self.points.all_in(covered);
        if query.reverse {
            points.reverse();
        }
        let mut points = points.into_iter().peekable();
        let mut entries = base.iter().peekable();
        loop {
            let own_first = match (points.peek(), entries.peek()) {
                (None, None) => return true,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((own, _)), Some((other, _))) if query.reverse => ***own >= **other,
                (Some((own, _)), Some((other, _))) => ***own <= **other,
            };
            if query.is_full(page) {
                return false;
            }
            if !own_first {
                let Some((key, value)) = entries.next() else {
                    return true;
                };
                if !self.is_cleared(key) {
                    page.push(key, value);
                }
                continue;
            }
            let Some((key, write)) = points.next() else {
                return true;
            };
            let old = entries.next_if(|(other, _)| **other == **key).map(|(_, value)| value);
            match write {
                Write::Put(value) => page.push(key, value),
                Write::Delete => {}
                Write::Atomic(op) => {
                    if let Some(value) = op.apply(old) {
                        page.push(key, &value);
                    }
                }
                Write::Atomics(ops) => {
                    if let Some(value) = apply_all(ops, old.map(Bytes::copy_from_slice)) {
                        page.push(key, &value);
                    }
                }
            }
        }
    }

    /// The changes in the order in which they take effect.
    pub(crate) fn into_ops(self) -> Vec<Op> {
        let mut ops = Vec::with_capacity(self.cleared.len() + self.points.len());
        for (start, end) in self.cleared {
            ops.push(Op::DeleteRange(KeyRange { start, end }));
        }
        self.points.drain(|key, write| match write {
            Write::Put(value) => ops.push(Op::Put(key, value)),
            Write::Delete => ops.push(Op::Delete(key)),
            Write::Atomic(op) => ops.push(Op::Atomic(key, op)),
            Write::Atomics(list) => {
                ops.extend(list.into_iter().map(|op| Op::Atomic(key.clone(), op)));
            }
        });
        ops
    }
}

/// The value after all of `ops`.
pub(crate) fn apply_all(ops: &[AtomicOp], mut value: Option<Bytes>) -> Option<Bytes> {
    for op in ops {
        value = op.apply(value.as_deref());
    }
    value
}
