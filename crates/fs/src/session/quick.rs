//! Changes of names the short way: on a private store, for a caller whom nobody has to check, when all that
//! is met is as it mostly is.
//!
//! A request of the kernel is a few reads and one commit. Whatever else is in its way is paid for in
//! instructions that are in no cache. So the operations that change names try first without a transaction:
//! they look at the store itself, write down what is to change, and commit it if nobody else has committed
//! since. Whatever is out of the ordinary, and every error that the caller is to be told, is left to the
//! transaction: a try that gives up has done nothing.

use super::asked::Asked;
use super::{Doomed, Effects, Session, Shared};
use crate::blob;
use crate::error::{Error, Result};
use crate::reply::Reply;
use crate::schema::{BackingRecord, Counter, Entry, Inode, Part};
use crate::tx::{inline_space, nanos_of};
use crate::types::{Caller, Ino, Time};
use bytes::Bytes;
use kv::{AtomicOp, Commit, Durability, ErrorKind, Key, KeyRange, Op, Version};
use std::sync::atomic::Ordering;

/// Changes that one operation makes, mostly.
const OPS_FIRST: usize = 8;

/// A try.
pub(crate) struct Quick<'a> {
    shared: &'a Shared,
    asked: Option<Asked>,
    at: Version,
    epoch: u64,
    /// The time that everything in it happens at.
    pub(crate) now: Time,
    ops: Vec<Op>,
    /// Parts of inodes that change.
    marks: Vec<KeyRange>,
    effects: Effects,
    frees: bool,
    bytes: i64,
    inodes: i64,
    /// Inodes that must not be opened until it has ended.
    doomed: Option<Doomed>,
}

impl Session {
    /// Begins a change; `None` when it needs a transaction.
    pub(crate) fn quick(&self, caller: &Caller) -> Option<Quick<'_>> {
        let shared = &*self.0;
        let plain = shared.private && !shared.log_ops && shared.native_atomics;
        let trusted = !caller.checked_here || caller.is_privileged();
        // What was asked before may have been done.
        let asked = self.1;
        if !plain || !trusted || asked.is_some_and(|asked| asked.again) || self.is_ended() {
            return None;
        }
        let at = shared.newest()?;
        let epoch = shared.known.epoch(at)?;
        Some(Quick {
            shared,
            asked,
            at,
            epoch,
            now: shared.volume.world.now(),
            ops: Vec::with_capacity(OPS_FIRST),
            marks: Vec::new(),
            effects: Effects::default(),
            frees: false,
            bytes: 0,
            inodes: 0,
            doomed: None,
        })
    }

    /// Whether it is known, without looking, that there is no such name now: the kernel has asked for it just
    /// before.
    pub fn is_known_missing(&self, parent: Ino, name: &[u8]) -> bool {
        let shared = &*self.0;
        shared.private
            && shared.newest().is_some_and(|at| {
                shared.known.is_missing(at, &shared.volume.keys.entry(parent, name))
            })
    }
}

impl Shared {
    /// The newest version of the store, where it can be looked at.
    pub(crate) fn newest(&self) -> Option<Version> {
        self.volume.world.store.engine().newest()
    }

    /// A value of the store as it is at a version; `None` when that is not to be had so.
    pub(crate) fn look(&self, at: Version, key: &Key) -> Option<Option<Bytes>> {
        self.volume.world.store.engine().look(at, key).ok()
    }

    /// What a name stands for.
    pub(crate) fn look_entry(&self, at: Version, key: &Key) -> Option<Option<Entry>> {
        if self.known.is_missing(at, key) {
            return Some(None);
        }
        match self.look(at, key)? {
            Some(record) => Entry::decode(key, &record).map(Some),
            None => Some(None),
        }
    }

    /// An inode.
    pub(crate) fn look_inode(&self, at: Version, ino: Ino) -> Option<Inode> {
        let key = self.volume.keys.inode(ino);
        Inode::decode(&key, ino, &self.look(at, &key)??)
    }
}

