//! A volume that is being loaded: it has another name and cannot be opened, until one transaction makes
//! it whole. Making it, finishing it, and removing what is left of one.

use super::LoadOptions;
use super::record::VolumeFrame;
use crate::error::{Error, Kind, Result, exists, stale};
use crate::schema::{Keys, VolumeRecord, volume_name};
use crate::session::{Session, SessionOptions, Sharing};
use crate::types::NAME_BYTES_MAX;
use crate::volume::{
    NOT_WHOLE, Volume, World, block_bytes_for, decode_number, encode_number, free_number,
};
use base::checksum::hash64;
use bytes::Bytes;
use kv::{Durability, Key, Query, Read};

/// Keys that one transaction removes.
const KEYS_AT_ONCE: usize = 1024;
const SUFFIX: &str = ".loading";

/// What a volume is called while it is loaded.
pub fn loading_name(name: &str) -> String {
    match name.len() + SUFFIX.len() <= NAME_BYTES_MAX {
        true => format!("{name}{SUFFIX}"),
        false => format!("{:016x}{SUFFIX}", hash64(0, name.as_bytes())),
    }
}

/// Refuses a name that a volume has, or that none can have.
pub(super) async fn check_free(world: &World, name: &str) -> Result<()> {
    match Volume::open(world, name).await {
        Err(error) if error.kind() == Kind::NotFound => Ok(()),
        Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Format) => Err(name_taken()),
        Err(error) => Err(error),
        Ok(_) => Err(name_taken()),
    }
}

fn name_taken() -> Error {
    exists("a volume of this name exists already: load under another one, or destroy it first")
}

/// The record that the whole volume will have.
pub(super) fn record_of(
    world: &World,
    volume: &VolumeFrame,
    options: &LoadOptions,
) -> VolumeRecord {
    let block_bytes = options.block_bytes.unwrap_or_else(|| block_bytes_for(&world.store));
    VolumeRecord {
        features_refuse: 0,
        features_read_only: 0,
        uuid: volume.uuid,
        chunk_bytes: volume.chunk_bytes,
        block_bytes,
        inline_bytes_max: options.inline_bytes_max.unwrap_or(block_bytes / 4),
        codec: volume.codec,
        parity_group: volume.parity_group,
        capacity_bytes: volume.capacity_bytes,
        inodes_max: volume.inodes_max,
        created: volume.created,
    }
}

/// A volume that is not whole, and the session that fills it.
pub(super) struct Unfinished {
    pub(super) session: Session,
    name: Key,
    loading: Key,
    number: u16,
    /// The record by which it is known: its uuid was drawn for this load.
    mark: Bytes,
}

impl Unfinished {
    pub(super) async fn make(
        world: &World,
        name: &str,
        record: &VolumeRecord,
        next_inode: u64,
    ) -> Result<Self> {
        let called = loading_name(name);
        let loading = volume_name(called.as_bytes());
        remove_left(world, &loading, &called).await?;
        let drawn = || u128::from(world.random.next_u64());
        // Without bounds: blocks of another size may take more than they did.
        let filled = VolumeRecord {
            uuid: drawn() << 64 | drawn(),
            capacity_bytes: 0,
            inodes_max: 0,
            ..record.clone()
        };
        if !filled.is_sound() {
            return Err(crate::error::invalid(
                "a block is a power of two from 1 KiB to 1 MiB, and an inline file at most a block",
            ));
        }
        let number = claim(world, &loading, &filled).await?;
        // As it is now it could be opened, so this finds it; and nothing could be done with it, for it
        // has no epoch.
        let volume = Volume::open(world, &called).await;
        let keys = Keys::new(number);
        let claimed = Bytes::from(filled.encode(&keys.volume()));
        let marked = VolumeRecord { features_refuse: NOT_WHOLE, ..filled };
        let mark = Bytes::from(marked.encode(&keys.volume()));
        let volume = match volume {
            Ok(volume) => volume,
            Err(error) => {
                let _ = remove(world, &loading, number).await;
                return Err(error);
            }
        };
        enter(world, keys, [&claimed, &mark], next_inode).await?;
        let options = SessionOptions { sharing: Sharing::Private, ..SessionOptions::default() };
        let session = Session::start(&volume, options).await?;
        Ok(Self { session, name: volume_name(name.as_bytes()), loading, number, mark })
    }

    /// Makes it whole, under its own name.
    pub(super) async fn finish(&self, record: &VolumeRecord) -> Result<()> {
        let world = &self.session.0.volume.world;
        let keys = Keys::new(self.number);
        let whole = &Bytes::from(record.encode(&keys.volume()));
        world.store.sync().await?;
        world
            .store
            .transact_send(Durability::Synced, |mut txn, attempt| async move {
                let named = txn.get(&self.name, Read::Serializable).await?;
                let found = txn.get(&keys.volume(), Read::Serializable).await?;
                let number = encode_number(&self.name, self.number);
                let done = named.as_deref() == Some(&number[..]) && found.as_ref() == Some(whole);
                if attempt.maybe_committed && done {
                    return Ok((txn, ()));
                }
                if named.is_some() {
                    return Err(name_taken());
                }
                // Who takes over removes the session first: without it, more may be gone.
                let own = txn.get(&self.session.0.session_key, Read::Serializable).await?;
                if found.as_ref() != Some(&self.mark) || own.is_none() {
                    return Err(taken_over());
                }
                txn.put(&keys.volume(), whole.clone())?;
                txn.delete_range(&keys.sessions())?;
                txn.delete(&self.loading)?;
                txn.put(&self.name, number)?;
                Ok::<_, Error>((txn, ()))
            })
            .await?;
        Ok(())
    }

