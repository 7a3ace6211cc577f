//! Settling: what the record of an inode says becomes true again, after the last handle of it is gone.

use super::pool::{Backed, UNTOUCHED};
use super::{Local, LocalFile, Moving, Registrar, failed};
use crate::blob;
use crate::error::{Kind, Result};
use crate::schema::{BackingRecord, Form, Inode, Part};
use crate::session::{Doomed, OpKind, Session, Shared};
use crate::tx::Tx;
use crate::types::{Handle, Ino};
use bytes::Bytes;
use home::Stat;
use kv::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Inodes that are looked at in one round.
const ROUND: usize = 256;
/// Bytes that one transaction takes inline.
const INLINE_BYTES: usize = 256 << 10;
/// Inodes that one transaction settles: a bit of a number for each.
const AT_ONCE: usize = 64;
/// How long a large file waits, so that many are made durable at once, and none that goes soon: as long as the host waits
/// to write what is not synced, which has done most of it by then.
const LARGE_AFTER: Duration = Duration::from_secs(30);
/// So many large files are made durable one by one; more all at once.
const ONE_BY_ONE: usize = 8;
/// How long a file that is mapped still waits to be looked at again.
const MAPPED_AFTER: Duration = Duration::from_secs(1);

/// What one round did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Inodes that were settled.
    pub settled: usize,
    /// Files of the home that can be used again, or are gone.
    pub recycled: usize,
    /// More is left to do, and can be done at once.
    pub more: bool,
}

/// How long is waited for more of what is settled together.
const TICK: Duration = Duration::from_millis(5);
/// How soon what has to wait is looked at again.
const WAITING: Duration = Duration::from_millis(250);
/// How long nobody takes a file, or changes anything, before more are made than are needed at once.
const QUIET: Duration = Duration::from_millis(20);
/// How long nothing is looked at when there is nothing.
const IDLE: Duration = Duration::from_secs(15);

/// How an inode is settled.
#[derive(Debug)]
enum How {
    /// Nothing was written: the record is right.
    Untouched,
    /// It goes inline.
    Inline(Bytes),
    /// It keeps its file.
    Keep,
}

/// An inode that is being settled: nobody opens it, and nobody looks for its bytes.
struct Settling<'a> {
    ino: Ino,
    closed: Duration,
    file: Arc<LocalFile>,
    stat: Stat,
    how: How,
    /// Where its bytes were written anew, and what is known of that file.
    anew: Option<(Arc<Backed>, Stat)>,
    _moving: Moving<'a>,
    _doomed: Doomed,
}

impl Shared {
    /// An inode is gone whose bytes were in a file of the home.
    pub(crate) fn give_back(&self, ino: Ino, blob: u64) {
        if let Some(local) = &self.local {
            // Where its bytes were just written anew, what is known here is the file from before.
            let file = local.remove(ino).filter(|file| file.backed.blob == blob);
            let backed = file.as_ref().map(|file| Arc::clone(&file.backed));
            drop(file);
            local.retire(blob, backed);
            local.work.tell();
        }
    }
}

