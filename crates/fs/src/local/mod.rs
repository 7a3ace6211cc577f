//! Files of the local home: whole files, which the kernel can read, write and map by itself.
//!
//! A file of the home is *lent* to an inode while its bytes may change without the inode's record: size and
//! times are then those of the file. When nobody has the inode open any more it is *settled*: a small file
//! goes inline and gives its file back, a large one keeps it, and the record says so. Which files are lent
//! stands in the store, so that whoever comes after a crash knows which to look at.

mod bytes;
mod habit;
mod lend;
mod pool;
mod reading;
mod recover;
mod settle;
mod suspect;
mod whole;

pub(crate) use lend::{Loan, Seen};
pub use pool::Registrar;
pub(crate) use pool::{Backed, Pool};
pub(crate) use reading::Kept;
pub use settle::Settled;
pub(crate) use settle::give_up;

use crate::access;
use crate::error::{Error, Kind, Result};
use crate::schema::{Form, Inode};
use crate::session::Shared;
use crate::types::{Attr, Ino, Time};
use base::sync::{Condvar, Mutex};
use habit::Habits;
use home::{Home, Place, Stat};
use pool::UNTOUCHED;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Files that stay open here after their last handle, for the next one, where the host lets them.
const KNOWN_MAX: usize = 8192;
/// Of the files that the host lets this process have open, this part.
const KNOWN_PART: usize = 4;
/// The same, of all of them: more are not open if they need not be.
const CROWD_PART: usize = 2;
/// How often files are looked for that are lent and not durable: they are made so when they were at the last look.
const AGED_AFTER: Duration = Duration::from_secs(15);
/// How far the host's clock for files may lag behind the one that records are written with.
const LAG: Duration = Duration::from_millis(20);

/// What a session has of the local home.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) home: Arc<dyn Home>,
    pub(crate) volume: u16,
    pub(crate) pool: Pool,
    /// What new files are likely to become.
    pub(crate) habits: Habits,
    table: Mutex<Table>,
    /// How many files stay open that nobody has open.
    known_max: usize,
    /// More files are not to be open.
    crowd: usize,
    /// How many files the table has: most who ask need not look.
    count: AtomicUsize,
    /// Counts what was settled: whoever read a record before, and looks for its file after, reads again.
    settled: AtomicU64,
    /// There is something to do.
    work: Work,
    /// There are too few files that wait to be used.
    short: Work,
    aging: Mutex<Aging>,
    /// Inodes in blocks that were opened, and become whole files when nobody has them open.
    in_blocks: Mutex<BTreeSet<Ino>>,
    any_in_blocks: AtomicBool,
    /// Some file that is lent became suspect, and that is not noted yet.
    unnoted: AtomicBool,
}

/// Files that are lent and not durable, as they were when somebody last looked.
#[derive(Debug, Default)]
struct Aging {
    looked: Duration,
    blobs: BTreeSet<u64>,
}

/// Tells who settles that there is something to settle.
#[derive(Debug, Default)]
struct Work {
    waiting: AtomicBool,
    /// Whether somebody sleeps until there is.
    asleep: Mutex<bool>,
    woken: Condvar,
}

impl Work {
    fn tell(&self) {
        if !self.waiting.swap(true, Ordering::AcqRel) && *self.asleep.lock() {
            self.woken.notify_all();
        }
    }

    /// Waits until there is something, or so long.
    fn wait(&self, most: Duration) {
        let mut asleep = self.asleep.lock();
        if !self.waiting.load(Ordering::Acquire) {
            *asleep = true;
            asleep = self.woken.wait_for(asleep, most);
        }
        *asleep = false;
        self.waiting.store(false, Ordering::Release);
    }
}

#[derive(Debug, Default)]
struct Table {
    files: BTreeMap<Ino, Arc<LocalFile>>,
    /// Inodes whose bytes are being moved: whoever wants them waits.
    moving: BTreeSet<Ino>,
    /// Inodes that were closed, with when, and are to be settled.
    closing: VecDeque<(Ino, Duration)>,
    /// Those that are not to be looked at before a time, by that time, with when they were closed.
    later: BTreeMap<(Duration, Ino), Duration>,
    queued: BTreeSet<Ino>,
    known: usize,
}

