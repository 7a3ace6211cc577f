//! Reading and changing bytes that are in a file of the home, through this process.

use super::pool::Backed;
use super::{Local, LocalFile, failed};
use crate::access;
use crate::error::{Error, Kind, Result, no_space};
use crate::schema::{BackingRecord, Part};
use crate::session::{OpKind, Session};
use crate::types::{Caller, FILE_BYTES_MAX, Fallocate, Ino, Seek, Time};
use bytes::Bytes;
use home::Wanted;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that are copied from the store at once.
const COPIED_AT_ONCE: u64 = 8 << 20;
/// So many files are made durable one by one; more all at once.
const SYNCED_ONE_BY_ONE: usize = 8;
/// Files whose records one transaction changes: a bit of a number for each.
const SYNCED_AT_ONCE: usize = 64;

impl Backed {
    /// The bytes from `offset` on, at most `len` and not past the end.
    pub(crate) fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        let read = self.file.read(offset, usize::try_from(len).unwrap_or(usize::MAX));
        read.map(Bytes::from).map_err(|error| failed("read", self.blob, &error))
    }

    /// Cuts or extends it.
    pub(crate) fn truncate(&self, len: u64) -> Result<()> {
        self.file.truncate(len).map_err(|error| failed("cut", self.blob, &error))
    }

    /// Sets when its bytes changed.
    pub(crate) fn set_changed(&self, at: Time) -> Result<()> {
        let set = self.file.set_changed((at.secs, at.nanos));
        set.map_err(|error| failed("set the time of", self.blob, &error))
    }

    /// Makes a range as it is asked for.
    pub(crate) fn fallocate(&self, what: Fallocate, offset: u64, len: u64) -> Result<()> {
        let done = match what {
            Fallocate::Allocate { keep_size } => self.file.allocate(offset, len, keep_size),
            Fallocate::ZeroRange { keep_size } => self.file.zero(offset, len, keep_size),
            Fallocate::PunchHole => self.file.punch(offset, len),
        };
        done.map_err(|error| failed("allocate in", self.blob, &error))
    }

    /// The first data or hole at or behind `offset`.
    pub(crate) fn seek(&self, offset: u64, what: Seek) -> Result<u64> {
        let wanted = match what {
            Seek::Data => Wanted::Data,
            Seek::Hole => Wanted::Hole,
        };
        let found = self.file.seek(offset, wanted);
        let found = found.map_err(|error| failed("look into", self.blob, &error))?;
        found.ok_or_else(|| Error::new(Kind::NoDevice, "there is nothing more behind this offset"))
    }
}

impl LocalFile {
    /// Writes at an offset, or at the end.
    fn write(&self, offset: Option<u64>, bytes: &[u8]) -> Result<u64> {
        let (file, blob) = (&self.backed.file, self.backed.blob);
        let failed = |error| failed("write to", blob, &error);
        let _end = offset.is_none().then(|| self.end.lock());
        let at = match offset {
            Some(offset) => offset,
            None => file.stat().map_err(failed)?.len,
        };
        let room = FILE_BYTES_MAX.saturating_sub(at).min(bytes.len() as u64) as usize;
        let bytes = bytes.get(..room).unwrap_or(bytes);
        file.write_at(bytes, at).map_err(failed)?;
        Ok(bytes.len() as u64)
    }
}

impl Session {
    /// Reads bytes of an inode whose file this is, and notes that.
    pub(crate) async fn read_local(
        &self,
        file: &LocalFile,
        offset: u64,
        len: u64,
    ) -> Result<Bytes> {
        let bytes = file.backed.read(offset, len)?;
        if len > 0 {
            self.note_read_of(file.ino).await?;
        }
        Ok(bytes)
    }

    /// Notes that somebody reads an inode.
    pub(crate) async fn note_read_of(&self, ino: Ino) -> Result<()> {
        let shared = &self.0;
        if shared.private
            && let Some(inode) = shared.newest().and_then(|at| shared.look_inode(at, ino))
        {
            shared.note_read(ino, &inode, 0);
            return Ok(());
        }
        self.view(|mut tx| async move {
            if let Some(inode) = tx.find_inode(ino, kv::Read::Snapshot).await? {
                tx.session.note_read(ino, &inode, 0);
            }
            Ok((tx, ()))
        })
        .await
    }

