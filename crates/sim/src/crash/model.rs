//! What a writer has made, as it must be found again: names, bytes, attributes; and what each call does
//! to it.

use crate::real::fill;
use std::collections::BTreeMap;

/// One call. Paths are those below the root of the mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    /// Makes a file that was not there.
    Create { path: String, mode: u32 },
    /// Writes the bytes of a number at an offset.
    Write { path: String, at: usize, len: usize, seed: u64 },
    /// Writes them behind the end.
    Append { path: String, len: usize, seed: u64 },
    /// fsync, of a file or a directory.
    Sync { path: String },
    /// Cuts or lengthens.
    Truncate { path: String, len: usize },
    /// Makes a hole.
    Punch { path: String, at: usize, len: usize },
    /// Gives another name; replaces what has it.
    Rename { from: String, to: String },
    /// Two names change places.
    Exchange { one: String, other: String },
    /// A further name of a file.
    Link { from: String, to: String },
    /// A symbolic link.
    Symlink { path: String, target: String },
    /// Removes a name.
    Unlink { path: String },
    /// Makes a directory.
    Mkdir { path: String },
    /// Removes one.
    Rmdir { path: String },
    /// Sets an extended attribute to the bytes of a number.
    SetXattr { path: String, key: u8, len: usize, seed: u64 },
    /// Removes one.
    RemoveXattr { path: String, key: u8 },
    /// Sets the permission bits.
    Chmod { path: String, mode: u32 },
    /// Sets the time of modification.
    Times { path: String, secs: i64 },
    /// Appends a record to the log that all writers share. No part of the model: the log is checked as a
    /// whole.
    Record { number: u64 },
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file with these bytes.
    File(Vec<u8>),
    /// A directory.
    Directory,
    /// A symbolic link to this.
    Symlink(String),
}

/// A file, directory or symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// Of which kind.
    pub(super) kind: Kind,
    /// Permission bits, where they were set.
    pub(super) mode: u32,
    /// Extended attributes.
    pub(super) xattrs: BTreeMap<u8, Vec<u8>>,
    /// The time of modification, where it was set last.
    pub(super) mtime: Option<i64>,
}

/// Everything of one writer.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    /// Names. Several can stand for one file.
    pub(super) names: BTreeMap<String, u64>,
    /// What they stand for.
    pub(super) nodes: BTreeMap<u64, Node>,
    next: u64,
}

