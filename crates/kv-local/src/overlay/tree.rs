//! A persistent B+tree: a copy is one pointer, and copies share what has not changed since.
//!
//! A node that only one tree holds is changed in place, so a writer without readers copies nothing.
//! A node that a snapshot still sees is copied first. Each entry has the version of the commit that
//! wrote it, and each node the newest version below it, so "has anything here changed since?" needs
//! no scan.

use super::heads::Heads;
use kv::{Key, KeyRange, Version};
use std::sync::Arc;

/// Entries of a leaf and children of an inner node. Small, because a shared node is copied whole.
const LEAF_MAX: usize = 16;
const INNER_MAX: usize = 32;

/// The tree. `V` should be cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Tree<V> {
    root: Arc<Node<V>>,
}

#[derive(Debug, Clone)]
struct Node<V> {
    /// The newest version of any entry that was ever written below.
    newest: Version,
    body: Body<V>,
}

#[derive(Debug, Clone)]
enum Body<V> {
    Leaf(Leaf<V>),
    Inner(Inner<V>),
}

#[derive(Debug, Clone)]
struct Leaf<V> {
    heads: Heads<LEAF_MAX>,
    items: Vec<Item<V>>,
}

/// Children in order; `firsts[i]` is not above any key of `children[i + 1]` and above all of
/// `children[i]`.
#[derive(Debug, Clone)]
struct Inner<V> {
    heads: Heads<INNER_MAX>,
    firsts: Vec<Key>,
    children: Vec<Arc<Node<V>>>,
}

/// An entry.
#[derive(Debug, Clone)]
pub(crate) struct Item<V> {
    pub(crate) key: Key,
    pub(crate) version: Version,
    pub(crate) value: V,
}

impl<V: Clone> Default for Tree<V> {
    fn default() -> Self {
        Self { root: Arc::new(Node { newest: 0, body: Body::Leaf(Leaf::with(Vec::new())) }) }
    }
}

impl<V> Leaf<V> {
    fn with(items: Vec<Item<V>>) -> Self {
        let heads = Heads::of(items.len(), |index| &items[index].key);
        Self { heads, items }
    }

    fn find(&self, key: &Key) -> Result<usize, usize> {
        let Some(first) = self.items.first() else { return Err(0) };
        let near = self.heads.near(self.items.len(), &first.key, key);
        let found = self.items[near.clone()].binary_search_by(|item| item.key.cmp(key));
        found.map(|at| near.start + at).map_err(|at| near.start + at)
    }

    fn insert(&mut self, index: usize, item: Item<V>) {
        if self.items.capacity() == 0 {
            self.items.reserve_exact(LEAF_MAX);
        }
        self.items.insert(index, item);
        self.heads.inserted(index, self.items.len(), |index| &self.items[index].key);
    }

    /// Moves what is at `at` and behind it to a leaf of its own.
    fn split_off(&mut self, at: usize) -> Self {
        let mut right = Vec::with_capacity(LEAF_MAX);
        right.extend(self.items.drain(at..));
        self.heads.renew(self.items.len(), |index| &self.items[index].key);
        Self::with(right)
    }
}

impl<V> Inner<V> {
    fn with(firsts: Vec<Key>, children: Vec<Arc<Node<V>>>) -> Self {
        let heads = Heads::of(firsts.len(), |index| &firsts[index]);
        Self { heads, firsts, children }
    }

    fn child_of(&self, key: &Key) -> usize {
        let Some(first) = self.firsts.first() else { return 0 };
        let near = self.heads.near(self.firsts.len(), first, key);
        near.start + self.firsts[near].partition_point(|first| *first <= *key)
    }
}