    /// Writes bytes of an inode whose file this is.
    pub(crate) async fn write_local(
        &self,
        file: &LocalFile,
        caller: &Caller,
        offset: Option<u64>,
        bytes: &[u8],
    ) -> Result<u64> {
        let written = file.write(offset, bytes)?;
        self.take_privileges(file.ino, caller).await?;
        Ok(written)
    }

    /// Takes set-user and set-group bits from a file that somebody changes who may not keep them.
    pub(crate) async fn take_privileges(&self, ino: Ino, caller: &Caller) -> Result<()> {
        if caller.is_privileged() {
            return Ok(());
        }
        let inode = self.inode_now(ino).await?;
        if !access::drop_privileges(&mut inode.clone(), caller) {
            return Ok(());
        }
        self.change(OpKind::Idempotent, |mut tx| async move {
            let mut inode = tx.inode(ino).await?;
            if access::drop_privileges(&mut inode, caller) {
                tx.put_inode(ino, &inode, &[Part::Access])?;
            }
            Ok((tx, ()))
        })
        .await
    }

    /// Copies bytes of an inode to one whose file this is, as the host does it best where both have files.
    pub(crate) async fn copy_to_local(
        &self,
        caller: &Caller,
        from: Ino,
        at: u64,
        to: &LocalFile,
        to_at: u64,
        len: u64,
    ) -> Result<u64> {
        let (file, blob) = (&to.backed.file, to.backed.blob);
        let failed = |error| failed("copy to", blob, &error);
        let copied = loop {
            if let Some(source) = self.local_file(from).await {
                break file.copy_from(&*source.backed.file, at, to_at, len).map_err(failed)?;
            }
            // Inline, or mapped: a piece of it.
            match self.read_stored(from, at, len.min(COPIED_AT_ONCE)).await {
                Err(error) if error.is_moved() => {
                    self.open_local(from).await?;
                }
                read => {
                    let bytes = read?;
                    file.write_at(&bytes, to_at).map_err(failed)?;
                    break bytes.len() as u64;
                }
            }
        };
        self.take_privileges(to.ino, caller).await?;
        Ok(copied)
    }

    /// Allocates, zeroes or frees a range.
    pub(crate) async fn fallocate_local(
        &self,
        file: &LocalFile,
        caller: &Caller,
        what: Fallocate,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        if len > 1 << 44 && what != Fallocate::PunchHole {
            return Err(no_space("there is no disk of this size"));
        }
        file.backed.fallocate(what, offset, len)?;
        self.take_privileges(file.ino, caller).await
    }

    /// Before a file takes the place of another: its record has its bytes, or they are durable. Many programs
    /// write anew what they change and rename it, and after the loss of power want the one or the other.
    pub(crate) async fn keep_before_replacing(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
    ) -> Result<()> {
        let Some(local) = &self.0.local else {
            return Ok(());
        };
        if !local.has_any() {
            return Ok(());
        }
        let replacing = self
            .view(|mut tx| async move {
                let source = tx.entry(from.0, from.1, kv::Read::Snapshot).await?;
                let target = tx.entry(to.0, to.1, kv::Read::Snapshot).await?;
                let ino = source.zip(target).map(|(source, _)| source.ino);
                Ok((tx, ino))
            })
            .await?;
        let Some(ino) = replacing else {
            return Ok(());
        };
        while let Some(file) = self.lent_file(ino).await {
            if file.synced.load(Ordering::Acquire) {
                break;
            }
            match self.sync_local(&file, true).await {
                Err(error) if error.is_moved() => {}
                // Who makes room may have to move things.
                Err(error) if error.kind() == Kind::NoSpace => break,
                done => return done,
            }
        }
        Ok(())
    }

    /// Makes files durable that were lent long ago and are still in use: after the loss of power what was written
    /// to them counts, and not what the record had before.
    pub(crate) async fn sync_aged(&self, local: &Local) -> Result<()> {
        let mut aged = local.take_aged(self.0.volume.world.clock.now());
        let mut synced = Ok(());
        if aged.len() > SYNCED_ONE_BY_ONE {
            synced = local.sync_all();
        } else {
            // One that fails is said in the log, and keeps no other from being durable.
            aged.retain(|file| local.sync_file(file, true).is_ok());
        }
        self.note_suspects(local).await;
        synced?;
        self.note_synced(local, &aged).await
    }

