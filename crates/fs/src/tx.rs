//! One transaction of the filesystem: typed reads, and the one place through which every record is
//! written. It knows the epoch that the transaction read.

use crate::error::{Error, Result, corrupt, not_found};
use crate::schema::{BackingRecord, Counter, Entry, Form, Inode, Job, Keys, MapEntry, Part, Side};
use crate::session::{Doomed, Effects, Shared};
use crate::types::{Attr, Ino, Time};
use bytes::Bytes;
use kv::{Key, KeyRange, Page, Query, Read, Txn, Version, Watch};
use std::sync::Arc;

/// How many keys share the load of a counter on an engine that adds by reading.
const SHARDS: u64 = 16;

/// A transaction of a session.
#[derive(Debug)]
pub(crate) struct Tx {
    txn: Txn,
    pub(crate) session: Arc<Shared>,
    pub(crate) keys: Keys,
    /// The time that everything in it happens at; nothing in a transaction that only reads.
    pub(crate) now: Time,
    /// The volume's epoch; 0 in a transaction that only reads.
    pub(crate) epoch: u64,
    bytes: i64,
    inodes: i64,
    /// Bytes that mapped files take more, by inode.
    space: Vec<(Ino, i64)>,
    /// Inodes that must not be opened until this transaction has ended.
    pub(crate) doomed: Vec<Doomed>,
    /// Inodes whose files of the local home are given back when this transaction has been committed.
    pub(crate) retired: Vec<(Ino, u64)>,
    /// What it does to directories that the session may know.
    effects: Effects,
}

/// What is left of a transaction that is about to be committed.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Inodes that must not be opened until it was.
    pub(crate) doomed: Vec<Doomed>,
    /// Inodes whose files of the local home are given back then.
    pub(crate) retired: Vec<(Ino, u64)>,
    /// The epoch that it read; 0 when it wrote nothing, and so has no version of its own.
    pub(crate) epoch: u64,
    /// What it does to directories.
    pub(crate) effects: Effects,
    /// When, in nanoseconds.
    pub(crate) now: u64,
}

/// What is kept beside an inode's record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sides {
    /// When the contents last changed without the record, in nanoseconds since 1970; 0 for not.
    pub(crate) changed: u64,
    /// Directories in a directory.
    pub(crate) subdirs: u64,
    /// Bytes that a mapped file takes.
    pub(crate) blocks: u64,
}

impl Sides {
    pub(crate) fn set(&mut self, side: Side, value: u64) {
        match side {
            Side::Changed => self.changed = value,
            Side::Subdirs => self.subdirs = value,
            Side::Blocks => self.blocks = value,
        }
    }
}

impl Tx {
    /// A transaction that only reads.
    pub(crate) fn view(session: &Arc<Shared>, txn: Txn) -> Self {
        Self {
            txn,
            session: Arc::clone(session),
            keys: session.volume.keys,
            now: Time::default(),
            epoch: 0,
            bytes: 0,
            inodes: 0,
            space: Vec::new(),
            doomed: Vec::new(),
            retired: Vec::new(),
            effects: Effects::default(),
        }
    }

    /// A transaction that may write. It reads the session's own key and the volume's epoch, so it
    /// cannot commit once the session was ended by others or the epoch has moved.
    pub(crate) async fn fenced(session: &Arc<Shared>, txn: Txn) -> Result<Self> {
        let mut tx = Self::view(session, txn);
        let (own, epoch) = (&session.session_key, &session.epoch_key);
        tx.now = session.volume.world.now();
        if session.private
            && let Some(known) = session.known.epoch(tx.txn.version())
        {
            tx.txn.read_conflict_at(own)?;
            tx.txn.read_conflict_at(epoch)?;
            tx.epoch = known;
            return Ok(tx);
        }
        let found = tx.get_many(&[own, epoch], Read::Serializable).await?;
        let [Some(_), Some(epoch)] = &found[..] else {
            if let [None, _] = &found[..] {
                return Err(session.end());
            }
            return Err(tx.damaged(&session.epoch_key, "is missing"));
        };
        tx.epoch = number(epoch);
        Ok(tx)
    }

