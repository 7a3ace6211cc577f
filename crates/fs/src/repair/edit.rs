//! One transaction of a repair: it knows whether it changes anything, and that nobody has a session.

use crate::error::{Error, Kind, Result};
use crate::schema::{Inode, Keys, MapEntry};
use crate::tx::number;
use crate::types::Ino;
use crate::volume::Volume;
use bytes::Bytes;
use kv::{Key, KeyRange, Page, Query, Read, Txn};

/// A transaction.
pub(super) struct Edit<'a> {
    pub(super) txn: Txn,
    pub(super) volume: &'a Volume,
    pub(super) keys: Keys,
    /// Whether something is written that was not so before.
    pub(super) changed: bool,
}

impl<'a> Edit<'a> {
    /// Fails when somebody has begun a session meanwhile, and conflicts with who does.
    pub(super) async fn new(volume: &'a Volume, txn: Txn) -> Result<Self> {
        let mut edit = Self { txn, volume, keys: volume.keys(), changed: false };
        let sessions = edit.keys.sessions();
        if !edit.range(&Query::new(sessions).limit(1)).await?.is_empty() {
            let words =
                "the volume came into use while it was repaired: unmount it, then repair it";
            return Err(Error::new(Kind::Busy, words));
        }
        Ok(edit)
    }

    pub(super) async fn get(&mut self, key: &Key) -> Result<Option<Bytes>> {
        Ok(self.txn.get(key, Read::Serializable).await?)
    }

    pub(super) async fn range(&mut self, query: &Query) -> Result<Page> {
        Ok(self.txn.range(query, Read::Serializable).await?)
    }

    pub(super) async fn put(&mut self, key: &Key, value: impl Into<Bytes>) -> Result<()> {
        let value = value.into();
        if self.get(key).await?.as_ref() != Some(&value) {
            self.txn.put(key, value)?;
            self.changed = true;
        }
        Ok(())
    }

    pub(super) async fn delete(&mut self, key: &Key) -> Result<()> {
        if self.get(key).await?.is_some() {
            self.txn.delete(key)?;
            self.changed = true;
        }
        Ok(())
    }

    pub(super) async fn delete_range(&mut self, range: &KeyRange) -> Result<()> {
        if !self.range(&Query::new(range.clone()).limit(1)).await?.is_empty() {
            self.txn.delete_range(range)?;
            self.changed = true;
        }
        Ok(())
    }

    /// A plain number; none when it is missing or damaged.
    pub(super) async fn number(&mut self, key: &Key) -> Result<Option<u64>> {
        Ok(self.get(key).await?.filter(|value| value.len() == 8).map(|value| number(&value)))
    }

    /// Writes a count that is missing when it is 0.
    pub(super) async fn put_count(&mut self, key: &Key, count: u64) -> Result<()> {
        match count {
            // It may stand there as 0: that is as good.
            0 if self.number(key).await? == Some(0) => Ok(()),
            0 => self.delete(key).await,
            count => self.put(key, count.to_le_bytes().to_vec()).await,
        }
    }

    pub(super) async fn inode(&mut self, ino: Ino) -> Result<Option<Inode>> {
        let key = self.keys.inode(ino);
        Ok(self.get(&key).await?.and_then(|record| Inode::decode(&key, ino, &record)))
    }

    pub(super) async fn put_inode(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        let key = self.keys.inode(ino);
        self.put(&key, inode.encode(&key, ino)).await
    }

    /// A map entry; the inner one is none when it is damaged.
    pub(super) async fn map_entry(&mut self, key: &Key) -> Result<Option<Option<MapEntry>>> {
        Ok(self.get(key).await?.map(|record| MapEntry::decode(key, &record)))
    }
}
