//! Files of which a sync failed. The host says that once, and then takes for written what it has forgotten: so no later
//! sync of such a file counts, until its bytes were written anew, to a new file with a new name.

use super::pool::Backed;
use super::{Local, LocalFile, failed};
use crate::error::{Error, Kind, Result};
use crate::schema::BackingRecord;
use crate::session::{OpKind, Session};
use home::Stat;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files whose records one transaction changes.
const NOTED_AT_ONCE: usize = 256;

fn suspect(blob: u64) -> Error {
    let words = format!(
        "a sync of file {blob} of the local home failed, and the host may have forgotten what it could not write: close \
         it, and it is written anew"
    );
    Error::new(Kind::Io, words)
}

impl Local {
    /// Whether a sync of a file that is lent does not count.
    pub(super) fn is_suspect(&self, file: &LocalFile) -> bool {
        // What was made durable once has a name that is.
        let named = file.own || file.synced.load(Ordering::Acquire);
        file.backed.suspect.load(Ordering::Acquire) || (!named && self.is_nameless(&file.backed))
    }

    /// An error for one of which no sync counts.
    pub(super) fn check_sound(&self, file: &LocalFile) -> Result<()> {
        if self.is_suspect(file) { Err(suspect(file.backed.blob)) } else { Ok(()) }
    }

    /// Whether the name of a file that was never made durable may be forgotten.
    fn is_nameless(&self, backed: &Backed) -> bool {
        backed.since < self.pool.forgotten.load(Ordering::Acquire)
    }

    /// Whether a file that was given back is not to be used again: none is that was there when names were forgotten,
    /// which a process before this one may have seen.
    pub(super) fn is_worn(&self, backed: &Backed) -> bool {
        backed.suspect.load(Ordering::Acquire) || self.pool.forgotten.load(Ordering::Acquire) > 0
    }

    /// Makes a file that is lent durable, with its `times` or without.
    pub(super) fn sync_file(&self, file: &LocalFile, times: bool) -> Result<()> {
        self.check_sound(file)?;
        self.sync_backed(&file.backed, times)?;
        self.check_sound(file)
    }

    fn sync_backed(&self, backed: &Backed, times: bool) -> Result<()> {
        // The host tells one of those who sync at once, and the others that all is well.
        let _turn = backed.turn.lock();
        if backed.suspect.load(Ordering::Acquire) {
            return Err(suspect(backed.blob));
        }
        let bytes = if times { backed.file.sync() } else { backed.file.sync_data() };
        let name = if bytes.is_ok() { backed.file.sync_name() } else { Ok(()) };
        if bytes.is_err() || name.is_err() {
            backed.suspect.store(true, Ordering::Release);
            self.unnoted.store(true, Ordering::Release);
        }
        if name.is_err() {
            self.names_failed();
        }
        bytes.and(name).map_err(|error| failed("sync", backed.blob, &error))
    }

    /// Makes a file durable that was just written, with its name.
    pub(super) fn sync_whole(&self, backed: &Backed) -> Result<()> {
        self.sync_backed(backed, true)?;
        if self.is_nameless(backed) { Err(suspect(backed.blob)) } else { Ok(()) }
    }

    /// Makes all that is sound durable. When that fails any file may be the one.
    pub(super) fn sync_all(&self) -> Result<()> {
        let lent = self.all_lent();
        self.home.sync_all().map_err(|error| {
            for file in lent.into_iter().chain(self.all_lent()) {
                file.backed.suspect.store(true, Ordering::Release);
            }
            self.names_failed();
            failed("sync all of", 0, &error)
        })
    }

    /// The host may have forgotten names: what waits to be used is made anew.
    pub(super) fn names_failed(&self) {
        self.pool.forgotten.fetch_add(1, Ordering::AcqRel);
        self.unnoted.store(true, Ordering::Release);
        self.home.distrust_names();
        for ready in self.pool.take_all_ready() {
            if self.scrap(ready.blob).is_err() {
                self.retire(ready.blob, Some(ready));
            }
        }
    }