    /// The end: the counters are written, and the transaction can be committed.
    pub(crate) fn finish(mut self) -> Result<(Txn, Ended)> {
        let shard = if self.session.native_atomics { 0 } else { self.session.id % SHARDS } as u8;
        for (by, counter) in [(self.bytes, Counter::Bytes), (self.inodes, Counter::Inodes)] {
            if by != 0 {
                // Adding a negative number's two's complement subtracts.
                self.txn.add(&self.keys.counter(shard, counter), by as u64)?;
            }
        }
        for (ino, by) in std::mem::take(&mut self.space) {
            if by != 0 {
                self.txn.add(&self.keys.blocks(ino), by as u64)?;
            }
        }
        let now = nanos_of(self.now);
        let Self { txn, doomed, retired, epoch, effects, .. } = self;
        let epoch = if txn.is_read_only() { 0 } else { epoch };
        Ok((txn, Ended { doomed, retired, epoch, effects, now }))
    }

    /// The same transaction after nothing of what it wrote is wanted: only for replies read back
    /// from the op log, before anything was written.
    pub(crate) fn abandon(self) -> Txn {
        self.txn
    }

    // Reading.

    /// The version that it sees.
    pub(crate) fn version(&self) -> Version {
        self.txn.version()
    }

    pub(crate) async fn get(&mut self, key: &Key, read: Read) -> Result<Option<Bytes>> {
        match self.txn.get(key, read).await {
            Ok(value) => Ok(value),
            Err(error) => Err(self.noted(key, error)),
        }
    }

    /// The values of several keys, in one round trip where that matters. Where one of them is damaged,
    /// the log names the first.
    pub(crate) async fn get_many(
        &mut self,
        keys: &[&[u8]],
        read: Read,
    ) -> Result<Vec<Option<Bytes>>> {
        match self.txn.get_many(keys, read).await {
            Ok(values) => Ok(values),
            Err(error) => Err(self.noted(keys.first().copied().unwrap_or_default(), error)),
        }
    }

    /// A watch of a key, from what this transaction sees of it.
    pub(crate) async fn watch(&mut self, key: &Key) -> Result<Watch> {
        Ok(self.txn.watch(key).await?)
    }

    pub(crate) async fn range(&mut self, query: &Query, read: Read) -> Result<Page> {
        match self.txn.range(query, read).await {
            Ok(page) => Ok(page),
            Err(error) => Err(self.noted(&query.range.start, error)),
        }
    }

    /// Says in the log where damage was met.
    fn noted(&self, key: &[u8], error: kv::Error) -> Error {
        if error.kind() == kv::ErrorKind::Corrupt {
            let what = self.session.volume.describe(key);
            tracing::error!(volume = self.session.volume.name(), key = what, %error, "damaged");
        }
        error.into()
    }

    /// The error for a record that is not what was written, which also goes to the log.
    pub(crate) fn damaged(&self, key: &[u8], how: &str) -> Error {
        let what = self.session.volume.describe(key);
        tracing::error!(volume = self.session.volume.name(), key = what, how, "damaged");
        corrupt(format!("{what} {how}: run fsck"))
    }

    /// An inode, wholly: any later change of its record is a conflict.
    pub(crate) async fn inode(&mut self, ino: Ino) -> Result<Inode> {
        self.find_inode(ino, Read::Serializable).await?.ok_or_else(gone)
    }

    /// An inode of which only a part matters: changes of others are no conflict.
    pub(crate) async fn inode_for(&mut self, ino: Ino, part: Part) -> Result<Inode> {
        if self.epoch != 0 {
            self.depend_on_part(ino, part)?;
        }
        self.find_inode(ino, Read::Snapshot).await?.ok_or_else(gone)
    }

    /// Makes a later change of a part of an inode a conflict.
    pub(crate) fn depend_on_part(&mut self, ino: Ino, part: Part) -> Result<()> {
        let key = self.keys.part(ino, part);
        Ok(self.txn.read_conflict_at(&key)?)
    }

    /// Makes a later change of anything in a range a conflict.
    pub(crate) fn depend_on(&mut self, range: &KeyRange) -> Result<()> {
        Ok(self.txn.read_conflict(range)?)
    }

    /// Makes any later change of an inode's record a conflict, after a part of it was read.
    pub(crate) fn depend_on_inode(&mut self, ino: Ino) -> Result<()> {
        let key = self.keys.inode(ino);
        Ok(self.txn.read_conflict_at(&key)?)
    }

    /// When the contents of a mapped file last changed without its record.
    pub(crate) async fn changed(&mut self, ino: Ino) -> Result<u64> {
        let key = self.keys.changed(ino);
        Ok(self.get(&key, Read::Snapshot).await?.as_deref().map_or(0, number))
    }