impl<V: Clone> Tree<V> {
    pub(crate) fn is_empty(&self) -> bool {
        match &self.root.body {
            Body::Leaf(leaf) => leaf.items.is_empty(),
            Body::Inner(_) => false,
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Item<V>> {
        let mut node = &*self.root;
        loop {
            match &node.body {
                Body::Leaf(leaf) => return leaf.find(key).ok().map(|index| &leaf.items[index]),
                Body::Inner(inner) => node = &inner.children[inner.child_of(key)],
            }
        }
    }

    /// The newest version of any entry that was ever written.
    pub(crate) fn newest(&self) -> Version {
        self.root.newest
    }

    /// The last entry below a key.
    pub(crate) fn last_below(&self, key: &Key) -> Option<&Item<V>> {
        last_below(&self.root, key)
    }

    /// Sets a key and returns what it replaced.
    pub(crate) fn insert(&mut self, key: Key, value: V, version: Version) -> Option<Item<V>> {
        // Mostly there is room in the leaf, and nothing above it changes.
        let mut node = &mut self.root;
        loop {
            let Node { newest, body } = Arc::make_mut(node);
            *newest = (*newest).max(version);
            match body {
                Body::Inner(inner) => {
                    let index = inner.child_of(&key);
                    node = &mut inner.children[index];
                }
                Body::Leaf(leaf) => match leaf.find(&key) {
                    Ok(index) => {
                        let item = Item { key, version, value };
                        return Some(std::mem::replace(&mut leaf.items[index], item));
                    }
                    Err(index) if leaf.items.len() < LEAF_MAX => {
                        leaf.insert(index, Item { key, version, value });
                        return None;
                    }
                    Err(_) => break,
                },
            }
        }
        self.insert_splitting(key, value, version)
    }

    /// The same where the leaf is full.
    fn insert_splitting(&mut self, key: Key, value: V, version: Version) -> Option<Item<V>> {
        let (old, split) = insert_into(&mut self.root, Item { key, version, value });
        if let Some((first, right)) = split {
            let newest = self.root.newest;
            let left = Arc::clone(&self.root);
            let body = Body::Inner(Inner::with(vec![first], vec![left, right]));
            self.root = Arc::new(Node { newest, body });
        }
        old
    }

    /// Removes the keys of `range`, handing each to `removed`.
    pub(crate) fn remove_range(&mut self, range: &KeyRange, removed: &mut dyn FnMut(&Item<V>)) {
        if range.is_empty() || self.cursor(range, false).peek().is_none() {
            return;
        }
        if remove_from(&mut self.root, range, removed) {
            *self = Self::default();
        }
        // A chain of single children is no tree: lift the one below.
        while let Body::Inner(inner) = &self.root.body
            && let [only] = &inner.children[..]
        {
            self.root = Arc::clone(only);
        }
    }

    /// Whether a key of `range` was written after `since`.
    pub(crate) fn any_newer(&self, range: &KeyRange, since: Version) -> bool {
        newer_below(&self.root, range, since)
    }

    /// The entries of `range`, forward or backward.
    pub(crate) fn cursor<'a>(&'a self, range: &'a KeyRange, reverse: bool) -> Cursor<'a, V> {
        let mut cursor = Cursor { path: Vec::new(), items: &[], next: 0, range, reverse };
        if !range.is_empty() {
            let from = if reverse { &range.end } else { &range.start };
            cursor.descend(&self.root, Some(from));
            cursor.settle();
        }
        cursor
    }
}

type Split<V> = Option<(Key, Arc<Node<V>>)>;

fn insert_into<V: Clone>(node: &mut Arc<Node<V>>, item: Item<V>) -> (Option<Item<V>>, Split<V>) {
    let Node { newest, body } = Arc::make_mut(node);
    *newest = (*newest).max(item.version);
    let newest = *newest;
    match body {
        Body::Leaf(leaf) => {
            let index = match leaf.find(&item.key) {
                Ok(index) => return (Some(std::mem::replace(&mut leaf.items[index], item)), None),
                Err(index) => index,
            };
            if leaf.items.len() < LEAF_MAX {
                leaf.insert(index, item);
                return (None, None);
            }
            // Keys often come in order: then the full node stays full and the next one is new.
            let at = if index == LEAF_MAX { LEAF_MAX - 1 } else { LEAF_MAX / 2 };
            let mut right = leaf.split_off(at);
            if index <= at && at != LEAF_MAX - 1 {
                leaf.insert(index, item);
            } else {
                right.insert(index - at, item);
            }
            let first = right.items[0].key.clone();
            (None, Some((first, Arc::new(Node { newest, body: Body::Leaf(right) }))))
        }
        Body::Inner(inner) => {
            let index = inner.child_of(&item.key);
            let (old, split) = insert_into(&mut inner.children[index], item);
            let Some((first, right)) = split else {
                return (old, None);
            };
            inner.firsts.insert(index, first);
            inner.children.insert(index + 1, right);
            let Inner { heads, firsts, children } = inner;
            if children.len() <= INNER_MAX {
                heads.inserted(index, firsts.len(), |index| &firsts[index]);
                return (old, None);
            }
            let at = if index + 2 == children.len() { INNER_MAX - 1 } else { INNER_MAX / 2 };
            let right_children = children.split_off(at);
            let right_firsts = firsts.split_off(at);
            let middle = firsts.pop();
            heads.renew(firsts.len(), |index| &firsts[index]);
            let Some(middle) = middle else {
                return (old, None);
            };
            let body = Body::Inner(Inner::with(right_firsts, right_children));
            (old, Some((middle, Arc::new(Node { newest, body }))))
        }
    }
}

/// Removes `range` below `node`; true when nothing is left of it.
fn remove_from<V: Clone>(
    node: &mut Arc<Node<V>>,
    range: &KeyRange,
    removed: &mut dyn FnMut(&Item<V>),
) -> bool {
    match &mut Arc::make_mut(node).body {
        Body::Leaf(Leaf { heads, items }) => {
            let start = items.partition_point(|item| item.key < range.start);
            let end = items.partition_point(|item| item.key < range.end);
            items.drain(start..end).for_each(|item| removed(&item));
            heads.renew(items.len(), |index| &items[index].key);
            items.is_empty()
        }
        Body::Inner(inner) => {
            let last = inner.firsts.partition_point(|first| *first < range.end);
            let first = inner.child_of(&range.start);
            let Inner { heads, firsts, children } = inner;
            for index in (first..=last).rev() {
                if remove_from(&mut children[index], range, removed) {
                    children.remove(index);
                    // The bound that goes with the child: the one before it, or, for the first
                    // child, the one behind it.
                    if !firsts.is_empty() {
                        firsts.remove(index.saturating_sub(1));
                    }
                }
            }
            heads.renew(firsts.len(), |index| &firsts[index]);
            children.is_empty()
        }
    }
}

fn last_below<'a, V>(node: &'a Node<V>, key: &Key) -> Option<&'a Item<V>> {
    match &node.body {
        Body::Leaf(Leaf { items, .. }) => {
            let at = items.partition_point(|item| item.key < *key);
            items.get(at.checked_sub(1)?)
        }
        Body::Inner(Inner { firsts, children, .. }) => {
            let at = firsts.partition_point(|first| *first < *key);
            // What is below the key in that child may be gone; then it is the last of one before.
            children[..=at].iter().rev().find_map(|child| last_below(child, key))
        }
    }
}