    /// Makes all files that are lent survive the loss of power.
    pub(crate) async fn sync_lent(&self) -> Result<()> {
        let Some(local) = &self.0.local else {
            return Ok(());
        };
        let lent = local.all_lent();
        if lent.is_empty() {
            return Ok(());
        }
        let synced = local.sync_all();
        self.note_suspects(local).await;
        synced?;
        self.note_synced(local, &lent).await?;
        for file in lent.iter().filter(|file| local.is_suspect(file)) {
            // What is settled or removed by now is none that is lent.
            while let Some(file) = self.lent_file(file.ino).await {
                match self.sync_local(&file, true).await {
                    Err(error) if error.is_moved() => {}
                    done => {
                        done?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes that the bytes of these files count from here on.
    async fn note_synced(&self, local: &Local, lent: &[Arc<LocalFile>]) -> Result<()> {
        for files in lent.chunks(SYNCED_AT_ONCE) {
            let noted = self
                .change(OpKind::Idempotent, |mut tx| async move {
                    // No record gets longer.
                    tx.frees_space();
                    let mut noted: u64 = 0;
                    for (at, file) in files.iter().enumerate().filter(|(_, file)| !file.own) {
                        let key = tx.keys.backing(file.backed.blob);
                        let found = tx.get(&key, kv::Read::Serializable).await?;
                        let found = found.and_then(|found| BackingRecord::decode(&key, &found));
                        // It may have been settled, and be another's by now.
                        let found = found.filter(|record| record.ino == file.ino);
                        if let Some(record) = found.filter(|_| !local.is_suspect(file)) {
                            let record = BackingRecord { synced: true, ..record };
                            tx.put_backing(file.backed.blob, record)?;
                            noted |= 1 << at;
                        }
                    }
                    Ok((tx, noted))
                })
                .await?;
            let noted = files.iter().enumerate().filter(|(at, _)| noted & (1 << at) != 0);
            for (_, file) in noted {
                file.synced.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Makes an inode whose file this is survive the loss of power: a small one by its bytes in the store,
    /// in the commit that is synced anyway, any other by its file, with its `times` or without. What the store
    /// has of the file need not change with every sync: after the loss of power whoever finds a loan whose bytes
    /// count, or one of a file that the inode's record names, looks at the file itself.
    pub(crate) async fn sync_local(&self, file: &LocalFile, times: bool) -> Result<()> {
        let Some(local) = &self.0.local else {
            return Ok(());
        };
        let (ino, blob) = (file.ino, file.backed.blob);
        let max = u64::from(self.0.volume.record.inline_bytes_max);
        let failed = |error| failed("look at", blob, &error);
        let stat = file.backed.file.stat().map_err(failed)?;
        let counts = file.own || file.synced.load(Ordering::Acquire);
        let small = stat.len <= max && !counts;
        let bytes = match small {
            true => Some(file.backed.read(0, stat.len)?),
            false => {
                if let Err(error) = local.sync_file(file, times) {
                    self.note_suspects(local).await;
                    return Err(error);
                }
                None
            }
        };
        if counts {
            return Ok(());
        }
        // Longer by now: it is not small any more, and what is read is not all there is.
        if bytes.as_ref().is_some_and(|bytes| bytes.len() as u64 != stat.len) {
            return Err(Error::moved());
        }
        let (bytes, stat) = (&bytes, &stat);
        self.change(OpKind::Idempotent, |mut tx| async move {
            let Some(mut inode) = tx.find_inode(ino, kv::Read::Serializable).await? else {
                return Ok((tx, ()));
            };
            let before = inode.clone();
            match bytes {
                Some(bytes) => {
                    file.note(&mut inode, stat);
                    crate::blob::put_inline(&mut tx, &mut inode, bytes).await?;
                }
                // What the record says does not count from here on.
                None => {
                    // Who notes that it is suspect comes before this, and is seen, or behind it.
                    let key = tx.keys.backing(blob);
                    tx.get(&key, kv::Read::Serializable).await?;
                    local.check_sound(file)?;
                    let (base, suspect) = (super::time(file.base.changed), false);
                    let record = BackingRecord { ino, synced: true, base, suspect };
                    tx.put_backing(blob, record)?;
                }
            }
            if inode != before || bytes.is_some() {
                tx.put_inode(ino, &inode, &[Part::Data])?;
            }
            Ok((tx, ()))
        })
        .await?;
        if bytes.is_none() {
            file.synced.store(true, Ordering::Release);
        }
        Ok(())
    }
}