    /// An inode as it is now, for telling only.
    pub(crate) async fn inode_seen(&mut self, ino: Ino) -> Result<Inode> {
        self.find_inode(ino, Read::Snapshot).await?.ok_or_else(gone)
    }

    pub(crate) async fn find_inode(&mut self, ino: Ino, read: Read) -> Result<Option<Inode>> {
        // What is known may be told where no conflict is to come of it.
        let known = self.session.private && read == Read::Snapshot && !self.effects.may_have(ino);
        if known && let Some(inode) = self.session.known.dir(self.txn.version(), ino) {
            return Ok(Some(inode));
        }
        let key = self.keys.inode(ino);
        let Some(record) = self.get(&key, read).await? else {
            return Ok(None);
        };
        let Some(inode) = Inode::decode(&key, ino, &record) else {
            return Err(self.damaged(&key, "is damaged"));
        };
        if known && inode.is_dir() {
            self.session.known.learn_dir(self.txn.version(), ino, &inode);
        }
        Ok(Some(inode))
    }

    pub(crate) async fn sides(&mut self, ino: Ino, inode: &Inode) -> Result<Sides> {
        if !inode.has_sides() {
            return Ok(Sides::default());
        }
        let known = self.session.private && inode.is_dir() && !self.effects.may_have(ino);
        if known && let Some(sides) = self.session.known.sides(self.txn.version(), ino) {
            return Ok(sides);
        }
        let other = if inode.is_dir() { self.keys.subdirs(ino) } else { self.keys.blocks(ino) };
        let changed = self.keys.changed(ino);
        let keys: [&[u8]; 2] = [&changed, &other];
        let found = self.get_many(&keys, Read::Snapshot).await?;
        let mut values = found.iter().map(|value| value.as_deref().map_or(0, number));
        let changed = values.next().unwrap_or(0);
        let other = values.next().unwrap_or(0);
        Ok(if inode.is_dir() {
            let sides = Sides { changed, subdirs: other, blocks: 0 };
            if known {
                self.session.known.learn_sides(self.txn.version(), ino, sides);
            }
            sides
        } else {
            // What this transaction changes of it is written with its commit.
            let counted = self.space.iter().find(|(of, _)| *of == ino).map_or(0, |(_, by)| *by);
            Sides { changed, subdirs: 0, blocks: other.wrapping_add_signed(counted) }
        })
    }

    /// What callers are told of an inode.
    pub(crate) async fn attr(&mut self, ino: Ino, inode: &Inode) -> Result<Attr> {
        let sides = self.sides(ino, inode).await?;
        self.attr_with(ino, inode, sides)
    }

    pub(crate) fn attr_with(&self, ino: Ino, inode: &Inode, sides: Sides) -> Result<Attr> {
        self.session.attr_of(ino, inode, sides)
    }

    pub(crate) async fn entry(
        &mut self,
        parent: Ino,
        name: &[u8],
        read: Read,
    ) -> Result<Option<Entry>> {
        let key = self.keys.entry(parent, name);
        let Some(record) = self.get(&key, read).await? else {
            return Ok(None);
        };
        match Entry::decode(&key, &record) {
            Some(entry) => Ok(Some(entry)),
            None => Err(self.damaged(&key, "is damaged")),
        }
    }

    /// Whether some key of a range is there.
    pub(crate) async fn any(&mut self, range: KeyRange, read: Read) -> Result<bool> {
        let query = Query::new(range).limit(1);
        Ok(!self.range(&query, read).await?.is_empty())
    }

    pub(crate) async fn map_entry(
        &mut self,
        blob: u64,
        chunk: u64,
        read: Read,
    ) -> Result<Option<MapEntry>> {
        let key = self.keys.map(blob, chunk);
        let Some(record) = self.get(&key, read).await? else {
            return Ok(None);
        };
        match MapEntry::decode(&key, &record) {
            Some(entry) => Ok(Some(entry)),
            None => Err(self.damaged(&key, "is damaged")),
        }
    }

    pub(crate) async fn job(&mut self, job: u64) -> Result<Option<Job>> {
        let key = self.keys.job(job);
        let Some(record) = self.get(&key, Read::Serializable).await? else {
            return Ok(None);
        };
        match Job::decode(&key, &record) {
            Some(job) => Ok(Some(job)),
            None => Err(self.damaged(&key, "is damaged")),
        }
    }

    // Writing: everything below passes through `put` and its neighbours.

