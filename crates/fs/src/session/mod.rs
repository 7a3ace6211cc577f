//! A session: one client of a volume. It has a key in the store that every change reads, a
//! heartbeat, open files, and the log of what it did.

mod alloc;
mod asked;
mod background;
mod handles;
mod held;
mod known;
mod open_files;
mod oplog;
mod options;
mod peers;
mod places;
mod quick;
mod start;
mod times;

pub use asked::Asked;
pub use background::Maintained;
pub(crate) use handles::{Handles, OpenDir, OpenFile};
pub(crate) use known::{Effects, Known};
pub use open_files::Way;
pub(crate) use open_files::{Doomed, Last, Lease};
pub use options::{Atime, SessionOptions, Sharing};
pub(crate) use quick::Quick;
pub(crate) use start::bury;

use crate::error::{Error, Kind, Result, stale};
use crate::local::Local;
use crate::reply::Reply;
use crate::tx::{Ended, Tx};
use crate::types::Ino;
use crate::volume::Volume;
use alloc::Numbers;
use base::sync::Mutex;
use kv::{Durability, Key};
use open_files::OpenFiles;
use oplog::OpLog;
use peers::Peers;
use places::Places;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether an operation may be applied twice after an unknown commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// It writes nothing.
    ReadOnly,
    /// Applying it twice is applying it once, whatever others do between.
    Idempotent,
    /// It writes its reply to the op log in its own transaction, and reads it first after an
    /// unknown commit.
    NeedsReplay,
}

/// A client of a volume. Clones are the same session. With the request that it works for, if that
/// matters.
#[derive(Debug, Clone)]
pub struct Session(pub(crate) Arc<Shared>, Option<Asked>);

/// What a session has.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) volume: Volume,
    pub(crate) id: u64,
    pub(crate) options: SessionOptions,
    /// Nobody else can use the store: what others would need to know is kept in memory.
    pub(crate) private: bool,
    pub(crate) native_atomics: bool,
    pub(crate) session_key: Key,
    pub(crate) epoch_key: Key,
    pub(crate) open: OpenFiles,
    /// The local home, where there is one.
    pub(crate) local: Option<Local>,
    /// New bytes go there.
    pub(crate) lends: bool,
    pub(crate) handles: Handles,
    pub(crate) times: times::AccessTimes,
    pub(crate) known: Known,
    pub(crate) places: Places,
    pub(crate) jobs_waiting: AtomicBool,
    /// When the heartbeat was last written, in nanoseconds of this session's clock.
    pub(crate) beaten: AtomicU64,
    /// Jobs of large writes that are under way.
    pub(crate) staging: Mutex<BTreeSet<u64>>,
    pub(crate) counts: Counts,
    observer: Mutex<Option<Arc<dyn Observer>>>,
    log_ops: bool,
    ended: AtomicBool,
    ops: Mutex<OpLog>,
    replies: asked::Replies,
    numbers: Numbers,
    peers: Peers,
}

/// What a session counts as it goes.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) collisions: AtomicU64,
    pub(crate) replays: AtomicU64,
    pub(crate) repaired_blocks: AtomicU64,
    pub(crate) reaped_sessions: AtomicU64,
    pub(crate) collected_inodes: AtomicU64,
    pub(crate) short_changes: AtomicU64,
}

/// Who keeps a copy of what a session told it, and wants to know when that is true no more. Told of
/// what the session does by itself, not of what its caller asked for.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// The attributes of an inode have changed.
    fn attributes_changed(&self, ino: Ino);
}

/// What a session has counted so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionCounts {
    /// Random numbers for inodes that were taken already.
    pub inode_collisions: u64,
    /// Replies that were read back from the op log.
    pub replays: u64,
    /// Damaged blocks that parity repaired.
    pub repaired_blocks: u64,
    /// Dead sessions that this one has removed.
    pub reaped_sessions: u64,
    /// Inodes that were removed after their last lease.
    pub collected_inodes: u64,
    /// Files and directories that are open.
    pub open_handles: u64,
    /// Changes that were committed the short way, without a transaction.
    pub short_changes: u64,
}

impl Session {
    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.0.volume
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Whether nobody else can use the store, so that what a client knows stays true until it changes
    /// it itself.
    pub fn is_private(&self) -> bool {
        self.0.private
    }