/// The file in which an inode's bytes are.
#[derive(Debug)]
pub(crate) struct LocalFile {
    pub(crate) ino: Ino,
    pub(crate) backed: Arc<Backed>,
    /// The inode's record names this file.
    pub(crate) own: bool,
    /// The file when it was lent.
    base: Stat,
    /// What is known of the inode is what is known of the file.
    lent: AtomicBool,
    /// After the loss of power its bytes count.
    pub(crate) synced: AtomicBool,
    /// Somebody may have it mapped: the kernel was given it for reading.
    maps: AtomicBool,
    /// Somebody may write to it by a mapping, of which the kernel says nothing: it was given it for reading and
    /// writing at once, or may have been before this process.
    maps_to_write: AtomicBool,
    /// Operations that are under way.
    users: AtomicUsize,
    /// When it had last changed when its set-user or set-group bit was looked at: the kernel, which writes by
    /// itself, does not take them.
    privileged: Mutex<Option<(i64, u32)>>,
    /// Held by who writes to its end.
    pub(crate) end: Mutex<()>,
    /// The file that its bytes are written to anew, when this one is suspect.
    anew: Mutex<Option<Arc<Backed>>>,
    /// The store says that it is suspect.
    noted: AtomicBool,
}

/// A file in use: it is not settled before this is dropped.
#[derive(Debug)]
pub(crate) struct Using(Arc<LocalFile>);

impl std::ops::Deref for Using {
    type Target = LocalFile;

    fn deref(&self) -> &LocalFile {
        &self.0
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What there is of an inode.
#[derive(Debug)]
pub(crate) enum Entered {
    /// No file.
    Absent,
    /// Its bytes are being moved: ask again.
    Moving,
    /// This file.
    Found(Using),
}

/// An inode whose bytes are being moved, until this is dropped.
#[derive(Debug)]
pub(crate) struct Moving<'a> {
    local: &'a Local,
    ino: Ino,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.local.table.lock().moving.remove(&self.ino);
        self.local.count.fetch_sub(1, Ordering::AcqRel);
    }
}

impl LocalFile {
    fn new(ino: Ino, backed: Arc<Backed>, own: bool, base: Stat, lent: bool) -> Self {
        Self {
            ino,
            backed,
            own,
            base,
            lent: AtomicBool::new(lent),
            synced: AtomicBool::new(false),
            maps: AtomicBool::new(true),
            maps_to_write: AtomicBool::new(true),
            users: AtomicUsize::new(0),
            privileged: Mutex::default(),
            end: Mutex::default(),
            anew: Mutex::default(),
            noted: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_lent(&self) -> bool {
        self.lent.load(Ordering::Acquire)
    }

    fn is_touched(&self, now: &Stat) -> bool {
        let base = self.base;
        let changed = match base.changed {
            UNTOUCHED => now.changed.0 != UNTOUCHED.0,
            before => now.changed != before,
        };
        changed || base.len != now.len
    }

    /// Whoever writes to it from now on takes its set-user and set-group bits.
    pub(crate) fn guard_bits(&self) -> io::Result<()> {
        let stat = self.backed.file.stat()?;
        *self.privileged.lock() = Some(stat.changed);
        Ok(())
    }

    /// Whoever writes does it through this process.
    fn unguard_bits(&self) {
        *self.privileged.lock() = None;
    }

    /// What the record is to say of a file that is as `stat` says.
    fn note(&self, inode: &mut Inode, stat: &Stat) {
        inode.size = stat.len;
        let guarded = *self.privileged.lock();
        if guarded.is_some_and(|then| then != stat.changed) {
            access::take_bits(inode);
        }
        if self.is_touched(stat) {
            let changed = not_before(time(stat.changed), inode.mtime);
            inode.mtime = changed;
            // A caller may have set the other time to any, in the future too.
            inode.ctime = inode.ctime.max(time(stat.status_changed));
        }
    }

    /// What is to be said of an inode whose bytes are here. With at most `inline_max` bytes they will soon be
    /// elsewhere, and take other room.
    fn show(&self, inode: &Inode, attr: &mut Attr, inline_max: u64) -> io::Result<()> {
        let stat = self.backed.file.stat()?;
        let mut now = Inode { target: Default::default(), ..inode.clone() };
        self.note(&mut now, &stat);
        attr.size = now.size;
        attr.blocks = stat.taken / 512;
        attr.mode = now.mode;
        (attr.mtime, attr.ctime) = (now.mtime, now.ctime);
        // The kernel knows of what it writes by itself, but not that a mapping is written to or that bits go.
        attr.live = self.maps_to_write.load(Ordering::Acquire)
            || self.privileged.lock().is_some()
            || stat.len <= inline_max;
        Ok(())
    }
}

/// The host's clock for files ticks slowly: what is changed just after something else must not look older.
fn not_before(changed: Time, known: Time) -> Time {
    let nanos = |time: Time| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
    let behind = nanos(known) - nanos(changed);
    if behind > 0 && behind < LAG.as_nanos() as i128 { known } else { changed }
}

fn time((secs, nanos): (i64, u32)) -> Time {
    Time { secs, nanos }
}

/// An error of the home, with what was tried.
pub(crate) fn failed(what: &str, blob: u64, error: &io::Error) -> Error {
    // Numbers of Linux, as the host gives them.
    let kind = match error.raw_os_error() {
        Some(28 | 122) => Kind::NoSpace,
        Some(27) => Kind::FileTooBig,
        Some(30) => Kind::ReadOnly,
        Some(24 | 23) => Kind::TooManyOpen,
        Some(22) => Kind::Invalid,
        Some(95) => Kind::Unsupported,
        Some(6) => Kind::NoDevice,
        _ if error.kind() == io::ErrorKind::StorageFull => Kind::NoSpace,
        _ if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Kind::ReadOnly,
        _ => Kind::Io,
    };
    if kind == Kind::Io {
        tracing::error!(blob, %error, "a file of the local home failed: {what}");
    }
    Error::new(kind, format!("cannot {what} file {blob} of the local home: {error}"))
}

impl Local {
    pub(crate) fn new(home: Arc<dyn Home>, volume: u16) -> Self {
        let open_max = home.open_max();
        let known_max = (open_max / KNOWN_PART).min(KNOWN_MAX);
        Self {
            home,
            volume,
            known_max,
            crowd: open_max / CROWD_PART,
            pool: Pool::default(),
            habits: Habits::default(),
            table: Mutex::default(),
            count: AtomicUsize::new(0),
            settled: AtomicU64::new(0),
            work: Work::default(),
            short: Work::default(),
            aging: Mutex::default(),
            in_blocks: Mutex::default(),
            any_in_blocks: AtomicBool::new(false),
            unnoted: AtomicBool::new(false),
        }
    }

    pub(crate) fn place(&self, blob: u64) -> Place {
        Place { volume: self.volume, blob }
    }

    /// Which settling was the last.
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Acquire)
    }

