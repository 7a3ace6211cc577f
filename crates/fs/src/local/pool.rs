//! Files of the home that nobody's bytes are in: made, opened and made known to the kernel ahead, so that a
//! new file need not wait for any of that. Their numbers stand in the store before they are made.

use super::{Local, failed};
use crate::error::{Kind, Result};
use crate::schema::BackingRecord;
use crate::session::{OpKind, Session};
use base::sync::Mutex;
use home::{Backing, Place};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// When a file that nobody has written to has changed. Any change of it is seen by its time, of which only the
/// seconds count, as not every host keeps more.
pub(super) const UNTOUCHED: (i64, u32) = (1, 0);
/// Files that wait to be used, at most.
pub(crate) const READY_MAX: usize = 2048;
/// Below this many more are made at once.
const READY_LOW: usize = 128;
/// Those who make many files at a time will do it again: as many more as had to be made while they did are made when nobody
/// takes any, up to this many in all.
const READY_IDLE_MAX: usize = 1024;
/// How many of these are made before it is seen whether somebody comes.
const READY_STEP: usize = 16;
/// How long, and how often, is waited for files that are to be closed, when the host lets no more be open.
const OPEN_PAUSE: Duration = Duration::from_millis(10);
const OPEN_WAITS: u32 = 200;
/// Numbers that are noted at once, which is a synced commit: twice as many each time, up to a bound, so that who
/// makes many files does not wait for many.
const NUMBERS_FIRST: usize = 64;
const NUMBERS_MAX: usize = 1024;

/// Who makes files known to the kernel, so that it can use them by itself.
pub trait Registrar: Send + Sync + std::fmt::Debug {
    /// Makes the file of a blob known; `None` when the kernel does not take it.
    fn register(&self, blob: u64, file: BorrowedFd<'_>) -> Option<u32>;

    /// The kernel need not know it any more.
    fn unregister(&self, blob: u64, id: u32);

    /// The same for a file that a process before this one made known: the kernel would have it open for ever.
    fn disown(&self, _blob: u64) {}
}

/// An open file of the home, and what the kernel knows it by.
#[derive(Debug)]
pub(crate) struct Backed {
    pub(crate) blob: u64,
    pub(crate) file: Arc<dyn Backing>,
    known: Mutex<Option<(u32, Arc<dyn Registrar>)>>,
    /// A sync of it failed.
    pub(super) suspect: AtomicBool,
    /// How often names were forgotten before it was there.
    pub(super) since: u64,
    /// Held by who makes it durable.
    pub(super) turn: Mutex<()>,
}

impl Backed {
    fn new(blob: u64, file: Arc<dyn Backing>, since: u64) -> Arc<Self> {
        let (known, turn, suspect) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Arc::new(Self { blob, file, known, suspect, since, turn })
    }

    /// What the kernel knows it by, if it does.
    pub(crate) fn id(&self) -> Option<u32> {
        self.known.lock().as_ref().map(|(id, _)| *id)
    }

    /// Makes it known to the kernel. False when that cannot be.
    pub(crate) fn make_known(&self, to: &Arc<dyn Registrar>) -> bool {
        let mut known = self.known.lock();
        if known.is_none()
            && let Some(file) = self.file.descriptor()
            && let Some(id) = to.register(self.blob, file)
        {
            *known = Some((id, Arc::clone(to)));
        }
        known.is_some()
    }

    /// Runs something on the file; its error says which file it is.
    pub(crate) fn file_error<T>(&self, run: impl FnOnce() -> std::io::Result<T>) -> Result<T> {
        run().map_err(|error| failed("look at", self.blob, &error))
    }
}

impl Drop for Backed {
    fn drop(&mut self) {
        if let Some((id, registrar)) = self.known.lock().take() {
            registrar.unregister(self.blob, id);
        }
    }
}

/// What waits to be used.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
    registrar: Mutex<Option<Arc<dyn Registrar>>>,
    has_registrar: AtomicBool,
    ready: AtomicUsize,
    /// Counts those that were taken.
    taken: AtomicUsize,
    /// Somebody found too few.
    pub(crate) low: AtomicBool,
    /// Those for whom files that were given back stay as they are.
    pub(super) keepers: AtomicUsize,
    /// Counts when names may have been forgotten by the host: what was there before is not used again.
    pub(super) forgotten: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    ready: Vec<Arc<Backed>>,
    /// Numbers that are noted, without a file as far as is known.
    numbers: VecDeque<u64>,
    /// How many were noted the last time.
    noted: usize,
    /// How many are to be ready while nobody takes any.
    idle: usize,
    /// Files that were given back, and are not empty yet. The commit that did it may not be durable.
    retired: VecDeque<Retired>,
}