impl Session {
    /// One round: settles what was closed, empties files that were given back, and makes new ones. With `all`
    /// also what could wait, and what somebody still has mapped.
    pub async fn settle(&self, all: bool) -> Result<Settled> {
        let Some(local) = self.0.local.as_ref().filter(|local| !local.home.is_read_only()) else {
            return Ok(Settled::default());
        };
        let mut done = Settled::default();
        // Before what takes long: who makes files waits for these. When there are too many open, this makes room.
        let refilled = self.refill(local).await;
        let now = all || local.is_pressed();
        let until = if now { Duration::MAX } else { self.now() };
        let closed = local.take_closed(ROUND, until);
        let full = closed.len() == ROUND;
        let mut settling = Vec::new();
        for (ino, at) in closed {
            match self.look_at(local, ino, at, all, now) {
                Ok(Some(one)) => settling.push(one),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, ino, "a closed file is looked at again later");
                    local.closed_again(ino, at, self.now() + MAPPED_AFTER);
                }
            }
        }
        let mut settling = self.write_anew(local, settling).await;
        let large: Vec<&LocalFile> = settling
            .iter()
            .filter(|one| matches!(one.how, How::Keep) && one.anew.is_none())
            .map(|one| &*one.file)
            .collect();
        let durable = make_durable(local, &large);
        self.note_suspects(local).await;
        if let Err(error) = durable {
            drop(large);
            for one in settling {
                local.closed_again(one.ino, one.closed, self.now() + WAITING);
            }
            return Err(error);
        }
        while !settling.is_empty() {
            let mut bytes = 0;
            let count = settling
                .iter()
                .take(AT_ONCE)
                .take_while(|one| {
                    bytes += if let How::Inline(data) = &one.how { data.len() } else { 0 };
                    bytes <= INLINE_BYTES
                })
                .count()
                .max(1);
            let rest = settling.split_off(count.min(settling.len()));
            let batch = std::mem::replace(&mut settling, rest);
            let batch_ref = &batch;
            let written = self
                .change(OpKind::Idempotent, |mut tx| async move {
                    let mut there: u64 = 0;
                    for (at, one) in batch_ref.iter().enumerate() {
                        there |= u64::from(write(&mut tx, one).await?) << at;
                    }
                    Ok((tx, there))
                })
                .await;
            let there = match written {
                Ok(there) => there,
                Err(error) => {
                    for one in batch.into_iter().chain(settling) {
                        local.closed_again(one.ino, one.closed, self.now() + WAITING);
                    }
                    return Err(error);
                }
            };
            done.settled += batch.len();
            for (at, one) in batch.into_iter().enumerate() {
                local.settled_as(one, there & (1 << at) != 0);
            }
        }
        let (_, retired) = local.pool.counts();
        if retired > 0 {
            done.recycled = self.recycle(local, ROUND * 4).await?;
        }
        self.sync_aged(local).await?;
        done.settled += self.make_whole(local).await;
        let made = refilled? | self.refill(local).await?;
        done.more = full || made;
        Ok(done)
    }

    /// Settles what is closed until the session ends: for a thread of its own.
    pub fn tend(&self) {
        let Some(local) = &self.0.local else {
            return;
        };
        let mut pause = IDLE;
        while !self.is_ended() {
            local.work.wait(pause);
            pause = match base::exec::block_on(self.settle(false)) {
                Ok(done) if done.more => Duration::ZERO,
                Ok(done) if done.settled + done.recycled > 0 => TICK,
                Ok(_) if local.pool.counts().1 > 0 => WAITING,
                // What waits for a time is not looked at before it.
                Ok(_) => match local.next_due() {
                    Some(due) => due.saturating_sub(self.now()).clamp(TICK, IDLE),
                    None => IDLE,
                },
                Err(error) if error.kind() == Kind::Stale => return,
                Err(error) => {
                    tracing::warn!(%error, "files could not be settled, which is tried again");
                    WAITING
                }
            };
            // Many that come in a row are settled together.
            if !pause.is_zero() && !self.is_ended() {
                base::exec::block_on(self.0.volume.world.clock.sleep(TICK));
            }
        }
    }

    /// Makes files for those who come until the session ends: for a thread of its own, as the one that settles
    /// may wait for a disk that writes a large file.
    pub fn keep_ready(&self) {
        let Some(local) = &self.0.local else {
            return;
        };
        while !self.is_ended() {
            let idle = local.wants_more_when_idle();
            let (taken, newest) = (local.pool.taken(), self.0.newest());
            local.short.wait(if idle { QUIET } else { IDLE });
            // Who makes small files takes none, and wants the disk and the CPU no less.
            let nobody = local.pool.taken() == taken && self.0.newest() == newest;
            let quiet = idle && nobody && !self.is_ended();
            let refilled = base::exec::block_on(async {
                if quiet {
                    self.refill_idle(local).await.inspect_err(|_| local.pool.keep_few())?;
                    return Ok(());
                }
                self.refill(local).await.map(drop)
            });
            match refilled {
                Ok(()) => {}
                Err(error) if error.kind() == Kind::Stale => return,
                // Who settles says so.
                Err(_) => base::exec::block_on(self.0.volume.world.clock.sleep(WAITING)),
            }
        }
    }

    /// Wakes who settles, to see that the session has ended.
    pub(crate) fn wake_tender(&self) {
        if let Some(local) = &self.0.local {
            local.work.tell();
            local.short.tell();
        }
    }

    /// Settles all that is closed, as before the end.
    pub(crate) async fn settle_all(&self) -> Result<()> {
        let Some(local) = &self.0.local else {
            return Ok(());
        };
        // What is open, or used, stays for the next session.
        for _ in 0..=local.unsettled() {
            match self.settle(true).await {
                Ok(done) if done.settled == 0 => break,
                Ok(_) => {}
                // It stays lent: the next session settles it when there is room.
                Err(error) if error.kind() == Kind::NoSpace => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The file that the kernel is to read and write by itself, as it knows it, for a handle.
    pub fn backing_id(&self, handle: Handle) -> Option<u32> {
        let file = self.0.handles.file(handle).ok()?;
        file.backed.as_ref()?.id()
    }

    /// Whether the kernel is to write to a handle past its cache.
    pub fn is_direct(&self, handle: Handle) -> bool {
        self.0.handles.file(handle).is_ok_and(|file| file.direct)
    }

    /// Names the one who makes files known to the kernel. Without one all are served by this process.
    pub fn set_registrar(&self, registrar: Option<Arc<dyn Registrar>>) {
        if let Some(local) = &self.0.local {
            local.pool.set_registrar(registrar);
            local.work.tell();
            local.short.tell();
        }
    }

    fn now(&self) -> Duration {
        self.0.volume.world.clock.now()
    }

    /// Writes the bytes of files anew that are suspect and keep them; those of which it cannot be done wait.
    async fn write_anew<'a>(
        &self,
        local: &Local,
        settling: Vec<Settling<'a>>,
    ) -> Vec<Settling<'a>> {
        let mut ready = Vec::with_capacity(settling.len());
        for mut one in settling {
            if matches!(one.how, How::Keep) && local.is_suspect(&one.file) {
                match self.renew(local, &one.file).await {
                    Ok(anew) => one.anew = Some(anew),
                    Err(error) => {
                        tracing::warn!(%error, ino = one.ino, "a suspect file is written anew later");
                        local.closed_again(one.ino, one.closed, self.now() + MAPPED_AFTER);
                        continue;
                    }
                }
            }
            ready.push(one);
        }
        ready
    }

    /// What is to be done about an inode that was closed; `None` when it has to wait, or is open again. With `all`
    /// also what is mapped; `now` for what could wait.
    fn look_at<'a>(
        &'a self,
        local: &'a Local,
        ino: Ino,
        closed: Duration,
        all: bool,
        now: bool,
    ) -> Result<Option<Settling<'a>>> {
        // Who has it open closes it later.
        let Some(doomed) = self.0.open.bar(ino) else {
            return Ok(None);
        };
        let Some(moving) = local.begin_move(ino) else {
            local.closed_again(ino, closed, self.now() + TICK);
            return Ok(None);
        };
        let file = local.table.lock().files.get(&ino).cloned();
        let Some(file) = file.filter(|file| file.is_lent()) else {
            return Ok(None);
        };
        let blob = file.backed.blob;
        let look = |error| failed("look at", blob, &error);
        // What was only ever open for writing is not mapped.
        let mapped =
            file.maps.load(Ordering::Acquire) && file.backed.file.is_in_use().map_err(look)?;
        // What somebody may write to cannot be written anew.
        let suspect = local.is_suspect(&file);
        if mapped && (!all || suspect) {
            local.closed_again(ino, closed, self.now() + MAPPED_AFTER);
            return Ok(None);
        }
        let stat = file.backed.file.stat().map_err(look)?;
        let max = u64::from(self.0.volume.record.inline_bytes_max);
        let how = if mapped {
            How::Keep
        } else if !file.own && stat.len == 0 && stat.changed.0 == UNTOUCHED.0 {
            How::Untouched
        } else if stat.len <= max {
            let bytes = file.backed.read(0, stat.len)?;
            if bytes.len() as u64 != stat.len {
                return Err(look(std::io::ErrorKind::UnexpectedEof.into()));
            }
            How::Inline(bytes)
        } else if !now && !suspect && self.now().saturating_sub(closed) < LARGE_AFTER {
            local.closed_again(ino, closed, closed + LARGE_AFTER);
            return Ok(None);
        } else {
            How::Keep
        };
        let anew = None;
        Ok(Some(Settling { ino, closed, file, stat, how, anew, _moving: moving, _doomed: doomed }))
    }
}

