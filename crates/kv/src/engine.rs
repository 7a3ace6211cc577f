//! What an engine implements.

use crate::{Capabilities, Error, ErrorKind, Fut, Key, KeyRange, Page, Result, Watch};
use bytes::Bytes;
use std::any::Any;
use std::fmt::Debug;

/// The place of a commit in the one order of all commits. Greater is later, no two that write have the
/// same; zero is before all.
pub type Version = u64;

/// What is called, once, with how a sync went.
pub type OnSync = Box<dyn FnOnce(Result<()>) + Send>;

/// What a commit survives once it has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// The death of the process.
    Process,
    /// The loss of power, together with every commit before it.
    Synced,
}

/// An ordered transactional key-value engine.
///
/// An engine has no filesystem words, keeps no transaction's writes, and retries nothing. Calls may
/// do their work when they are made or when the future is polled.
pub trait Engine: Send + Sync + Debug {
    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// A view of the store that holds every commit that returned before this call.
    fn snapshot(&self) -> Fut<'static, Result<Box<dyn Snapshot>>>;

    /// Checks and applies one transaction that read `snapshot`, which this engine gave out. When the
    /// answer is [`ErrorKind::Unknown`] the outcome is settled all the same: it does not happen
    /// later.
    ///
    /// [`ErrorKind::Unknown`]: crate::ErrorKind::Unknown
    fn commit(&self, snapshot: Box<dyn Snapshot>, commit: Commit) -> Fut<'static, Result<Version>>;

    /// The newest version, if transactions may look at the store itself as long as that version is the
    /// newest: cheaper than a snapshot for one that is over before anybody else commits. `None` when
    /// all need a snapshot.
    fn newest(&self) -> Option<Version> {
        None
    }

    /// The value of a key at version `at`. When that is the newest no more, the error is
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict).
    fn look(&self, at: Version, key: &[u8]) -> Result<Option<Bytes>> {
        let _ = (at, key);
        Err(Error::new(ErrorKind::Unsupported, "this engine is read through snapshots"))
    }

    /// Whether there is any key of `range` at version `at`. Otherwise as [`look`](Self::look).
    fn look_any(&self, at: Version, range: &KeyRange) -> Result<bool> {
        let _ = (at, range);
        Err(Error::new(ErrorKind::Unsupported, "this engine is read through snapshots"))
    }

    /// Checks and applies one transaction that looked at version `at`. Otherwise as
    /// [`commit`](Self::commit).
    fn commit_at(&self, at: Version, commit: Commit) -> Fut<'static, Result<Version>> {
        let _ = (at, commit);
        let words = "this engine commits what has read a snapshot";
        Fut::ready(Err(Error::new(ErrorKind::Unsupported, words)))
    }

    /// Applies one transaction that looked at version `at`, if that still is the newest: then nothing that it
    /// read can have changed, and it need not say what that was. When it is not, the error is
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict). Otherwise as [`commit`](Self::commit).
    fn commit_alone(&self, at: Version, commit: Commit) -> Fut<'static, Result<Version>> {
        let _ = (at, commit);
        let words = "this engine commits what has read a snapshot";
        Fut::ready(Err(Error::new(ErrorKind::Unsupported, words)))
    }

    /// Makes every commit that returned before this call survive the loss of power.
    fn sync(&self) -> Fut<'static, Result<()>>;

    /// Whether it has a thread for [`sync_then`](Self::sync_then).
    fn syncs_for_others(&self) -> bool {
        false
    }

    /// The same as [`sync`](Self::sync) for who does not wait: `done` is called with how it went, mostly on a thread of
    /// the engine, and must not hold that up.
    fn sync_then(&self, done: OnSync) {
        done(Err(Error::new(ErrorKind::Unsupported, "this engine syncs for those who wait")));
    }

    /// A future that is ready some time after a commit later than `since` changed `key`. It may be
    /// ready although nothing changed: who waits must look.
    fn watch(&self, key: &Key, since: Version) -> Fut<'static, Result<Watch>>;
}

/// The store as it was at one version, kept until it is dropped.
pub trait Snapshot: Any + Send + Sync + Debug {
    /// Which version.
    fn version(&self) -> Version;

    /// The value of a key.
    fn get<'a>(&'a self, key: &'a [u8]) -> Fut<'a, Result<Option<Bytes>>>;