    /// Names the one who is told of changes; `None` for nobody.
    pub fn observe(&self, observer: Option<Arc<dyn Observer>>) {
        *self.0.observer.lock() = observer;
    }

    /// Tells whoever keeps a copy.
    pub(crate) fn attributes_changed(&self, ino: Ino) {
        let observer = self.0.observer.lock().clone();
        if let Some(observer) = observer {
            observer.attributes_changed(ino);
        }
    }

    /// Whether it was ended by others, or by itself.
    pub fn is_ended(&self) -> bool {
        self.0.ended.load(Ordering::Acquire)
    }

    /// What it has counted.
    pub fn counts(&self) -> SessionCounts {
        let counts = &self.0.counts;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SessionCounts {
            inode_collisions: read(&counts.collisions),
            replays: read(&counts.replays),
            repaired_blocks: read(&counts.repaired_blocks),
            reaped_sessions: read(&counts.reaped_sessions),
            collected_inodes: read(&counts.collected_inodes),
            open_handles: self.0.handles.count() as u64,
            short_changes: read(&counts.short_changes),
        }
    }

    /// Runs `body` on one snapshot. Nothing may be written.
    pub(crate) async fn view<T, F>(&self, body: impl Fn(Tx) -> F) -> Result<T>
    where
        F: Future<Output = Result<(Tx, T)>>,
    {
        self.0.check_alive()?;
        let (shared, body) = (&self.0, &body);
        let store = &shared.volume.world.store;
        loop {
            let settled = shared.local.as_ref().map(Local::settled);
            // What was read of a file that was settled meanwhile may be half of before and half of after.
            let is_whole = || shared.local.as_ref().map(Local::settled) == settled;
            // Mostly nobody commits meanwhile, and then there is nothing to hold on to and nothing to end.
            if let Some(txn) = store.look() {
                match body(Tx::view(shared, txn)).await {
                    Err(error) if error.passes() => {}
                    done if is_whole() => return done.map(|(_, value)| value),
                    _ => continue,
                }
            }
            let done = store
                .transact_send(Durability::Process, |txn, _| async move {
                    let (tx, value) = body(Tx::view(shared, txn)).await?;
                    Ok::<_, Error>((tx.abandon(), value))
                })
                .await?;
            if is_whole() {
                return Ok(done.value);
            }
        }
    }

    /// Runs `body` in a fenced transaction and commits it; again, from the start, after a conflict. When
    /// there is no space, what was removed and waits to be freed is freed first.
    pub(crate) async fn change<T: Reply, F>(
        &self,
        kind: OpKind,
        body: impl Fn(Tx) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<(Tx, T)>>,
    {
        match self.change_once(kind, &body).await {
            // Jobs, which make room, are idempotent: they do not wait for themselves.
            Err(error) if error.kind() == Kind::NoSpace && kind == OpKind::NeedsReplay => {
                match self.make_room().await {
                    Ok(()) => self.change_once(kind, &body).await,
                    Err(_) => Err(error),
                }
            }
            done => done,
        }
    }

    /// Frees what was removed. Boxed, as freeing is made of changes too.
    fn make_room(&self) -> Pin<Box<dyn Future<Output = Result<()>> + Send + '_>> {
        Box::pin(async move {
            self.collect_garbage().await?;
            self.run_jobs().await?;
            Ok(())
        })
    }