/// A file that was given back.
#[derive(Debug)]
pub(crate) struct Retired {
    pub(crate) blob: u64,
    /// Open, where it was.
    pub(crate) backed: Option<Arc<Backed>>,
}

impl Pool {
    /// Who makes files known from now on.
    pub(crate) fn set_registrar(&self, registrar: Option<Arc<dyn Registrar>>) {
        self.has_registrar.store(registrar.is_some(), Ordering::Release);
        *self.registrar.lock() = registrar;
        self.low.store(true, Ordering::Release);
    }

    /// Whether the kernel can use files by itself.
    pub(crate) fn is_known_to_kernel(&self) -> bool {
        self.has_registrar.load(Ordering::Acquire)
    }

    pub(crate) fn registrar(&self) -> Option<Arc<dyn Registrar>> {
        self.registrar.lock().clone()
    }

    /// How many wait to be used, and how many were given back.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.ready.len(), state.retired.len())
    }

    /// Another number that is noted.
    pub(crate) fn add_number(&self, blob: u64) {
        self.state.lock().numbers.push_back(blob);
    }

    /// A file that is empty.
    pub(crate) fn put(&self, backed: Arc<Backed>) {
        self.state.lock().ready.push(backed);
        self.ready.fetch_add(1, Ordering::AcqRel);
    }

    /// A file, if one is ready.
    pub(crate) fn take_ready(&self) -> Option<Arc<Backed>> {
        let mut state = self.state.lock();
        let taken = state.ready.pop();
        if state.ready.len() < READY_LOW {
            self.low.store(true, Ordering::Release);
        }
        match taken {
            Some(_) => {
                self.ready.fetch_sub(1, Ordering::AcqRel);
                self.taken.fetch_add(1, Ordering::AcqRel);
            }
            None => state.idle = (state.idle + 1).min(READY_IDLE_MAX),
        }
        taken
    }

    /// So many had to be made for those who came.
    fn were_missing(&self, count: usize) {
        let mut state = self.state.lock();
        state.idle = (state.idle + count).min(READY_IDLE_MAX);
    }

    /// No more are made than are needed: that failed.
    pub(super) fn keep_few(&self) {
        self.state.lock().idle = 0;
    }

    /// How many were taken so far.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Whether more are to be ready than there are, while nobody takes any.
    pub(super) fn is_short_when_idle(&self) -> bool {
        let state = self.state.lock();
        state.ready.len() < state.idle
    }

    /// A file is given back.
    pub(crate) fn retire(&self, blob: u64, backed: Option<Arc<Backed>>) {
        self.state.lock().retired.push_back(Retired { blob, backed });
    }

    fn take_retired(&self, most: usize) -> Vec<Retired> {
        let mut state = self.state.lock();
        let count = state.retired.len().min(most);
        state.retired.drain(..count).collect()
    }

    fn has_room(&self) -> bool {
        self.state.lock().ready.len() < READY_MAX
    }

    /// All that are ready, which are not any more.
    pub(super) fn take_all_ready(&self) -> Vec<Arc<Backed>> {
        let ready = std::mem::take(&mut self.state.lock().ready);
        self.ready.fetch_sub(ready.len(), Ordering::AcqRel);
        self.low.store(true, Ordering::Release);
        ready
    }

    /// Drops all that is open.
    pub(crate) fn forget(&self) {
        *self.state.lock() = State::default();
        *self.registrar.lock() = None;
    }
}

impl Local {
    /// Whether more files are to wait to be used.
    pub(super) fn has_room(&self) -> bool {
        self.pool.has_room() && !self.is_crowded()
    }

    /// An open file of the home.
    pub(super) fn backed(&self, blob: u64, file: Arc<dyn Backing>) -> Arc<Backed> {
        Backed::new(blob, file, self.pool.forgotten.load(Ordering::Acquire))
    }