    /// The values of several keys, in their order. An engine that pays for each round trip
    /// overrides this.
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> Fut<'a, Result<Vec<Option<Bytes>>>> {
        let mut values = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            match self.get(key).now() {
                Ok(Ok(value)) => values.push(value),
                Ok(Err(error)) => return Fut::ready(Err(error)),
                Err(pending) => {
                    return Fut::later(async move {
                        values.push(pending.await?);
                        for key in &keys[index + 1..] {
                            values.push(self.get(key).await?);
                        }
                        Ok(values)
                    });
                }
            }
        }
        Fut::ready(Ok(values))
    }

    /// The entries of a range, in order. An engine may end a page early; an empty page is the end.
    fn range<'a>(&'a self, query: &'a Query) -> Fut<'a, Result<Page>>;
}

/// A range read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The keys.
    pub range: KeyRange,
    /// The most entries of one page.
    pub limit: usize,
    /// About how many bytes end a page. At least one entry is returned however long it is.
    pub bytes: usize,
    /// From the end to the start.
    pub reverse: bool,
}

impl Query {
    /// Bytes of a page when nothing else was said.
    pub const BYTES_DEFAULT: usize = 1 << 20;

    /// All of `range`, in pages of the default size.
    pub fn new(range: KeyRange) -> Self {
        Self { range, limit: usize::MAX, bytes: Self::BYTES_DEFAULT, reverse: false }
    }

    /// At most `limit` entries.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// From the end to the start.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Whether a page that holds `page` is full. An empty one never is for its bytes: a reader that
    /// gets no entry could not go on behind it.
    #[inline]
    pub fn is_full(&self, page: &Page) -> bool {
        page.len() >= self.limit
            || (!page.is_empty() && page.bytes() >= self.bytes.min(Page::BYTES_MAX))
    }

    /// The part of the range behind the last entry of `page`: what the next page reads.
    pub fn behind(&self, page: &Page) -> Option<Query> {
        let last = page.last_key()?;
        let mut next = self.clone();
        if self.reverse {
            next.range.end = last;
        } else {
            next.range.start = last.successor();
        }
        Some(next)
    }
}

/// One transaction, ready to be checked and applied.
#[derive(Debug, Clone)]
pub struct Commit {
    /// What it must not have missed: it conflicts with later writes to these.
    pub reads: Vec<KeyRange>,
    /// What others must not miss, beyond the keys of `ops`.
    pub writes: Vec<KeyRange>,
    /// Its changes, applied in this order.
    pub ops: Vec<Op>,
    /// What it survives.
    pub durability: Durability,
    /// It serves to give space back: an engine takes it although its disk is full, from room that it
    /// has kept for this.
    pub frees: bool,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Sets a key.
    Put(Key, Bytes),
    /// Removes a key; it need not be there.
    Delete(Key),
    /// Removes all keys of a range.
    DeleteRange(KeyRange),
    /// Changes a key by its value at the time of the commit, without reading it.
    Atomic(Key, AtomicOp),
}

/// A change that depends on the value that it meets. Numbers are 64 bits, little-endian; a value of
/// another length is read as if cut or filled with zero bytes to eight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds, wrapping. A missing key counts as zero.
    Add(u64),
    /// Keeps the greater number. A missing key gets this one.
    Max(u64),
    /// Removes the key if it holds exactly this value.
    CompareAndClear(Bytes),
}

impl AtomicOp {
    /// The value after the operation.
    pub fn apply(&self, old: Option<&[u8]>) -> Option<Bytes> {
        match self {
            AtomicOp::Add(by) => Some(number(old.map_or(0, read_number).wrapping_add(*by))),
            AtomicOp::Max(other) => {
                Some(number(old.map_or(*other, |old| read_number(old).max(*other))))
            }
            AtomicOp::CompareAndClear(expected) => {
                old.filter(|old| *old != &expected[..]).map(Bytes::copy_from_slice)
            }
        }
    }

    /// Bytes of its operand.
    pub fn operand_bytes(&self) -> usize {
        match self {
            AtomicOp::Add(_) | AtomicOp::Max(_) => 8,
            AtomicOp::CompareAndClear(expected) => expected.len(),
        }
    }
}

fn read_number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    let len = bytes.len().min(8);
    whole[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(whole)
}

fn number(value: u64) -> Bytes {
    Bytes::copy_from_slice(&value.to_le_bytes())
}