fn newer_below<V>(node: &Node<V>, range: &KeyRange, since: Version) -> bool {
    if node.newest <= since {
        return false;
    }
    match &node.body {
        Body::Leaf(Leaf { items, .. }) => {
            let start = items.partition_point(|item| item.key < range.start);
            items[start..]
                .iter()
                .take_while(|item| item.key < range.end)
                .any(|item| item.version > since)
        }
        Body::Inner(inner) => {
            let first = inner.child_of(&range.start);
            let last = inner.firsts.partition_point(|other| *other < range.end);
            (first..=last).any(|index| newer_below(&inner.children[index], range, since))
        }
    }
}

/// Walks entries in one direction.
#[derive(Debug)]
pub(crate) struct Cursor<'a, V> {
    /// Inner nodes above, each with the number of the child that we are in.
    path: Vec<(&'a [Arc<Node<V>>], usize)>,
    /// Those of a leaf that are in the range.
    items: &'a [Item<V>],
    /// Forward: the index of the next item. Backward: one more than it.
    next: usize,
    range: &'a KeyRange,
    reverse: bool,
}

impl<'a, V> Cursor<'a, V> {
    /// Goes down to a leaf: towards `bound`, or to the near end.
    fn descend(&mut self, mut node: &'a Node<V>, bound: Option<&Key>) {
        loop {
            match &node.body {
                Body::Inner(inner) => {
                    let children = &inner.children;
                    let index = match bound {
                        Some(bound) => inner.child_of(bound),
                        None if self.reverse => children.len() - 1,
                        None => 0,
                    };
                    self.path.push((children, index));
                    node = &children[index];
                }
                Body::Leaf(Leaf { items, .. }) => {
                    self.items = self.within(items);
                    self.next = match bound {
                        Some(bound) => self.items.partition_point(|item| item.key < *bound),
                        None if self.reverse => self.items.len(),
                        None => 0,
                    };
                    return;
                }
            }
        }
    }