/// Makes large files durable before their records count on them.
fn make_durable(local: &Local, large: &[&LocalFile]) -> Result<()> {
    if large.len() > ONE_BY_ONE {
        local.sync_all()?;
        return large.iter().try_for_each(|file| local.check_sound(file));
    }
    large.iter().try_for_each(|file| local.sync_file(file, true))
}

/// Writes what the record is to say. False when there is none any more.
async fn write(tx: &mut Tx, one: &Settling<'_>) -> Result<bool> {
    let (ino, blob) = (one.ino, one.file.backed.blob);
    let inode = tx.find_inode(ino, Read::Serializable).await?;
    let Some(mut inode) = inode else {
        // It was removed, and gave its file back then.
        return Ok(false);
    };
    match &one.how {
        // Else it was cut to nothing, and its time set to that of a file that nobody has touched.
        How::Untouched if inode.size == 0 => {
            tx.put_backing(blob, BackingRecord::default())?;
            return Ok(true);
        }
        How::Untouched => {
            one.file.note(&mut inode, &one.stat);
            blob::put_inline(tx, &mut inode, &[]).await?;
            tx.put_backing(blob, BackingRecord::default())?;
        }
        How::Inline(bytes) => {
            one.file.note(&mut inode, &one.stat);
            // Its bytes stand under its own number, not under that of a file which is given back.
            if inode.form == Form::Local {
                tx.count_bytes(-(inode.taken as i64));
                (inode.form, inode.blob, inode.taken) = (Form::Inline, ino, 0);
            }
            blob::put_inline(tx, &mut inode, bytes).await?;
            tx.put_backing(blob, BackingRecord::default())?;
        }
        How::Keep => {
            one.file.note(&mut inode, &one.stat);
            if inode.form == Form::Inline {
                blob::put_inline(tx, &mut inode, &[]).await?;
            }
            let (kept, taken) = match &one.anew {
                Some((anew, stat)) => (anew.blob, stat.taken),
                None => (blob, one.stat.taken),
            };
            tx.count_bytes(taken as i64 - inode.taken as i64);
            (inode.form, inode.blob, inode.taken) = (Form::Local, kept, taken);
            tx.delete_backing(kept)?;
            if kept != blob {
                tx.put_backing(blob, BackingRecord::default())?;
            }
        }
    }
    tx.put_inode(ino, &inode, &[Part::Data])?;
    Ok(true)
}