    /// Whatever is written under an inode changes what is known of it, and what is written of sessions and
    /// of the volume changes who may write.
    #[inline]
    fn note(&mut self, key: &[u8]) {
        if let Some(ino) = self.keys.inode_of(key) {
            self.effects.changed(ino);
        } else if self.keys.is_fence(key) {
            self.effects.fence();
        }
    }

    pub(crate) fn put(&mut self, key: &Key, record: impl Into<Bytes>) -> Result<()> {
        self.note(key);
        Ok(self.txn.put(key, record)?)
    }

    pub(crate) fn delete(&mut self, key: &Key) -> Result<()> {
        self.note(key);
        Ok(self.txn.delete(key)?)
    }

    pub(crate) fn delete_range(&mut self, range: &KeyRange) -> Result<()> {
        match (self.keys.inode_of(&range.start), self.keys.inode_of(&range.end)) {
            (Some(ino), Some(same)) if ino == same => self.effects.changed(ino),
            // Of one family that is not theirs.
            (None, None) if range.start.get(..3) == range.end.get(..3) => self.note(&range.start),
            _ => self.effects.anything(),
        }
        Ok(self.txn.delete_range(range)?)
    }

    pub(crate) fn add(&mut self, key: &Key, by: i64) -> Result<()> {
        self.note(key);
        Ok(self.txn.add(key, by as u64)?)
    }

    /// Raises a number.
    pub(crate) fn max(&mut self, key: &Key, with: u64) -> Result<()> {
        self.note(key);
        Ok(self.txn.max(key, with)?)
    }

    /// Removes a number if it still is this one.
    pub(crate) fn clear_number(&mut self, key: &Key, expected: u64) -> Result<()> {
        self.note(key);
        Ok(self.txn.compare_and_clear(key, expected.to_le_bytes().to_vec())?)
    }

    /// Makes those conflict who depend on these parts of an inode.
    pub(crate) fn change_parts(&mut self, ino: Ino, parts: &[Part]) -> Result<()> {
        for part in parts {
            let part = self.keys.part(ino, *part);
            self.txn.write_conflict(&KeyRange::point(&part))?;
        }
        Ok(())
    }

    /// Writes an inode of which `parts` changed.
    pub(crate) fn put_inode(&mut self, ino: Ino, inode: &Inode, parts: &[Part]) -> Result<()> {
        let key = self.keys.inode(ino);
        self.change_parts(ino, parts)?;
        self.put(&key, inode.encode(&key, ino))
    }

    /// Writes an inode that nobody can have read.
    pub(crate) fn put_new_inode(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        self.inodes += 1;
        self.put_inode(ino, inode, &[])
    }

    pub(crate) fn put_entry(&mut self, parent: Ino, name: &[u8], entry: Entry) -> Result<()> {
        let key = self.keys.entry(parent, name);
        self.put(&key, entry.encode(&key))
    }

    pub(crate) fn delete_entry(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        let key = self.keys.entry(parent, name);
        self.delete(&key)
    }

    pub(crate) fn put_map_entry(&mut self, blob: u64, chunk: u64, entry: &MapEntry) -> Result<()> {
        let key = self.keys.map(blob, chunk);
        self.put(&key, entry.encode(&key))
    }

    pub(crate) fn put_backing(&mut self, blob: u64, record: BackingRecord) -> Result<()> {
        let key = self.keys.backing(blob);
        self.put(&key, record.encode(&key))
    }

    pub(crate) fn delete_backing(&mut self, blob: u64) -> Result<()> {
        let key = self.keys.backing(blob);
        self.delete(&key)
    }

    /// Makes those conflict who depend on an inode's data or on its record, which stays as it is.
    pub(crate) fn change_data_of(&mut self, ino: Ino) -> Result<()> {
        self.change_parts(ino, &[Part::Data])?;
        let key = self.keys.inode(ino);
        Ok(self.txn.write_conflict(&KeyRange::point(&key))?)
    }

    pub(crate) fn put_job(&mut self, id: u64, job: &Job) -> Result<()> {
        let key = self.keys.job(id);
        self.session.jobs_waiting.store(true, std::sync::atomic::Ordering::Relaxed);
        self.put(&key, job.encode(&key))
    }

    /// A directory's entries changed now, and `subdirs` more of them are directories.
    pub(crate) fn touch_dir(&mut self, ino: Ino, subdirs: i64) -> Result<()> {
        self.touch(ino)?;
        if subdirs != 0 {
            let key = self.keys.subdirs(ino);
            self.effects.subdirs(ino, subdirs);
            self.txn.add(&key, subdirs as u64)?;
        }
        Ok(())
    }

