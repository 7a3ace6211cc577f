//! How an inode gets a file of the home: when it is made, when it is opened, and when it outgrows its record.

use super::pool::{Backed, UNTOUCHED};
use super::{Entered, Local, LocalFile, Moving, Using, failed, time};
use crate::access;
use crate::blob;
use crate::error::{Error, Result, corrupt, unsupported};
use crate::schema::{BackingRecord, Form, Inode};
use crate::session::{OpKind, Session, Shared, Way};
use crate::tx::Tx;
use crate::types::{Ino, OpenFlags};
use home::Stat;
use kv::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Files up to this size are read in the kernel's cache.
const CACHED_BYTES_MAX: u64 = 128 << 10;
/// How long is waited for bytes that are being moved.
const PAUSE: Duration = Duration::from_micros(50);

/// What the record of an inode that is opened says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) form: Form,
    pub(crate) mode: u32,
    pub(crate) size: u64,
}

impl Seen {
    pub(crate) fn of(inode: &Inode) -> Self {
        Self { form: inode.form, mode: inode.mode, size: inode.size }
    }
}

/// A file that is about to be lent to an inode that is about to be made. Given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Loan<'a> {
    local: &'a Local,
    ino: Ino,
    backed: Option<Arc<Backed>>,
    /// Nobody looks for the inode's bytes before they are where they will be.
    moving: Option<Moving<'a>>,
}

impl Loan<'_> {
    /// Writes who has the file, with the inode.
    pub(crate) fn record(&self, tx: &mut Tx) -> Result<()> {
        match self.to_record() {
            Some((blob, record)) => tx.put_backing(blob, record),
            None => Ok(()),
        }
    }

    /// Which file has who, to be written with the inode.
    pub(crate) fn to_record(&self) -> Option<(u64, BackingRecord)> {
        let base = time(UNTOUCHED);
        let record = BackingRecord { ino: self.ino, base, ..BackingRecord::default() };
        Some((self.backed.as_ref()?.blob, record))
    }

    /// Whether it is for this inode.
    pub(crate) fn is_for(&self, ino: Ino) -> bool {
        self.ino == ino
    }

    /// The inode is made. The file, for the kernel.
    pub(crate) fn keep(mut self, flags: OpenFlags) -> Option<Arc<Backed>> {
        let backed = self.backed.take()?;
        let base = Stat { changed: UNTOUCHED, ..Stat::default() };
        let file = LocalFile::new(self.ino, Arc::clone(&backed), false, base, true);
        file.maps.store(flags.read, Ordering::Release);
        file.maps_to_write.store(flags.read, Ordering::Release);
        self.local.insert(file);
        self.moving = None;
        Some(backed)
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if let Some(backed) = self.backed.take() {
            self.local.pool.put(backed);
        }
    }
}

impl Session {
    /// The local home, if new bytes go there.
    fn lending(&self) -> Option<&Local> {
        self.0.local.as_ref().filter(|_| self.0.lends)
    }