    fn make(&self, blob: u64) -> Result<Arc<Backed>> {
        let since = self.pool.forgotten.load(Ordering::Acquire);
        let made = self.home.make(self.place(blob));
        let file = made.map_err(|error| failed("make", blob, &error))?;
        // Any change of it will be seen by its time.
        file.set_changed(UNTOUCHED).map_err(|error| failed("set the time of", blob, &error))?;
        let backed = Backed::new(blob, file, since);
        if let Some(registrar) = self.pool.registrar() {
            backed.make_known(&registrar);
        }
        Ok(backed)
    }
}

impl Local {
    /// An empty file of the home, if that takes no time to speak of.
    pub(super) fn take_quickly(&self) -> Option<Arc<Backed>> {
        let ready = self.pool.take_ready();
        if self.pool.low.load(Ordering::Acquire) {
            self.short.tell();
        }
        if ready.is_some() || self.is_crowded() {
            return ready;
        }
        let blob = self.pool.state.lock().numbers.pop_front()?;
        match self.make(blob) {
            Ok(made) => Some(made),
            Err(error) => {
                tracing::warn!(%error, "a new file is served by this process");
                self.pool.add_number(blob);
                None
            }
        }
    }
}

impl Session {
    /// An empty file of the home.
    pub(crate) async fn take_backing(&self, local: &Local) -> Result<Arc<Backed>> {
        let mut waits = OPEN_WAITS;
        loop {
            if let Some(ready) = local.pool.take_ready() {
                return Ok(ready);
            }
            let number = local.pool.state.lock().numbers.pop_front();
            match number {
                Some(blob) => {
                    let made = local.make(blob);
                    if made.is_err() {
                        local.pool.add_number(blob);
                    }
                    // Those that are closed and wait to be settled, or to be used again, will be open no more.
                    let too_many =
                        made.as_ref().is_err_and(|error| error.kind() == Kind::TooManyOpen);
                    let any = local.unsettled() > 0 || local.pool.counts().1 > 0;
                    if !too_many || !any || waits == 0 {
                        return made;
                    }
                    waits -= 1;
                    local.work.tell();
                    self.0.volume.world.clock.sleep(OPEN_PAUSE).await;
                }
                None => self.note_numbers(local).await?,
            }
        }
    }

    /// An empty file of the home that was made now.
    pub(super) async fn take_new(&self, local: &Local) -> Result<Arc<Backed>> {
        loop {
            let number = local.pool.state.lock().numbers.pop_front();
            match number {
                Some(blob) => {
                    return local.make(blob).inspect_err(|_| local.pool.add_number(blob));
                }
                None => self.note_numbers(local).await?,
            }
        }
    }