    async fn change_once<T: Reply, F>(&self, kind: OpKind, body: impl Fn(Tx) -> F) -> Result<T>
    where
        F: Future<Output = Result<(Tx, T)>>,
    {
        self.0.check_alive()?;
        let (shared, body) = (&self.0, &body);
        let logged = match (kind, self.1) {
            (OpKind::NeedsReplay, Some(asked)) => {
                if let Some(answered) = self.answered_before() {
                    return answered;
                }
                Some(LoggedOp { shared, place: Place::Slot(asked) })
            }
            (OpKind::NeedsReplay, None) if shared.log_ops => Some(LoggedOp::begin(shared)),
            _ => None,
        };
        let logged = logged.as_ref();
        let done = shared
            .volume
            .world
            .store
            .transact_send(Durability::Process, |txn, attempt| async move {
                let mut tx = Tx::fenced(shared, txn).await?;
                if attempt.maybe_committed
                    && let Some(logged) = logged
                    && let Some(value) = logged.replay::<T>(&mut tx).await?
                {
                    return Ok((tx.abandon(), (value, Ended::default(), 0)));
                }
                let (mut tx, value) = body(tx).await?;
                let cleared = match logged {
                    Some(logged) => logged.record(&mut tx, &value)?,
                    None => 0,
                };
                let (txn, ended) = tx.finish()?;
                Ok::<_, Error>((txn, (value, ended, cleared)))
            })
            .await?;
        let (value, ended, cleared) = done.value;
        if let Some(logged) = logged {
            logged.cleared(cleared);
        }
        for (ino, blob) in ended.retired {
            shared.give_back(ino, blob);
        }
        if shared.private && ended.epoch != 0 {
            shared.known.committed(done.version, ended.epoch, ended.now, &ended.effects);
        }
        drop(ended.doomed);
        Ok(value)
    }
}

/// One operation in the op log, live until it is dropped.
struct LoggedOp<'a> {
    shared: &'a Arc<Shared>,
    place: Place,
}

/// Where in the log.
#[derive(Clone, Copy)]
enum Place {
    /// Under a number of its own.
    Number(u64),
    /// Under the slot of its request.
    Slot(Asked),
}

impl<'a> LoggedOp<'a> {
    fn begin(shared: &'a Arc<Shared>) -> Self {
        Self { shared, place: Place::Number(shared.ops.lock().begin()) }
    }

    /// The reply of the try that did commit, if one did.
    async fn replay<T: Reply>(&self, tx: &mut Tx) -> Result<Option<T>> {
        let id = match self.place {
            Place::Number(id) => id,
            Place::Slot(asked) => return self.replay_asked(tx, asked).await,
        };
        let key = tx.keys.op(self.shared.id, id);
        let Some(record) = tx.get(&key, kv::Read::Serializable).await? else {
            return Ok(None);
        };
        match crate::reply::decode(&key, &record) {
            Some(value) => {
                self.shared.counts.replays.fetch_add(1, Ordering::Relaxed);
                Ok(Some(value))
            }
            None => Err(tx.damaged(&key, "is damaged")),
        }
    }

    /// Writes the reply, and removes those that nobody can ask for any more.
    fn record<T: Reply>(&self, tx: &mut Tx, value: &T) -> Result<u64> {
        let id = match self.place {
            Place::Number(id) => id,
            Place::Slot(asked) => return self.record_asked(tx, asked, value).map(|()| 0),
        };
        let key = tx.keys.op(self.shared.id, id);
        tx.put(&key, crate::reply::encode(&key, value))?;
        let due = self.shared.ops.lock().clearable();
        if due != 0 {
            let range = tx.keys.ops_below(self.shared.id, due);
            tx.delete_range(&range)?;
        }
        Ok(due)
    }

    fn cleared(&self, below: u64) {
        self.shared.ops.lock().cleared(below);
    }
}

impl Drop for LoggedOp<'_> {
    fn drop(&mut self) {
        if let Place::Number(id) = self.place {
            self.shared.ops.lock().end(id);
        }
    }
}

impl Shared {
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.ended.load(Ordering::Acquire) { Err(ended()) } else { Ok(()) }
    }

    /// Notes that the session is over, and gives the error to say so.
    pub(crate) fn end(&self) -> Error {
        if !self.ended.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                session = self.id,
                volume = self.volume.name(),
                "this session was ended by others: it was silent for too long"
            );
        }
        ended()
    }

    pub(crate) fn random_number(&self) -> u64 {
        // Numbers stay below 2^63, so that each has a successor; small ones are kept.
        (self.volume.world.random.next_u64() >> 1).max(1 << 32)
    }

    /// A number for a new inode, if one is at hand.
    pub(crate) fn reserve_now(&self) -> Option<u64> {
        if self.private { self.numbers.take_now() } else { None }
    }

    /// A number for a new inode or blob, when numbers are given out in sequence.
    pub(crate) async fn reserve(self: &Arc<Self>) -> Result<Option<u64>> {
        if !self.private {
            return Ok(None);
        }
        Ok(Some(self.numbers.take(self).await?))
    }
}

fn ended() -> Error {
    stale("this session was ended: mount the volume again")
}