    /// What of a leaf is not past the far end of the range. Where something is, no leaf comes behind this one.
    fn within(&mut self, items: &'a [Item<V>]) -> &'a [Item<V>] {
        let inside = if self.reverse {
            match items.first() {
                Some(first) if first.key < self.range.start => {
                    &items[items.partition_point(|item| item.key < self.range.start)..]
                }
                _ => items,
            }
        } else {
            match items.last() {
                Some(last) if last.key >= self.range.end => {
                    &items[..items.partition_point(|item| item.key < self.range.end)]
                }
                _ => items,
            }
        };
        if inside.len() < items.len() {
            self.path.clear();
        }
        inside
    }

    /// Moves on to the next leaf while this one is used up.
    fn settle(&mut self) {
        loop {
            let used_up = if self.reverse { self.next == 0 } else { self.next >= self.items.len() };
            if !used_up {
                return;
            }
            loop {
                let Some((children, index)) = self.path.last_mut() else {
                    self.items = &[];
                    self.next = 0;
                    return;
                };
                let more = if self.reverse { *index > 0 } else { *index + 1 < children.len() };
                if more {
                    *index = if self.reverse { *index - 1 } else { *index + 1 };
                    let node = &children[*index];
                    self.descend(node, None);
                    break;
                }
                self.path.pop();
            }
        }
    }

    /// The entry that the cursor stands on.
    pub(crate) fn peek(&self) -> Option<&'a Item<V>> {
        self.items.get(if self.reverse { self.next.checked_sub(1)? } else { self.next })
    }

    /// Whether it walks from the end to the start.
    pub(crate) fn is_reverse(&self) -> bool {
        self.reverse
    }

    /// Moves on by one.
    pub(crate) fn advance(&mut self) {
        if self.reverse {
            self.next = self.next.saturating_sub(1);
        } else {
            self.next += 1;
        }
        self.settle();
    }
}

impl<'a, V> Iterator for Cursor<'a, V> {
    type Item = &'a Item<V>;

    fn next(&mut self) -> Option<&'a Item<V>> {
        let item = self.peek()?;
        self.advance();
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};
    use std::collections::BTreeMap;

    type Model = BTreeMap<Vec<u8>, (u64, Version)>;

    fn key(number: u64) -> Vec<u8> {
        number.to_be_bytes()[6..].to_vec()
    }

    fn check(tree: &Tree<u64>, model: &Model, random: &SeededRandom, seed: u64) {
        let (a, b) = (random.below(500), random.below(500));
        let range = KeyRange::new(&key(a.min(b)), &key(a.max(b)));
        let expected: Vec<(Vec<u8>, u64)> = model
            .range(range.start.to_vec()..range.end.to_vec())
            .map(|(key, (value, _))| (key.clone(), *value))
            .collect();
        let flat = |reverse| -> Vec<(Vec<u8>, u64)> {
            tree.cursor(&range, reverse).map(|item| (item.key.to_vec(), item.value)).collect()
        };
        assert_eq!(flat(false), expected, "seed {seed}");
        let mut backward = flat(true);
        backward.reverse();
        assert_eq!(backward, expected, "seed {seed}");
        let since = random.below(2_000);
        let newer = model.range(range.start.to_vec()..range.end.to_vec());
        let newer = newer.into_iter().any(|(_, (_, version))| *version > since);
        assert_eq!(tree.any_newer(&range, since), newer, "seed {seed}");
        let probe = key(random.below(500));
        let below = model.range(..probe.clone()).next_back().map(|(key, _)| key.clone());
        let found = tree.last_below(&Key::new(&probe)).map(|item| item.key.to_vec());
        assert_eq!(found, below, "seed {seed}");
        let found = tree.get(&Key::new(&probe)).map(|item| (item.value, item.version));
        assert_eq!(found, model.get(&probe).copied(), "seed {seed}");
    }

    #[test]
    fn agrees_with_a_map_and_old_copies_stay_as_they_were() {
        for seed in 0..60 {
            let random = SeededRandom::new(seed);
            let (mut tree, mut model) = (Tree::default(), Model::new());
            let mut copies: Vec<(Tree<u64>, Model)> = Vec::new();
            for version in 1..1_500 {
                if random.one_in(40) {
                    let (a, b) = (random.below(500), random.below(60));
                    let range = KeyRange::new(&key(a), &key((a + b).min(499)));
                    tree.remove_range(&range, &mut |_| {});
                    model.retain(|key, _| !range.contains(key));
                } else {
                    // Half of the time in order, which splits nodes otherwise.
                    let number = if seed % 2 == 0 { version % 500 } else { random.below(500) };
                    let old = tree.insert(Key::new(&key(number)), version, version);
                    let expected = model.insert(key(number), (version, version));
                    assert_eq!(old.map(|item| item.value), expected.map(|(value, _)| value));
                }
                if random.one_in(100) {
                    copies.push((tree.clone(), model.clone()));
                }
                if random.one_in(10) {
                    check(&tree, &model, &random, seed);
                }
            }
            for (tree, model) in &copies {
                check(tree, model, &random, seed);
            }
        }
    }
}