    /// Notes more numbers in the store. Durably: after the loss of power there must be no file that nobody
    /// knows of.
    async fn note_numbers(&self, local: &Local) -> Result<()> {
        let count = {
            let mut state = local.pool.state.lock();
            state.noted = (2 * state.noted).clamp(NUMBERS_FIRST, NUMBERS_MAX);
            state.noted
        };
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            if let Some(number) = self.0.reserve().await? {
                numbers.push(number);
            }
        }
        let numbers_ref = &numbers;
        self.change(OpKind::Idempotent, |mut tx| async move {
            for number in numbers_ref {
                tx.put_backing(*number, BackingRecord::default())?;
            }
            Ok((tx, ()))
        })
        .await?;
        self.sync_store().await?;
        local.pool.state.lock().numbers.extend(numbers);
        Ok(())
    }

    /// Makes files until there are enough. Returns whether something was made.
    pub(crate) async fn refill(&self, local: &Local) -> Result<bool> {
        if !local.pool.low.swap(false, Ordering::AcqRel) {
            return Ok(false);
        }
        let made = self.make_ready(local, READY_LOW).await?;
        local.pool.were_missing(made);
        Ok(made > 0)
    }

    /// Makes a few more while nobody takes any.
    pub(super) async fn refill_idle(&self, local: &Local) -> Result<usize> {
        let ready = local.pool.ready.load(Ordering::Acquire);
        self.make_ready(local, ready + READY_STEP).await
    }

    async fn make_ready(&self, local: &Local, enough: usize) -> Result<usize> {
        let mut made = 0;
        if !self.0.lends || !local.pool.is_known_to_kernel() {
            return Ok(made);
        }
        while local.pool.ready.load(Ordering::Acquire) < enough && !local.is_crowded() {
            let number = local.pool.state.lock().numbers.pop_front();
            match number {
                Some(blob) => match local.make(blob) {
                    Ok(backed) => {
                        local.pool.put(backed);
                        made += 1;
                    }
                    Err(error) => {
                        local.pool.add_number(blob);
                        return Err(error);
                    }
                },
                None => self.note_numbers(local).await?,
            }
        }
        Ok(made)
    }

    /// Empties the files that were given back, for those who come, or removes them when there are enough.
    /// What gave them back is durable afterwards. Returns how many there were.
    pub(crate) async fn recycle(&self, local: &Local, most: usize) -> Result<usize> {
        if local.pool.keepers.load(Ordering::Acquire) > 0 {
            return Ok(0);
        }
        let retired = local.pool.take_retired(most);
        if retired.is_empty() {
            return Ok(0);
        }
        if let Err(error) = self.sync_store().await {
            for one in retired {
                local.retire(one.blob, one.backed);
            }
            return Err(error);
        }
        let (mut removed, mut done) = (Vec::new(), 0);
        for Retired { blob, backed } in retired {
            match self.recycle_one(local, blob, backed) {
                Ok(Recycled::InUse(backed)) => local.retire(blob, Some(backed)),
                Ok(Recycled::Kept) => done += 1,
                Ok(Recycled::Removed) => {
                    done += 1;
                    removed.push(blob);
                }
                Err(error) => {
                    tracing::warn!(%error, "a file that was given back is tried again");
                    local.retire(blob, None);
                }
            }
        }
        if !removed.is_empty() {
            let places: Vec<Place> = removed.iter().map(|blob| local.place(*blob)).collect();
            // Whoever finds one of them after the loss of power must know what it is.
            if let Err(error) = local.home.sync_names(&places) {
                removed.into_iter().for_each(|blob| local.pool.add_number(blob));
                local.names_failed();
                return Err(failed("remove some", 0, &error));
            }
            let removed_ref = &removed;
            self.change(OpKind::Idempotent, |mut tx| async move {
                tx.frees_space();
                for blob in removed_ref {
                    tx.delete_backing(*blob)?;
                }
                Ok((tx, ()))
            })
            .await?;
        }
        Ok(done)
    }

    fn recycle_one(
        &self,
        local: &Local,
        blob: u64,
        backed: Option<Arc<Backed>>,
    ) -> Result<Recycled> {
        let backed = match backed {
            Some(backed) => backed,
            None => match local.home.open(local.place(blob)) {
                Ok(file) => local.backed(blob, file),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    local.pool.add_number(blob);
                    return Ok(Recycled::Kept);
                }
                Err(error) => return Err(failed("open", blob, &error)),
            },
        };
        let in_use = Arc::strong_count(&backed) > 1
            || backed.file.is_in_use().map_err(|error| failed("look at", blob, &error))?;
        if in_use {
            if backed.id().is_none()
                && let Some(registrar) = local.pool.registrar()
            {
                // Then it is nobody's at the next look, unless somebody has it mapped.
                registrar.disown(blob);
            }
            return Ok(Recycled::InUse(backed));
        }
        if !local.has_room() {
            let gone = local.home.remove(local.place(blob));
            gone.map_err(|error| failed("remove", blob, &error))?;
            return Ok(Recycled::Removed);
        }
        if local.is_worn(&backed) {
            local.scrap(blob)?;
            return Ok(Recycled::Kept);
        }
        let emptied = backed.file.empty().and_then(|()| backed.file.set_changed(UNTOUCHED));
        emptied.map_err(|error| failed("empty", blob, &error))?;
        if let Some(registrar) = local.pool.registrar() {
            backed.make_known(&registrar);
        }
        local.pool.put(backed);
        Ok(Recycled::Kept)
    }
}

/// What became of a file that was given back.
enum Recycled {
    /// Somebody still uses it.
    InUse(Arc<Backed>),
    /// It waits to be used again.
    Kept,
    /// It is gone.
    Removed,
}
