//! Where a key is in a node of the tree: by the eight bytes behind what all keys of the node begin with. They lie beside
//! one another, so a search looks at two or three lines of memory, and at one key at its end.

use kv::Key;
use std::ops::Range;

/// Of up to `N` keys in order.
#[derive(Debug, Clone)]
pub(super) struct Heads<const N: usize> {
    /// All keys begin with so many bytes of the first; none is shorter.
    shared: u16,
    heads: [u64; N],
}

impl<const N: usize> Default for Heads<N> {
    fn default() -> Self {
        Self { shared: 0, heads: [0; N] }
    }
}

impl<const N: usize> Heads<N> {
    /// Those of `len` keys.
    pub(super) fn of<'a>(len: usize, key: impl Fn(usize) -> &'a Key) -> Self {
        let mut made = Self::default();
        made.renew(len, key);
        made
    }

    /// Makes them anew, for what the node has now.
    pub(super) fn renew<'a>(&mut self, len: usize, key: impl Fn(usize) -> &'a Key) {
        let Some(last) = len.checked_sub(1) else {
            return;
        };
        // Keys are in order, so what the first and the last share is shared by all.
        let (first, last) = (key(0), key(last));
        let shared = first.iter().zip(&**last).take_while(|(a, b)| a == b).count();
        self.shared = u16::try_from(shared).unwrap_or(u16::MAX);
        for (index, head) in self.heads.iter_mut().enumerate().take(len) {
            *head = key(index).head(self.shared.into());
        }
    }

    /// A key was put in at `index`, and now there are `len`.
    pub(super) fn inserted<'a>(
        &mut self,
        index: usize,
        len: usize,
        key: impl Fn(usize) -> &'a Key,
    ) {
        let shared = usize::from(self.shared);
        // Beside any other that was there before.
        let other = usize::from(index == 0);
        if len < 2 || !key(index).starts_like(key(other), shared) {
            return self.renew(len, key);
        }
        self.heads.copy_within(index..len - 1, index + 1);
        self.heads[index] = key(index).head(shared);
    }

    /// Which of `len` keys, of which `first` is the first, may be this one: those before are below it, those behind are
    /// above.
    #[inline]
    pub(super) fn near(&self, len: usize, first: &Key, key: &Key) -> Range<usize> {
        let shared = usize::from(self.shared);
        if !key.starts_like(first, shared) {
            let at = if key < first { 0 } else { len };
            return at..at;
        }
        let wanted = key.head(shared);
        let heads = &self.heads[..len];
        let start = heads.partition_point(|head| *head < wanted);
        let end = heads[start..].iter().position(|head| *head != wanted);
        start..end.map_or(len, |end| start + end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};

    #[test]
    fn what_is_near_is_what_a_search_finds() {
        const N: usize = 16;
        for seed in 0..500 {
            let random = SeededRandom::new(seed);
            let start = vec![b's'; random.below(50) as usize];
            let key = || {
                let mut key = start.clone();
                // Few values, zeros among them, and lengths around that of a head.
                for _ in 0..random.below(12) {
                    key.push([0, 0, 1, b's', 0xff][random.below(5) as usize]);
                }
                key.truncate(
                    random.below(key.len() as u64 + 1).max(start.len() as u64 / 2) as usize
                );
                Key::new(&key)
            };
            let mut keys: Vec<Key> = Vec::new();
            let mut heads = Heads::<N>::default();
            while keys.len() < N {
                let next = key();
                if let Err(index) = keys.binary_search(&next) {
                    keys.insert(index, next);
                    heads.inserted(index, keys.len(), |index| &keys[index]);
                } else if random.one_in(20) {
                    break;
                }
                let Some(first) = keys.first() else { continue };
                for probe in (0..5).map(|_| key()).chain(keys.iter().cloned()) {
                    let near = heads.near(keys.len(), first, &probe);
                    assert!(keys[..near.start].iter().all(|key| *key < probe), "seed {seed}");
                    assert!(keys[near.end..].iter().all(|key| *key > probe), "seed {seed}");
                    let anew = Heads::<N>::of(keys.len(), |index| &keys[index]);
                    let near = anew.near(keys.len(), first, &probe);
                    assert!(keys[..near.start].iter().all(|key| *key < probe), "seed {seed}");
                    assert!(keys[near.end..].iter().all(|key| *key > probe), "seed {seed}");
                }
            }
        }
    }
}
