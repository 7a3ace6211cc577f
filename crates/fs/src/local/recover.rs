//! What a session finds of the one before: files that were lent when it died.

use super::{LocalFile, failed};
use crate::error::Result;
use crate::schema::{BackingRecord, Form, Parsed};
use crate::session::{OpKind, Session};
use crate::types::Ino;
use home::{Stat, Unreadable};
use kv::{Query, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Records that are read at once.
const PAGE: usize = 1024;

impl Session {
    /// Finds the files that no settled inode owns. Where the machine has been up since, what was written to
    /// them is there; where not, a file counts whose bytes were made durable, and else the inode's record.
    pub(crate) async fn recover_local(&self) -> Result<()> {
        let Some(local) = &self.0.local else {
            return Ok(());
        };
        let life = local.home.life().to_le_bytes();
        let same = self
            .view(|mut tx| async move {
                let key = tx.keys.life();
                let found = tx.get(&key, Read::Snapshot).await?;
                Ok((tx, found.is_some_and(|found| found[..] == life)))
            })
            .await?;
        let mut next = 0;
        loop {
            let page = self
                .view(|mut tx| async move {
                    let query = Query::new(tx.keys.backings_from(next)).limit(PAGE);
                    let page = tx.range(&query, Read::Snapshot).await?;
                    let mut found = Vec::with_capacity(page.len());
                    for (key, value) in page.iter() {
                        let Some(Parsed::Backing { blob }) = tx.keys.parse(key) else {
                            continue;
                        };
                        match BackingRecord::decode(key, value) {
                            Some(record) => found.push((blob, record)),
                            None => return Err(tx.damaged(key, "is damaged")),
                        }
                    }
                    Ok((tx, found))
                })
                .await?;
            let Some((last, _)) = page.last() else {
                break;
            };
            next = last + 1;
            for (blob, record) in page {
                match record.ino {
                    0 => local.pool.retire(blob, None),
                    ino => self.recover_lent(ino, blob, record, same).await?,
                }
            }
        }
        local.work.tell();
        if same {
            return Ok(());
        }
        self.change(OpKind::Idempotent, |mut tx| async move {
            tx.frees_space();
            let key = tx.keys.life();
            tx.put(&key, life.to_vec())?;
            Ok((tx, ()))
        })
        .await
    }

    async fn recover_lent(
        &self,
        ino: Ino,
        blob: u64,
        record: BackingRecord,
        same: bool,
    ) -> Result<()> {
        let Some(local) = &self.0.local else {
            return Ok(());
        };
        let inode = self
            .view(|mut tx| async move {
                let inode = tx.find_inode(ino, Read::Snapshot).await?;
                Ok((tx, inode))
            })
            .await?;
        let own =
            inode.as_ref().is_some_and(|inode| inode.form == Form::Local && inode.blob == blob);
        let counts = inode.is_some() && (same || own || record.synced);
        let opened = if counts {
            local.home.open(local.place(blob))
        } else {
            Err(std::io::ErrorKind::NotFound.into())
        };
        match opened {
            Ok(file) => {
                let base = Stat {
                    len: inode.map_or(0, |inode| inode.size),
                    changed: (record.base.secs, record.base.nanos),
                    ..Stat::default()
                };
                let file = LocalFile::new(ino, local.backed(blob, file), own, base, true);
                if record.suspect {
                    self.recover_suspect(local, &file, same).await?;
                }
                file.synced.store(record.synced, Ordering::Release);
                local.insert(file);
                local.closed(ino, Duration::ZERO);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if counts {
                    tracing::error!(
                        ino,
                        blob,
                        home = local.home.describe(),
                        "the file with an inode's bytes is missing: what its record has is shown"
                    );
                }
                self.change(OpKind::Idempotent, |mut tx| async move {
                    tx.frees_space();
                    // An inode that owns it says so itself; its bytes are lost.
                    match own {
                        true => tx.delete_backing(blob)?,
                        false => tx.put_backing(blob, BackingRecord::default())?,
                    }
                    Ok((tx, ()))
                })
                .await?;
                if !own {
                    local.pool.retire(blob, None);
                }
            }
            // Files that could be opened another time must not be taken for broken.
            Err(error) if matches!(error.raw_os_error(), Some(23 | 24)) => {
                return Err(failed("open", blob, &error));
            }
            Err(error) => {
                tracing::error!(
                    ino,
                    blob,
                    home = local.home.describe(),
                    %error,
                    "the file with an inode's bytes cannot be opened: reading it is an error"
                );
                let file = local.backed(blob, Arc::new(Unreadable::new(&error)));
                local.insert(LocalFile::new(ino, file, own, Stat::default(), true));
            }
        }
        Ok(())
    }
}