    /// Removes a file whose number is noted as nobody's, and stays so.
    pub(super) fn scrap(&self, blob: u64) -> Result<()> {
        let gone = self.home.remove(self.place(blob));
        gone.map_err(|error| failed("remove", blob, &error))?;
        self.pool.add_number(blob);
        Ok(())
    }
}

impl Session {
    /// Writes to the store which of those that are lent are suspect, for who comes after this process. What fails is
    /// tried again in the next round.
    pub(super) async fn note_suspects(&self, local: &Local) {
        if !local.unnoted.swap(false, Ordering::AcqRel) {
            return;
        }
        let is_new =
            |file: &Arc<LocalFile>| local.is_suspect(file) && !file.noted.load(Ordering::Acquire);
        let suspects: Vec<_> = local.all_lent().into_iter().filter(is_new).collect();
        for files in suspects.chunks(NOTED_AT_ONCE) {
            let noted = self
                .change(OpKind::Idempotent, |mut tx| async move {
                    // No record gets longer.
                    tx.frees_space();
                    for file in files {
                        let key = tx.keys.backing(file.backed.blob);
                        let found = tx.get(&key, kv::Read::Serializable).await?;
                        let found = found.and_then(|found| BackingRecord::decode(&key, &found));
                        // It may have been settled, and be another's by now.
                        if let Some(record) = found.filter(|record| record.ino == file.ino) {
                            let record = BackingRecord { suspect: true, ..record };
                            tx.put_backing(file.backed.blob, record)?;
                        }
                    }
                    Ok((tx, ()))
                })
                .await;
            match noted {
                Ok(()) => files.iter().for_each(|file| file.noted.store(true, Ordering::Release)),
                Err(error) => {
                    tracing::error!(%error, "it could not be noted that syncs of files failed");
                    local.unnoted.store(true, Ordering::Release);
                    return;
                }
            }
        }
    }

    /// A file that is lent was noted as suspect. Where power was lost since, all that is there is on the disk.
    pub(super) async fn recover_suspect(
        &self,
        local: &Local,
        file: &LocalFile,
        same: bool,
    ) -> Result<()> {
        if same {
            file.backed.suspect.store(true, Ordering::Release);
            file.noted.store(true, Ordering::Release);
            local.names_failed();
            return Ok(());
        }
        let blob = file.backed.blob;
        self.change(OpKind::Idempotent, |mut tx| async move {
            tx.frees_space();
            let key = tx.keys.backing(blob);
            let found = tx.get(&key, kv::Read::Serializable).await?;
            if let Some(record) = found.and_then(|found| BackingRecord::decode(&key, &found)) {
                tx.put_backing(blob, BackingRecord { suspect: false, ..record })?;
            }
            Ok((tx, ()))
        })
        .await
    }

    /// Writes the bytes of a file that nobody uses to a new one, and makes that durable.
    pub(super) async fn renew(
        &self,
        local: &Local,
        file: &LocalFile,
    ) -> Result<(Arc<Backed>, Stat)> {
        // What was given back goes first: who comes after this process finds no note any more.
        self.recycle(local, usize::MAX).await?;
        let before = file.anew.lock().take();
        let anew = match before {
            Some(anew) => anew,
            None => self.take_new(local).await?,
        };
        let from = &file.backed;
        let copied = anew.file.empty().and_then(|()| home::write_anew(&*from.file, &*anew.file));
        if let Err(error) = copied {
            // What there is of it takes no room.
            let _ = anew.file.empty();
            *file.anew.lock() = Some(anew);
            return Err(failed("write anew", from.blob, &error));
        }
        if let Err(error) = local.sync_whole(&anew) {
            let blob = anew.blob;
            if local.scrap(blob).is_err() {
                local.retire(blob, Some(anew));
            }
            return Err(error);
        }
        let stat = anew.file_error(|| anew.file.stat())?;
        tracing::warn!(from = from.blob, to = anew.blob, "a suspect file was written anew");
        *file.anew.lock() = Some(Arc::clone(&anew));
        Ok((anew, stat))
    }
}