    /// Removes it, unless somebody else has it by now.
    pub(super) async fn remove(&self) -> Result<()> {
        let world = &self.session.0.volume.world;
        clear(world, &self.loading, self.number, &self.mark).await
    }
}

fn taken_over() -> Error {
    stale("another load of the same name has taken the place of this one")
}

/// Takes a number and the name for the time of loading.
async fn claim(world: &World, loading: &Key, record: &VolumeRecord) -> Result<u16> {
    let done = world
        .store
        .transact_send(Durability::Process, |mut txn, attempt| async move {
            if let Some(found) = txn.get(loading, Read::Serializable).await? {
                let number = decode_number(loading, &found)?;
                let key = Keys::new(number).volume();
                let found = txn.get(&key, Read::Serializable).await?;
                let own = found.is_some_and(|found| found == record.encode(&key));
                if attempt.maybe_committed && own {
                    return Ok((txn, number));
                }
                return Err(taken_over());
            }
            let number = free_number(&mut txn).await?;
            let key = Keys::new(number).volume();
            txn.put(loading, encode_number(loading, number))?;
            txn.put(&key, record.encode(&key))?;
            Ok::<_, Error>((txn, number))
        })
        .await?;
    Ok(done.value)
}

/// Makes sessions possible, and keeps out everybody who has no session yet.
async fn enter(world: &World, keys: Keys, records: [&Bytes; 2], next_inode: u64) -> Result<()> {
    let [claimed, mark] = records;
    world
        .store
        .transact_send(Durability::Process, |mut txn, _| async move {
            let found = txn.get(&keys.volume(), Read::Serializable).await?.unwrap_or_default();
            // The mark is there after an unknown commit.
            if found != *claimed && found != *mark {
                return Err(taken_over());
            }
            txn.put(&keys.volume(), mark.clone())?;
            txn.put(&keys.epoch(), 1u64.to_le_bytes().to_vec())?;
            txn.put(&keys.next_inode(), next_inode.to_le_bytes().to_vec())?;
            Ok::<_, Error>((txn, ()))
        })
        .await?;
    Ok(())
}

/// Removes what a load has left that did not come to its end.
async fn remove_left(world: &World, loading: &Key, called: &str) -> Result<()> {
    let found = world
        .store
        .transact_send(Durability::Process, |mut txn, _| async move {
            let number = match txn.get(loading, Read::Snapshot).await? {
                Some(found) => Some(decode_number(loading, &found)?),
                None => None,
            };
            Ok::<_, Error>((txn, number))
        })
        .await?;
    let Some(number) = found.value else { return Ok(()) };
    match remove(world, loading, number).await? {
        true => Ok(()),
        false => Err(exists(format!(
            "there is a volume \"{called}\", and that name is needed for the time of loading: \
             load under another name"
        ))),
    }
}

/// Removes a volume that is not whole; false when it is.
async fn remove(world: &World, loading: &Key, number: u16) -> Result<bool> {
    let keys = Keys::new(number);
    let done = world
        .store
        .transact_send(Durability::Process, |mut txn, _| async move {
            let key = keys.volume();
            let found = txn.get(&key, Read::Serializable).await?;
            let epoch = txn.get(&keys.epoch(), Read::Serializable).await?;
            let record = found.as_deref().and_then(|found| VolumeRecord::decode(&key, found).ok());
            let marked = record.is_some_and(|record| record.features_refuse & NOT_WHOLE != 0);
            let left = marked || epoch.is_none();
            Ok::<_, Error>((txn, left.then(|| found.unwrap_or_default())))
        })
        .await?;
    match done.value {
        Some(mark) => clear(world, loading, number, &mark).await.map(|()| true),
        None => Ok(false),
    }
}

/// Removes all keys of a volume, while its record is `mark`, and its record and name at the end. First
/// its sessions: without them nobody writes to it any more.
async fn clear(world: &World, loading: &Key, number: u16, mark: &Bytes) -> Result<()> {
    let keys = Keys::new(number);
    loop {
        let done = world
            .store
            .transact_send(Durability::Process, |mut txn, _| async move {
                let key = keys.volume();
                let found = txn.get(&key, Read::Serializable).await?.unwrap_or_default();
                let named = txn.get(loading, Read::Serializable).await?;
                let named = named.as_deref() == Some(&encode_number(loading, number)[..]);
                if found != *mark || !named {
                    return Ok((txn, true));
                }
                txn.delete_range(&keys.sessions())?;
                // The record is the first key of all.
                let mut range = keys.all();
                range.start = key.successor();
                let query = Query::new(range.clone()).limit(KEYS_AT_ONCE);
                let page = txn.range(&query, Read::Serializable).await?;
                let Some(last) = page.last_key() else {
                    txn.delete(&key)?;
                    txn.delete(loading)?;
                    return Ok::<_, Error>((txn, true));
                };
                range.end = last.successor();
                txn.delete_range(&range)?;
                Ok((txn, false))
            })
            .await?;
        if done.value {
            return Ok(());
        }
    }
}