    /// A file for an inode that is about to be made in a directory and opened as `flags` say; `None` where the
    /// kernel would not use it, and where what is made stays small: then it is cheaper in the store from the first.
    pub(crate) fn begin_loan(
        &self,
        ino: Option<Ino>,
        dir: Ino,
        flags: OpenFlags,
    ) -> Option<Loan<'_>> {
        let local = self.lending().filter(|local| local.pool.is_known_to_kernel())?;
        let ino = ino.filter(|_| flags.write || flags.append)?;
        if local.habits.stays_small(dir, || self.parent_known(dir)) {
            return None;
        }
        let Some(backed) = local.take_quickly() else {
            local.work.tell();
            return None;
        };
        if backed.id().is_none() {
            local.pool.put(backed);
            return None;
        }
        let mut loan = Loan { local, ino, backed: Some(backed), moving: None };
        loan.moving = Some(local.begin_move(ino)?);
        Some(loan)
    }

    /// Who reads and writes an inode that was made and opened as `flags` say. What can only be written, and so
    /// not be mapped, needs no cache: whoever opens it beside that is lent it, and reads what is in the file.
    pub(crate) fn way_of_new(&self, lent: bool, flags: OpenFlags) -> Way {
        if lent {
            return Way::Kernel;
        }
        let writes_alone = !flags.read && (flags.write || flags.append);
        let by_kernel = self.lending().is_some_and(|local| local.pool.is_known_to_kernel());
        if writes_alone && by_kernel { Way::Direct } else { Way::Cached }
    }

    /// The directory above a directory, when that is known without asking the store.
    fn parent_known(&self, dir: Ino) -> Option<Ino> {
        let newest = self.0.volume.world.store.engine().newest()?;
        let parent = self.0.known.dir(newest, dir)?.parent;
        (parent != 0).then_some(parent)
    }

    /// What a file that was made in a directory has become, now that its last handle is gone.
    pub(crate) fn note_habit(&self, ino: Ino, made_in: Option<Ino>) {
        let Some((local, dir)) = self.lending().zip(made_in) else {
            return;
        };
        let max = u64::from(self.0.volume.record.inline_bytes_max);
        let file = local.table.lock().files.get(&ino).cloned();
        let len = match file.filter(|file| file.is_lent()) {
            Some(file) => file.backed.file.stat().map(|stat| stat.len),
            // What is in the store is small.
            None => Ok(0),
        };
        if let Ok(len) = len {
            local.habits.note(dir, len <= max);
        }
    }

    /// The file of an inode, if its bytes are in one that is open here.
    pub(crate) async fn local_file(&self, ino: Ino) -> Option<Using> {
        let local = self.0.local.as_ref()?;
        loop {
            match local.enter(ino) {
                Entered::Absent => return None,
                Entered::Found(file) => return Some(file),
                Entered::Moving => self.0.volume.world.clock.sleep(PAUSE).await,
            }
        }
    }

    /// The same, but only while it is lent.
    pub(crate) async fn lent_file(&self, ino: Ino) -> Option<Using> {
        self.local_file(ino).await.filter(|file| file.is_lent())
    }

    /// The file of an inode whose record says that it has one. Opened, if it is not.
    pub(crate) async fn open_local(&self, ino: Ino) -> Result<Option<Using>> {
        let Some(local) = &self.0.local else {
            return Err(corrupt(
                "the bytes are in a local home, and there is none: mount the store that has it",
            ));
        };
        loop {
            if let Some(file) = self.local_file(ino).await {
                return Ok(Some(file));
            }
            let inode = self.inode_now(ino).await?;
            if inode.form != Form::Local {
                return Ok(None);
            }
            let Some(moving) = local.begin_move(ino) else {
                continue;
            };
            // It cannot be lent or settled now: what the record says holds.
            let inode = self.inode_now(ino).await?;
            if inode.form == Form::Local && !local.has(ino) {
                let backed = local.open_own(&inode)?;
                local.insert(LocalFile::new(ino, backed, true, Stat::default(), false));
            }
            drop(moving);
        }
    }

    pub(crate) async fn inode_now(&self, ino: Ino) -> Result<Inode> {
        self.view(|mut tx| async move {
            let inode = tx.inode_seen(ino).await?;
            Ok((tx, inode))
        })
        .await
    }

    /// The file in which `len` bytes of an inode are to be changed from `offset` on, or behind its end: it has
    /// one, or outgrows its record. `None` when the bytes are in the store, and stay there.
    pub(crate) async fn to_local(
        &self,
        ino: Ino,
        offset: Option<u64>,
        len: u64,
    ) -> Result<Option<Using>> {
        let Some(local) = &self.0.local else {
            return Ok(None);
        };
        if let Some(file) = self.lent_file(ino).await {
            return Ok(Some(file));
        }
        let inode = self.inode_now(ino).await?;
        let end = offset.unwrap_or(inode.size).saturating_add(len);
        if inode.form == Form::Local {
            return self.lend(ino, false).await.map(Some);
        }
        if !self.0.outgrows(&inode, end) {
            return Ok(None);
        }
        if let Some(dir) = self.0.open.take_made_in(ino) {
            // It was thought to stay small. Those that are made beside it from here on are not.
            local.habits.note(dir, false);
        }
        self.lend(ino, false).await.map(Some)
    }

    /// Whether an inode's bytes are not in the store, or will not be when it has `end` bytes.
    pub(crate) fn is_moving_to(&self, ino: Ino, inode: &Inode, end: u64) -> bool {
        super::is_elsewhere(&self.0, ino, inode) || self.0.outgrows(inode, end)
    }

    /// Lends an inode a file with its bytes; without them when it is to `discard` them. Whoever has a file
    /// keeps it.
    pub(crate) async fn lend(&self, ino: Ino, discard: bool) -> Result<Using> {
        let Some(local) = &self.0.local else {
            return Err(unsupported("there is no local home"));
        };
        // Nobody removes it meanwhile.
        let entered = self.enter(ino).await;
        let lent = self.lend_entered(local, ino, discard).await;
        entered.end().await?;
        lent
    }

    async fn lend_entered(&self, local: &Local, ino: Ino, discard: bool) -> Result<Using> {
        loop {
            if let Some(file) = self.lent_file(ino).await {
                return Ok(file);
            }
            let Some(moving) = local.begin_move(ino) else {
                self.0.volume.world.clock.sleep(PAUSE).await;
                continue;
            };
            if !local.is_lent(ino) {
                self.lend_now(local, ino, discard).await?;
            }
            drop(moving);
        }
    }

    async fn lend_now(&self, local: &Local, ino: Ino, discard: bool) -> Result<()> {
        let inode = self.inode_now(ino).await?;
        let own = inode.form == Form::Local;
        let backed = match inode.form {
            Form::Local => match local.peek(ino) {
                Some(known) => known,
                None => local.open_own(&inode)?,
            },
            Form::Inline => self.take_backing(local).await?,
            Form::Mapped => return Err(unsupported("the file is mapped")),
        };
        let backed_ref = &backed;
        let lent = self
            .change(OpKind::Idempotent, |mut tx| async move {
                let inode = tx.inode(ino).await?;
                if (inode.form == Form::Local) != own || (own && inode.blob != backed_ref.blob) {
                    return Err(Error::again("the file was moved"));
                }
                let blob = backed_ref.blob;
                let file = &backed_ref.file;
                if !own && !discard && inode.size > 0 {
                    let bytes = blob::inline_bytes(&mut tx, &inode, Read::Serializable).await?;
                    let written = file
                        .write_at(&bytes, 0)
                        .and_then(|()| file.truncate(inode.size))
                        .and_then(|()| file.set_changed(UNTOUCHED));
                    written.map_err(|error| failed("write to", blob, &error))?;
                }
                let stat = file.stat().map_err(|error| failed("look at", blob, &error))?;
                let base = if own { time(stat.changed) } else { time(UNTOUCHED) };
                let suspect = backed_ref.suspect.load(Ordering::Acquire);
                let record = BackingRecord { ino, synced: false, base, suspect };
                tx.put_backing(blob, record)?;
                tx.change_data_of(ino)?;
                Ok((tx, (stat.len, base)))
            })
            .await;
        let (len, base) = match lent {
            Ok(base) => base,
            Err(error) => {
                if !own {
                    local.retire(backed.blob, Some(backed));
                }
                return Err(error);
            }
        };
        if own {
            // The record names the file: after the loss of power nobody must take it for settled that was written to.
            self.sync_store().await?;
        }
        let base = Stat { len, changed: (base.secs, base.nanos), ..Stat::default() };
        let file = LocalFile::new(ino, backed, own, base, true);
        // Nobody has seen a file that was not the inode's before.
        file.maps_to_write.store(own, Ordering::Release);
        local.insert(file);
        // A mapping changes times without a word: what the kernel knows it may keep no more.
        self.attributes_changed(ino);
        Ok(())
    }

    /// How an inode that was just opened is served: the file that the kernel is to use by itself, or `None`
    /// for this process.
    pub(crate) async fn serve(
        &self,
        ino: Ino,
        flags: OpenFlags,
        Seen { form, mode, size }: Seen,
    ) -> Result<Option<Arc<Backed>>> {
        let Some(local) = &self.0.local else {
            return Ok(None);
        };
        let writes = flags.write || flags.append || flags.truncate;
        if form == Form::Mapped && self.0.lends {
            local.note_in_blocks(ino);
        }
        let registrar = local.pool.registrar();
        let mut file = self.local_file(ino).await;
        if !writes && self.reads_in_cache(ino, file.as_deref(), form, size)? {
            return Ok(None);
        }
        if file.is_none() && form == Form::Local {
            file = self.open_local(ino).await?;
        }
        let mut file = match file {
            Some(file) => file,
            None => {
                // A file that is written anew may become large.
                let anew =
                    flags.truncate && form == Form::Inline && self.0.lends && registrar.is_some();
                // Beside a handle past the cache nobody may use the cache.
                let beside = self.0.open.way(ino) == Some(Way::Direct);
                let wanted = if anew { Way::Kernel } else { Way::Cached };
                if form != Form::Inline
                    || (!beside && self.0.open.decide(ino, wanted) != Way::Kernel)
                {
                    return Ok(None);
                }
                self.lend(ino, flags.truncate).await?
            }
        };
        if writes && !file.is_lent() {
            drop(file);
            file = self.lend(ino, false).await?;
        }
        // The kernel says of a write through this process whether it takes the bits.
        let beside = self.0.open.way(ino) == Some(Way::Direct);
        let plain = beside || !writes || !access::may_lose_bits(mode);
        let can = plain && registrar.is_some_and(|to| file.backed.make_known(&to));
        let can = if can { Way::Kernel } else { Way::Cached };
        if self.0.open.decide(ino, can) != Way::Kernel {
            file.unguard_bits();
            return Ok(None);
        }
        if flags.read {
            file.maps.store(true, Ordering::Release);
        }
        if flags.read && writes && !file.maps_to_write.swap(true, Ordering::AcqRel) {
            // What the kernel was told of it may be old from here on.
            self.attributes_changed(ino);
        }
        if writes && access::has_bits(mode) {
            file.guard_bits().map_err(|error| failed("look at", file.backed.blob, &error))?;
        }
        Ok(Some(Arc::clone(&file.backed)))
    }

    /// Decides that an inode that is opened to be read alone is read in the kernel's cache, where that is better and
    /// nobody has it open in another way.
    fn reads_in_cache(
        &self,
        ino: Ino,
        file: Option<&LocalFile>,
        form: Form,
        size: u64,
    ) -> Result<bool> {
        let may = matches!(self.0.open.way(ino), None | Some(Way::Cached))
            && is_better_cached(file, form, size)?;
        Ok(may && self.0.open.decide(ino, Way::Cached) == Way::Cached)
    }
}