impl Quick<'_> {
    /// A directory that names can be changed in, if it is one that was just used.
    pub(crate) fn dir(&self, ino: Ino) -> Option<Inode> {
        self.shared.known.dir(self.at, ino).filter(|dir| dir.nlink > 0)
    }

    /// What a name stands for; `None` when that is not to be had so.
    pub(crate) fn entry(&self, parent: Ino, name: &[u8]) -> Option<Option<Entry>> {
        self.shared.look_entry(self.at, &self.shared.volume.keys.entry(parent, name))
    }

    pub(crate) fn inode(&self, ino: Ino) -> Option<Inode> {
        self.shared.look_inode(self.at, ino)
    }

    pub(crate) fn put_inode(&mut self, ino: Ino, inode: &Inode) {
        let key = self.shared.volume.keys.inode(ino);
        let record = inode.encode(&key, ino);
        self.effects.changed(ino);
        self.ops.push(Op::Put(key, record.into()));
    }

    /// An inode whose bytes changed.
    pub(crate) fn put_data(&mut self, ino: Ino, inode: &Inode) {
        let part = self.shared.volume.keys.part(ino, Part::Data);
        self.marks.push(KeyRange::point(&part));
        self.put_inode(ino, inode);
    }

    /// An inode of which it changed who may do what.
    pub(crate) fn put_access(&mut self, ino: Ino, inode: &Inode) {
        let part = self.shared.volume.keys.part(ino, Part::Access);
        self.marks.push(KeyRange::point(&part));
        self.put_inode(ino, inode);
    }

    /// What an inode has inline, without the zeros at its end; `None` when that is not to be had so.
    pub(crate) fn inline(&self, inode: &Inode) -> Option<Bytes> {
        if inode.inline_len == 0 {
            return Some(Bytes::new());
        }
        let key = self.shared.volume.keys.inline(inode.blob);
        let stored = self.shared.look(self.at, &key)??;
        let bound = self.shared.volume.record.block_bytes as usize;
        let bytes = blob::block::decode(&stored, &key, bound).ok()?;
        (bytes.len() == inode.inline_len as usize).then_some(bytes)
    }

    /// Replaces what an inode has inline; the caller writes its record.
    pub(crate) fn put_inline(&mut self, inode: &mut Inode, data: &[u8]) {
        let volume = &self.shared.volume;
        let key = volume.keys.inline(inode.blob);
        let len = blob::block::trimmed_len(data);
        if len > 0 {
            let data = data.get(..len).unwrap_or(data);
            let stored = blob::block::encode(data, volume.record.codec, &key);
            self.ops.push(Op::Put(key, stored.into()));
        } else if inode.inline_len > 0 {
            self.ops.push(Op::Delete(key));
        }
        self.bytes += inline_space(len as u32) - inline_space(inode.inline_len);
        inode.inline_len = len as u32;
    }

    pub(crate) fn put_new_inode(&mut self, ino: Ino, inode: &Inode) {
        self.inodes += 1;
        self.put_inode(ino, inode);
    }

    pub(crate) fn put_entry(&mut self, parent: Ino, name: &[u8], entry: Entry) {
        let key = self.shared.volume.keys.entry(parent, name);
        let record = entry.encode(&key);
        self.ops.push(Op::Put(key, record.into()));
    }

    pub(crate) fn delete_entry(&mut self, parent: Ino, name: &[u8]) {
        self.ops.push(Op::Delete(self.shared.volume.keys.entry(parent, name)));
    }

    /// Who has a file of the local home.
    pub(crate) fn put_backing(&mut self, blob: u64, record: BackingRecord) {
        let key = self.shared.volume.keys.backing(blob);
        let record = record.encode(&key);
        self.ops.push(Op::Put(key, record.into()));
    }

    /// A directory's entries changed, and `subdirs` more of them are directories.
    pub(crate) fn touch_dir(&mut self, ino: Ino, subdirs: i64) {
        let keys = self.shared.volume.keys;
        self.effects.touched(ino);
        self.ops.push(Op::Atomic(keys.changed(ino), AtomicOp::Max(nanos_of(self.now))));
        if subdirs != 0 {
            self.effects.subdirs(ino, subdirs);
            self.ops.push(Op::Atomic(keys.subdirs(ino), AtomicOp::Add(subdirs as u64)));
        }
    }

    /// Whether there can be too many inodes.
    pub(crate) fn has_bounds(&self) -> bool {
        self.shared.volume.record.inodes_max > 0
    }

    /// Whether there can be too many bytes.
    pub(crate) fn has_capacity(&self) -> bool {
        self.shared.volume.record.capacity_bytes > 0
    }

    /// It serves to give space back.
    pub(crate) fn frees_space(&mut self) {
        self.frees = true;
    }

    /// Removes an inode that is kept inline and has nothing beside its record, unless it is open. False when it
    /// cannot be done so.
    pub(crate) fn remove(&mut self, ino: Ino, inode: &Inode) -> bool {
        let keys = self.shared.volume.keys;
        if self.shared.local.as_ref().is_some_and(|local| local.blob_of(ino).is_some()) {
            return false;
        }
        self.doomed = self.shared.open.doom_unless_held(ino);
        if self.doomed.is_none() {
            return false;
        }
        if inode.inline_len > 0 {
            self.ops.push(Op::Delete(keys.inline(inode.blob)));
            self.bytes -= inline_space(inode.inline_len);
        }
        self.effects.changed(ino);
        self.ops.push(Op::Delete(keys.inode(ino)));
        self.inodes -= 1;
        true
    }

    /// Whether a directory has no names.
    pub(crate) fn is_empty(&self, ino: Ino) -> bool {
        let names = self.shared.volume.keys.entries(ino);
        matches!(self.shared.volume.world.store.engine().look_any(self.at, &names), Ok(false))
    }

    /// Removes a directory that has nothing beside its record and what is counted of it, unless it is open. False when
    /// it cannot be done so.
    pub(crate) fn remove_dir(&mut self, ino: Ino) -> bool {
        let keys = self.shared.volume.keys;
        self.doomed = self.shared.open.doom_unless_held(ino);
        if self.doomed.is_none() {
            return false;
        }
        // Whoever is about to make a name in it has looked at these.
        for part in [Part::Access, Part::Parent] {
            self.marks.push(KeyRange::point(&keys.part(ino, part)));
        }
        self.effects.changed(ino);
        self.ops.push(Op::Delete(keys.inode(ino)));
        self.ops.push(Op::Delete(keys.changed(ino)));
        self.ops.push(Op::Delete(keys.subdirs(ino)));
        self.inodes -= 1;
        true
    }

    /// Commits it with the reply to the request; `None` when it was not done, and has to be done anew in a
    /// transaction.
    pub(crate) fn commit<T: Reply>(mut self, reply: &T) -> Result<Option<()>> {
        let Shared { volume, known, counts, .. } = self.shared;
        let keys = volume.keys;
        for (by, counter) in [(self.bytes, Counter::Bytes), (self.inodes, Counter::Inodes)] {
            if by != 0 {
                self.ops.push(Op::Atomic(keys.counter(0, counter), AtomicOp::Add(by as u64)));
            }
        }
        if let Some(asked) = self.asked {
            let key = asked.key(keys, self.shared.id);
            let record = crate::reply::encode_for(&key, asked.number, reply);
            self.ops.push(Op::Put(key, record.into()));
        }
        let commit = Commit {
            reads: Vec::new(),
            writes: self.marks,
            ops: self.ops,
            durability: Durability::Process,
            frees: self.frees,
        };
        // When there is no room it waits, and then it has not been done: dropped, it is not done at all.
        match volume.world.store.engine().commit_alone(self.at, commit).now() {
            Ok(Ok(version)) => {
                known.committed(version, self.epoch, nanos_of(self.now), &self.effects);
                counts.short_changes.fetch_add(1, Ordering::Relaxed);
                Ok(Some(()))
            }
            Ok(Err(error)) => match error.kind() {
                ErrorKind::Conflict | ErrorKind::TooOld | ErrorKind::Full => Ok(None),
                _ => Err(Error::from(error)),
            },
            Err(_) => Ok(None),
        }
    }
}