    /// The file of an inode, kept from being settled.
    pub(crate) fn enter(&self, ino: Ino) -> Entered {
        if self.count.load(Ordering::Acquire) == 0 {
            return Entered::Absent;
        }
        let table = self.table.lock();
        if table.moving.contains(&ino) {
            return Entered::Moving;
        }
        match table.files.get(&ino) {
            Some(file) => {
                file.users.fetch_add(1, Ordering::AcqRel);
                Entered::Found(Using(Arc::clone(file)))
            }
            None => Entered::Absent,
        }
    }

    /// Whether an inode's bytes are lent, or on their way.
    pub(crate) fn is_away(&self, ino: Ino) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let table = self.table.lock();
        table.moving.contains(&ino) || table.files.get(&ino).is_some_and(|file| file.is_lent())
    }

    /// Begins to move an inode's bytes; `None` when somebody does already, or uses its file.
    pub(crate) fn begin_move(&self, ino: Ino) -> Option<Moving<'_>> {
        // Counted first, so that nobody looks away.
        self.count.fetch_add(1, Ordering::AcqRel);
        let mut table = self.table.lock();
        let used = table.files.get(&ino).is_some_and(|file| file.users.load(Ordering::Acquire) > 0);
        let begun = !used && table.moving.insert(ino);
        drop(table);
        if !begun {
            self.count.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(Moving { local: self, ino })
    }

    /// The inode's bytes are in this file.
    pub(crate) fn insert(&self, file: LocalFile) -> Arc<LocalFile> {
        let file = Arc::new(file);
        let mut table = self.table.lock();
        if !file.is_lent() {
            table.known += 1;
        }
        match table.files.insert(file.ino, Arc::clone(&file)) {
            Some(before) if !before.is_lent() => table.known = table.known.saturating_sub(1),
            Some(_) => {}
            None => {
                self.count.fetch_add(1, Ordering::AcqRel);
            }
        }
        file
    }

    /// They are not, any more.
    pub(crate) fn remove(&self, ino: Ino) -> Option<Arc<LocalFile>> {
        self.settled.fetch_add(1, Ordering::AcqRel);
        let mut table = self.table.lock();
        let removed = table.files.remove(&ino)?;
        if !removed.is_lent() {
            table.known = table.known.saturating_sub(1);
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
        Some(removed)
    }

    /// The file that an inode is lent.
    pub(crate) fn lent_blob(&self, ino: Ino) -> Option<u64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let table = self.table.lock();
        table.files.get(&ino).filter(|file| file.is_lent()).map(|file| file.backed.blob)
    }

    /// All that are lent.
    pub(crate) fn all_lent(&self) -> Vec<Arc<LocalFile>> {
        let table = self.table.lock();
        table.files.values().filter(|file| file.is_lent()).cloned().collect()
    }

    /// Whether any is open here.
    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Those that were lent and not durable at the last look, and still are. There is one now and then.
    fn take_aged(&self, now: Duration) -> Vec<Arc<LocalFile>> {
        let mut aging = self.aging.lock();
        if now.saturating_sub(aging.looked) < AGED_AFTER {
            return Vec::new();
        }
        aging.looked = now;
        let unsynced = self.all_lent().into_iter();
        let unsynced = unsynced.filter(|file| {
            !file.own && !file.synced.load(Ordering::Acquire) && !self.is_suspect(file)
        });
        let (aged, young): (Vec<_>, Vec<_>) =
            unsynced.partition(|file| aging.blobs.contains(&file.backed.blob));
        aging.blobs = young.iter().map(|file| file.backed.blob).collect();
        aged
    }

    /// The file that an inode may have been lent.
    pub(crate) fn blob_of(&self, ino: Ino) -> Option<u64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.table.lock().files.get(&ino).map(|file| file.backed.blob)
    }

    /// The last handle of an inode is gone, at a time.
    pub(crate) fn closed(&self, ino: Ino, at: Duration) {
        if self.is_in_blocks(ino) {
            self.work.tell();
        }
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut table = self.table.lock();
        let Some(file) = table.files.get(&ino) else {
            return;
        };
        if file.is_lent() {
            // What waits for a time already need not be looked at for this.
            if table.queued.insert(ino) {
                table.closing.push_back((ino, at));
                drop(table);
                self.work.tell();
            }
        } else if table.known > self.known_max {
            table.files.remove(&ino);
            table.known = table.known.saturating_sub(1);
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Looked at again, from a time on.
    fn closed_again(&self, ino: Ino, at: Duration, due: Duration) {
        let mut table = self.table.lock();
        if table.queued.insert(ino) {
            table.later.insert((due, ino), at);
        }
    }

    /// When the first of those is due that wait for a time.
    fn next_due(&self) -> Option<Duration> {
        self.table.lock().later.keys().next().map(|(due, _)| *due)
    }

    /// Some that were closed, oldest first; of those that wait what is due by `now`.
    fn take_closed(&self, most: usize, now: Duration) -> Vec<(Ino, Duration)> {
        let mut table = self.table.lock();
        while table.closing.len() < most
            && let Some(first) = table.later.first_entry()
            && first.key().0 <= now
        {
            let ((_, ino), at) = first.remove_entry();
            table.closing.push_back((ino, at));
        }
        let count = table.closing.len().min(most);
        let taken: Vec<_> = table.closing.drain(..count).collect();
        for (ino, _) in &taken {
            table.queued.remove(ino);
        }
        taken
    }

    /// Whether as many files are open that nobody has open as may be.
    fn knows_enough(&self) -> bool {
        self.table.lock().known >= self.known_max
    }

    /// Whether so many were closed and wait that the host may run out of files that can be open.
    fn is_pressed(&self) -> bool {
        self.unsettled() > self.known_max || self.is_crowded()
    }

    /// Whether so many files are open that those are not, or not any more, that need not be: what is left is for who
    /// cannot do without.
    pub(super) fn is_crowded(&self) -> bool {
        self.home.open_count() > self.crowd
    }

    /// A file is given back. It stays open, so that it is soon ready again, unless too many are.
    pub(super) fn retire(&self, blob: u64, backed: Option<Arc<Backed>>) {
        let backed = backed.filter(|backed| {
            // What else is known of it must not be lost.
            !self.is_crowded() || Arc::strong_count(backed) > 1 || self.is_worn(backed)
        });
        self.pool.retire(blob, backed);
    }

    /// Whether more files are to be ready while nobody takes any, and the host lets them be open.
    fn wants_more_when_idle(&self) -> bool {
        !self.is_crowded()
            && self.pool.is_short_when_idle()
            && self.pool.counts().0 < self.known_max / KNOWN_PART
    }

    /// How many were closed and are not settled.
    pub(crate) fn unsettled(&self) -> usize {
        let table = self.table.lock();
        table.closing.len() + table.later.len()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.pool.forget();
    }
}

impl Shared {
    /// Corrects what a record says of an inode whose bytes are lent.
    pub(crate) fn show_lent(&self, ino: Ino, inode: &Inode, attr: &mut Attr) -> Result<()> {
        let Some(local) = &self.local else { return Ok(()) };
        if local.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let file = local.table.lock().files.get(&ino).cloned();
        let inline_max = u64::from(self.volume.record.inline_bytes_max);
        match file.filter(|file| file.is_lent()) {
            Some(file) => file.backed.file_error(|| file.show(inode, attr, inline_max)),
            None => Ok(()),
        }
    }
}

/// Whether a record's bytes are where only this module reads them.
pub(crate) fn is_elsewhere(shared: &Shared, ino: Ino, inode: &Inode) -> bool {
    inode.form == Form::Local || is_away(shared, ino)
}

/// Whether what is known of an inode is not what its record says, or will not be.
pub(crate) fn is_away(shared: &Shared, ino: Ino) -> bool {
    shared.local.as_ref().is_some_and(|local| local.is_away(ino))
}