/// Whether a file that is opened to be read is better read through this process and kept in the kernel's cache.
/// Opening the file below takes the kernel longer than copying so many bytes, once.
fn is_better_cached(file: Option<&LocalFile>, form: Form, size: u64) -> Result<bool> {
    let len = match file.filter(|file| file.is_lent()) {
        // Beside a mapping what is in the cache would be old.
        Some(file) if file.maps_to_write.load(Ordering::Acquire) => return Ok(false),
        Some(file) => {
            let stat = file.backed.file.stat();
            stat.map_err(|error| failed("look at", file.backed.blob, &error))?.len
        }
        None if form == Form::Local => size,
        None => return Ok(false),
    };
    Ok(len <= CACHED_BYTES_MAX)
}

impl Shared {
    /// Whether an inode whose bytes are inline gets a file when it has `end` bytes.
    pub(crate) fn outgrows(&self, inode: &Inode, end: u64) -> bool {
        let max = u64::from(self.volume.record.inline_bytes_max);
        let lends = self.lends && self.local.is_some() && inode.is_file();
        lends && inode.form == Form::Inline && end.max(inode.size) > max
    }
}

impl Local {
    /// Opens the file that an inode's record names.
    pub(super) fn open_own(&self, inode: &Inode) -> Result<Arc<Backed>> {
        match self.home.open(self.place(inode.blob)) {
            Ok(file) => Ok(self.backed(inode.blob, file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let blob = inode.blob;
                tracing::error!(
                    blob,
                    home = self.home.describe(),
                    "a file of the local home is missing"
                );
                Err(corrupt(format!("file {blob} of the local home is missing: run fsck")))
            }
            Err(error) => Err(failed("open", inode.blob, &error)),
        }
    }

    fn has(&self, ino: Ino) -> bool {
        self.table.lock().files.contains_key(&ino)
    }

    fn is_lent(&self, ino: Ino) -> bool {
        self.table.lock().files.get(&ino).is_some_and(|file| file.is_lent())
    }

    fn peek(&self, ino: Ino) -> Option<Arc<Backed>> {
        self.table.lock().files.get(&ino).map(|file| Arc::clone(&file.backed))
    }
}