    /// The contents changed now, and the record did not.
    pub(crate) fn touch(&mut self, ino: Ino) -> Result<()> {
        let key = self.keys.changed(ino);
        self.effects.touched(ino);
        Ok(self.txn.max(&key, nanos_of(self.now))?)
    }

    /// A mapped file takes so many bytes more.
    pub(crate) fn count_space(&mut self, ino: Ino, by: i64) {
        match self.space.iter_mut().find(|(of, _)| *of == ino) {
            Some((_, sum)) => *sum += by,
            None => self.space.push((ino, by)),
        }
    }

    /// What was counted of a file does not count: it has no such space any more.
    pub(crate) fn forget_space(&mut self, ino: Ino) -> Result<()> {
        self.space.retain(|(of, _)| *of != ino);
        let key = self.keys.blocks(ino);
        self.delete(&key)
    }

    /// Data takes so many bytes more.
    pub(crate) fn count_bytes(&mut self, by: i64) {
        self.bytes += by;
    }

    /// There are so many inodes more.
    pub(crate) fn count_inodes(&mut self, by: i64) {
        self.inodes += by;
    }

    /// It serves to give space back: it is taken on a full disk too.
    pub(crate) fn frees_space(&mut self) {
        self.txn.frees_space();
    }

    /// Bytes that this transaction adds.
    pub(crate) fn bytes_added(&self) -> i64 {
        self.bytes
    }

    /// A number that no inode and no blob has.
    pub(crate) async fn fresh(&mut self, reserved: Option<u64>) -> Result<u64> {
        if let Some(reserved) = reserved {
            return Ok(reserved);
        }
        loop {
            let number = self.session.random_number();
            let taken = self.any(self.keys.inode_all(number), Read::Serializable).await?
                || self.any(self.keys.map_from(number, 0), Read::Serializable).await?
                || self.get(&self.keys.inline(number), Read::Serializable).await?.is_some();
            if !taken {
                return Ok(number);
            }
            self.session.counts.collisions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// A number that no job has.
    pub(crate) async fn fresh_job(&mut self) -> Result<u64> {
        loop {
            let number = self.session.random_number();
            let key = self.keys.job(number);
            if self.get(&key, Read::Serializable).await?.is_none() {
                return Ok(number);
            }
        }
    }
}

fn gone() -> Error {
    not_found("there is no such inode (any more)")
}

/// A counter's value.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    for (to, from) in whole.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(whole)
}

/// A time as one number that grows; never 0, which means that there is none.
pub(crate) fn nanos_of(time: Time) -> u64 {
    let secs = u64::try_from(time.secs).unwrap_or(0);
    secs.saturating_mul(1_000_000_000).saturating_add(time.nanos.into()).max(1)
}

/// The time of such a number.
pub(crate) fn time_of(nanos: u64) -> Time {
    let secs = i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX);
    Time { secs, nanos: (nanos % 1_000_000_000) as u32 }
}

/// Bytes that inline data takes, in whole pages as a disk would.
pub(crate) fn inline_space(inline_len: u32) -> i64 {
    i64::from(inline_len.div_ceil(4096)) * 4096
}

impl Shared {
    pub(crate) fn attr_of(&self, ino: Ino, inode: &Inode, sides: Sides) -> Result<Attr> {
        let mut mtime = inode.mtime;
        let mut ctime = inode.ctime;
        if sides.changed != 0 {
            mtime = time_of(sides.changed);
            ctime = ctime.max(mtime);
        }
        let atime = self.access_time(ino, inode);
        let (nlink, size, space) = if inode.is_dir() {
            let nlink = match inode.nlink {
                0 => 0,
                _ => u32::try_from(sides.subdirs.saturating_add(2)).unwrap_or(u32::MAX),
            };
            (nlink, 4096, 4096)
        } else {
            let space = match inode.form {
                Form::Inline => inline_space(inode.inline_len) as u64,
                Form::Mapped => sides.blocks,
                Form::Local => inode.taken,
            };
            (inode.nlink, inode.size, space)
        };
        let mut attr = Attr {
            ino,
            mode: inode.mode,
            nlink,
            uid: inode.uid,
            gid: inode.gid,
            rdev: inode.rdev,
            size,
            blocks: space / 512,
            block_bytes: self.volume.record.block_bytes,
            atime,
            mtime,
            ctime,
            btime: inode.btime,
            live: false,
        };
        self.show_lent(ino, inode, &mut attr)?;
        Ok(attr)
    }
}