impl Model {
    /// What a name stands for.
    pub(super) fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(self.names.get(path)?)
    }

    /// The bytes of a file.
    pub(super) fn bytes(&self, path: &str) -> Option<&[u8]> {
        match &self.node(path)?.kind {
            Kind::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// How many names a file has.
    pub(super) fn links(&self, number: u64) -> usize {
        self.names.values().filter(|other| **other == number).count()
    }

    /// Bytes in all files.
    pub(super) fn total_bytes(&self) -> usize {
        let sizes = self.nodes.values().map(|node| match &node.kind {
            Kind::File(bytes) => bytes.len(),
            _ => 0,
        });
        sizes.sum()
    }

    /// The number that the next new file or directory gets.
    pub(super) fn next_number(&self) -> u64 {
        self.next + 1
    }

    /// Whether a directory has a name in it.
    pub(super) fn has_names_below(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        self.names.range(prefix.clone()..).next().is_some_and(|(name, _)| name.starts_with(&prefix))
    }

    /// Does a call, of which it is known that it can be done.
    pub(super) fn apply(&mut self, call: &Call) {
        match call {
            Call::Create { path, mode } => self.add(path, Kind::File(Vec::new()), *mode),
            Call::Write { path, at, len, seed } => {
                self.change(path, |bytes| put(bytes, *at, &fill(*seed, *len)));
            }
            Call::Append { path, len, seed } => {
                self.change(path, |bytes| bytes.extend_from_slice(&fill(*seed, *len)));
            }
            Call::Truncate { path, len } => self.change(path, |bytes| bytes.resize(*len, 0)),
            Call::Punch { path, at, len } => self.change(path, |bytes| {
                let end = (at + len).min(bytes.len());
                if let Some(hole) = bytes.get_mut(*at..end) {
                    hole.fill(0);
                }
            }),
            Call::Rename { from, to } => self.rename(from, to),
            Call::Exchange { one, other } => {
                if let (Some(first), Some(second)) =
                    (self.names.get(one).copied(), self.names.get(other).copied())
                {
                    self.names.insert(one.clone(), second);
                    self.names.insert(other.clone(), first);
                }
            }
            Call::Link { from, to } => {
                if let Some(number) = self.names.get(from).copied() {
                    self.names.insert(to.clone(), number);
                }
            }
            Call::Symlink { path, target } => self.add(path, Kind::Symlink(target.clone()), 0o777),
            Call::Mkdir { path } => self.add(path, Kind::Directory, 0o755),
            Call::Unlink { path } | Call::Rmdir { path } => self.remove(path),
            Call::SetXattr { path, key, len, seed } => {
                if let Some(node) = self.node_mut(path) {
                    node.xattrs.insert(*key, fill(*seed, *len));
                }
            }
            Call::RemoveXattr { path, key } => {
                if let Some(node) = self.node_mut(path) {
                    node.xattrs.remove(key);
                }
            }
            Call::Chmod { path, mode } => {
                if let Some(node) = self.node_mut(path) {
                    node.mode = *mode;
                }
            }
            Call::Times { path, secs } => {
                if let Some(node) = self.node_mut(path) {
                    node.mtime = Some(*secs);
                }
            }
            Call::Sync { .. } | Call::Record { .. } => {}
        }
    }

    fn node_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(self.names.get(path)?)
    }

    fn add(&mut self, path: &str, kind: Kind, mode: u32) {
        self.next += 1;
        self.nodes.insert(self.next, Node { kind, mode, xattrs: BTreeMap::new(), mtime: None });
        self.names.insert(path.to_owned(), self.next);
    }

    fn change(&mut self, path: &str, how: impl FnOnce(&mut Vec<u8>)) {
        if let Some(node) = self.node_mut(path)
            && let Kind::File(bytes) = &mut node.kind
        {
            how(bytes);
            node.mtime = None;
        }
    }

    fn remove(&mut self, path: &str) {
        if let Some(number) = self.names.remove(path)
            && self.links(number) == 0
        {
            self.nodes.remove(&number);
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        let Some(number) = self.names.get(from).copied() else { return };
        // Two names of one file: nothing is to be done, says POSIX.
        if self.names.get(to) == Some(&number) {
            return;
        }
        self.remove(to);
        self.names.remove(from);
        self.names.insert(to.to_owned(), number);
        let prefix = format!("{from}/");
        let below: Vec<String> =
            self.names.range(prefix.clone()..).map(|(name, _)| name.clone()).collect();
        for name in below {
            let Some(rest) = name.strip_prefix(&prefix) else { break };
            if let Some(number) = self.names.remove(&name) {
                self.names.insert(format!("{to}/{rest}"), number);
            }
        }
    }
}

/// Puts bytes at an offset; a gap before them is zeros.
fn put(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    if bytes.len() < at + new.len() {
        bytes.resize(at + new.len(), 0);
    }
    bytes[at..at + new.len()].copy_from_slice(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn calls_do_what_they_say() {
        let mut model = Model::default();
        for call in [
            Call::Mkdir { path: s("d") },
            Call::Create { path: s("d/a"), mode: 0o600 },
            Call::Write { path: s("d/a"), at: 3, len: 4, seed: 4 },
            Call::Link { from: s("d/a"), to: s("b") },
            Call::Rename { from: s("d"), to: s("e") },
            Call::Create { path: s("c"), mode: 0o600 },
            Call::Rename { from: s("c"), to: s("e/a") },
        ] {
            model.apply(&call);
        }
        assert_eq!(model.names.keys().collect::<Vec<_>>(), ["b", "e", "e/a"]);
        assert_eq!(model.bytes("b"), Some(&[0_u8; 7][..]), "seed 4 is zeros");
        assert_eq!(model.bytes("e/a"), Some(&[][..]));
        assert_eq!(model.links(model.names["b"]), 1);
        model.apply(&Call::Unlink { path: s("b") });
        assert_eq!(model.nodes.len(), 2);
        assert!(model.has_names_below("e") && !model.has_names_below("d"));
    }

    #[test]
    fn renaming_one_name_of_a_file_to_another_does_nothing() {
        let mut model = Model::default();
        model.apply(&Call::Create { path: s("a"), mode: 0o600 });
        model.apply(&Call::Link { from: s("a"), to: s("b") });
        model.apply(&Call::Rename { from: s("a"), to: s("b") });
        assert_eq!(model.names.len(), 2);
    }
}
