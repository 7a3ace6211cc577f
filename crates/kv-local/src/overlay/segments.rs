//! Ranges of keys, each with the version of the commit that last covered it.

use super::tree::Tree;
use kv::{Key, KeyRange, Version};

/// Disjoint ranges. A newer one replaces the parts of older ones that it covers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segments {
    /// End by start.
    tree: Tree<Key>,
}

impl Segments {
    pub(crate) fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Covers `range` at `version`.
    pub(crate) fn assign(&mut self, range: &KeyRange, version: Version) {
        if range.is_empty() {
            return;
        }
        let before = self.last_before(&range.start).filter(|(_, end, _)| *end > range.start);
        // Nothing begins inside a point but at its start.
        if before.is_none()
            && range.as_point().is_some()
            && self.tree.get(&range.start).is_none_or(|item| item.value <= range.end)
        {
            self.tree.insert(range.start.clone(), range.end.clone(), version);
            return;
        }
        // Room for one that begins before and reaches in: it keeps its head, and perhaps a tail.
        if let Some((start, end, old)) = before {
            self.tree.insert(start, range.start.clone(), old);
            if end > range.end {
                self.tree.insert(range.end.clone(), end, old);
            }
        }
        // The last of those that begin inside may reach out behind.
        let mut tail = None;
        self.tree.remove_range(range, &mut |item| {
            if item.value > range.end {
                tail = Some((item.value.clone(), item.version));
            }
        });
        if let Some((end, old)) = tail {
            self.tree.insert(range.end.clone(), end, old);
        }
        self.tree.insert(range.start.clone(), range.end.clone(), version);
    }

    fn last_before(&self, key: &Key) -> Option<(Key, Key, Version)> {
        let item = self.tree.last_below(key)?;
        Some((item.key.clone(), item.value.clone(), item.version))
    }

    /// The range that covers `key`.
    pub(crate) fn covering(&self, key: &[u8]) -> Option<KeyRange> {
        if self.is_empty() {
            return None;
        }
        let item = self.tree.last_below(&Key::new(key).successor())?;
        (*item.value > *key).then(|| KeyRange { start: item.key.clone(), end: item.value.clone() })
    }

    /// Whether a part of `range` was covered after `since`.
    pub(crate) fn any_newer(&self, range: &KeyRange, since: Version) -> bool {
        // Mostly nobody has written anything since.
        if self.tree.newest() <= since || range.is_empty() {
            return false;
        }
        self.tree.any_newer(range, since)
            || self
                .tree
                .last_below(&range.start)
                .is_some_and(|item| item.value > range.start && item.version > since)
    }

    /// The ranges in order.
    pub(crate) fn ranges(&self) -> Vec<KeyRange> {
        let all = KeyRange::all();
        self.tree
            .cursor(&all, false)
            .map(|item| KeyRange { start: item.key.clone(), end: item.value.clone() })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};

    #[test]
    fn agrees_with_a_painted_line() {
        for seed in 0..200 {
            let random = SeededRandom::new(seed);
            let mut segments = Segments::default();
            let mut line = [0u64; 100];
            for version in 1..40 {
                let (a, b) = (random.below(100) as u8, random.below(30) as u8);
                let mut end = (a + b).min(99);
                if random.one_in(4) && a < 99 {
                    // A point covers what is between it and the next, which nothing here asks for.
                    segments.assign(&KeyRange::point(&[a]), version);
                    segments.assign(&KeyRange::new(&[a, 0], &[a + 1]), version);
                    end = a + 1;
                } else {
                    segments.assign(&KeyRange::new(&[a], &[end]), version);
                }
                if a < end {
                    line[a as usize..end as usize].fill(version);
                }
                for point in 0..99u8 {
                    let covered = segments.covering(&[point]).is_some();
                    assert_eq!(covered, line[point as usize] != 0, "seed {seed} point {point}");
                }
                let (a, b) = (random.below(99) as usize, random.below(40) as usize);
                let end = (a + b).min(99);
                let since = random.below(40);
                let range = KeyRange::new(&[a as u8], &[end as u8]);
                let newer = line[a..end].iter().any(|&version| version > since);
                assert_eq!(segments.any_newer(&range, since), newer && a < end, "seed {seed}");
            }
        }
    }
}