impl Local {
    /// A file is given back. It can be used again at once when nobody will look at it for this inode any more,
    /// not even if power goes and takes with it the commit that gave it back: a loan does not count then,
    /// unless its bytes were made durable or the record names the file.
    fn take_back(&self, one: &Settling<'_>) {
        let (file, backed) = (&one.file, Arc::clone(&one.file.backed));
        let counts = file.own || file.synced.load(Ordering::Acquire);
        // Who looks at attributes just now has it too: what is read must be what was there.
        let shared = Arc::strong_count(file) > 1;
        let kept = self.pool.keepers.load(Ordering::Acquire) > 0;
        if counts || shared || kept || self.is_worn(&backed) || !self.has_room() {
            return self.retire(backed.blob, Some(backed));
        }
        if let How::Inline(_) = one.how {
            let emptied = backed.file.empty().and_then(|()| backed.file.set_changed(UNTOUCHED));
            if let Err(error) = emptied {
                tracing::warn!(%error, blob = backed.blob, "a file that was given back is tried again");
                return self.retire(backed.blob, Some(backed));
            }
        }
        self.pool.put(backed);
    }

    /// The record says what the file says: others may have the inode again.
    fn settled_as(&self, one: Settling<'_>, was_there: bool) {
        if one.anew.is_some() && was_there {
            let before = Arc::clone(&one.file.backed);
            self.retire(before.blob, Some(before));
            *one.file.anew.lock() = None;
        }
        // Who removed the inode meanwhile has given its file back. One that was written anew for it and that it did not
        // get stays noted as nobody's.
        let there = self.table.lock().files.get(&one.ino).cloned();
        if !there.is_some_and(|file| Arc::ptr_eq(&file, &one.file)) {
            return;
        }
        match one.how {
            How::Untouched | How::Inline(_) => {
                self.remove(one.ino);
                self.take_back(&one);
            }
            // It is opened again when somebody wants it.
            How::Keep if self.knows_enough() => drop(self.remove(one.ino)),
            How::Keep => {
                self.settled.fetch_add(1, Ordering::AcqRel);
                let (backed, stat) = match one.anew {
                    Some(anew) => anew,
                    None => (Arc::clone(&one.file.backed), one.stat),
                };
                self.insert(LocalFile::new(one.ino, backed, true, stat, false));
            }
        }
    }
}

/// An inode is being removed: its file, if it has one, is given back when that is committed.
pub(crate) async fn give_up(tx: &mut Tx, ino: Ino, inode: &Inode) -> Result<()> {
    let session = Arc::clone(&tx.session);
    let mut files = Vec::new();
    if inode.form == Form::Local {
        tx.count_bytes(-(inode.taken as i64));
        files.push(inode.blob);
    }
    let lent = session.local.as_ref().and_then(|local| local.blob_of(ino));
    if let Some(blob) = lent.filter(|blob| !files.contains(blob)) {
        // It may have been settled, and what is known of it not yet forgotten: the store says.
        let key = tx.keys.backing(blob);
        let record = tx.get(&key, Read::Serializable).await?;
        let record = record.and_then(|record| BackingRecord::decode(&key, &record));
        if record.is_some_and(|record| record.ino == ino) {
            files.push(blob);
        }
    }
    for blob in files {
        tx.put_backing(blob, BackingRecord::default())?;
        tx.retired.push((ino, blob));
    }
    Ok(())
}
