//! Removing a volume with all that it holds, in bounded transactions that a second try finishes.
//!
//! The first transaction marks the volume's record, which keeps everybody out, and takes the sessions
//! and the epoch away, without which no session commits. Then all other keys go. The last one removes
//! the record together with the name: while anything is left the name is there to find it by, and its
//! number is not given out again.

use super::{KNOWN_FEATURES, Volume, World, check_name, decode_number, no_such_volume};
use crate::blob::block::Codec;
use crate::error::{Error, Kind, Result};
use crate::progress::{Progress, go_on};
use crate::schema::{Keys, Parsed, SessionRecord, VolumeDamage, VolumeRecord, volume_name};
use crate::session::SessionOptions;
use crate::tx::number;
use bytes::Bytes;
use kv::{Durability, Key, KeyRange, Query, Read, Txn};
use std::collections::BTreeMap;
use std::time::Duration;

/// In a volume's features that refuse: it is being destroyed. One that is being loaded has it too: nobody
/// opens it, and anybody may destroy it.
pub(crate) const NOT_WHOLE: u64 = 1 << 63;

/// Keys that one transaction removes.
const KEYS_AT_ONCE: usize = 1024;

/// How often the heartbeats of sessions that may be dead are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Volume {
    /// Removes a volume, and returns how many keys that took. Where other processes may use the store,
    /// it first looks for as long as a session may be silent whether one of the volume's is alive,
    /// and is [`Kind::Busy`] if so; on a private store sessions that are there are ended.
    ///
    /// One that was interrupted has left a volume that cannot be opened any more: destroying it again
    /// removes the rest. `progress` counts keys.
    pub async fn destroy(world: &World, name: &str, progress: &dyn Progress) -> Result<u64> {
        check_name(name)?;
        let keys = find(world, name).await?;
        let silent = match world.store.capabilities().shared {
            true => silent_sessions(world, keys, progress).await?,
            false => BTreeMap::new(),
        };
        let name_key = volume_name(name.as_bytes());
        let mark = mark(world, &name_key, keys, &silent).await?;
        // From the mark on nobody can open it. While its name is there its number is nobody else's.
        if let Some(home) = &world.home {
            let removed = home.remove_all(keys.volume_number());
            removed.map_err(|error| {
                let place = home.describe();
                Error::new(
                    Kind::Io,
                    format!("cannot remove the volume's files in {place}: {error}"),
                )
            })?;
        }
        let mut removed = 0;
        loop {
            go_on(progress)?;
            match remove_some(world, &name_key, keys, &mark).await? {
                Step::Removed(count) => removed += count,
                Step::Gone => break,
            }
            progress.advance(removed, None);
        }
        world.store.sync().await?;
        Ok(removed)
    }
}

/// What one step of the removal found.
enum Step {
    Removed(u64),
    /// Nothing is left, not even the name.
    Gone,
}

async fn find(world: &World, name: &str) -> Result<Keys> {
    let key = &volume_name(name.as_bytes());
    let found = world
        .store
        .transact_send(Durability::Process, |mut txn, _| async move {
            let found = txn.get(key, Read::Snapshot).await?.ok_or_else(no_such_volume)?;
            Ok::<_, Error>((txn, decode_number(key, &found)?))
        })
        .await?;
    Ok(Keys::new(found.value))
}

/// Sessions with their heartbeats, and a word on who each is.
pub(crate) type Beats = BTreeMap<u64, (u64, String)>;

async fn heartbeats(txn: &mut Txn, keys: Keys) -> Result<Beats> {
    let mut beats = Beats::new();
    let mut next = Some(Query::new(keys.sessions()));
    while let Some(query) = next {
        let page = txn.range(&query, Read::Serializable).await?;
        for (key, value) in page.iter() {
            match keys.parse(key) {
                Some(Parsed::Session { session }) => {
                    let who = match SessionRecord::decode(key, value) {
                        Some(record) => format!("process {} on {:?}", record.pid, record.host),
                        None => format!("session {session}"),
                    };
                    beats.entry(session).or_default().1 = who;
                }
                Some(Parsed::Heartbeat { session }) => {
                    beats.entry(session).or_default().0 = number(value);
                }
                _ => {}
            }
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    Ok(beats)
}

/// The first session that is new or has shown progress.
fn lively<'a>(before: &Beats, now: &'a Beats) -> Option<&'a str> {
    let moved = |(id, (beat, _)): &(&u64, &(u64, String))| {
        before.get(id).is_none_or(|(before, _)| before != beat)
    };
    now.iter().find(moved).map(|(_, (_, who))| who.as_str())
}

fn busy(who: &str) -> Error {
    Error::new(Kind::Busy, format!("the volume is in use by {who}: unmount it there first"))
}

/// Waits until every session has been silent for as long as none may be.
pub(crate) async fn silent_sessions(
    world: &World,
    keys: Keys,
    progress: &dyn Progress,
) -> Result<Beats> {
    let before = heartbeats(&mut world.store.begin().await?, keys).await?;
    if before.is_empty() {
        return Ok(before);
    }
    let until = world.clock.now() + SessionOptions::default().dead_after;
    loop {
        go_on(progress)?;
        world.clock.sleep(LOOK_EVERY).await;
        let now = heartbeats(&mut world.store.begin().await?, keys).await?;
        if let Some(who) = lively(&before, &now) {
            return Err(busy(who));
        }
        if world.clock.now() >= until {
            return Ok(before);
        }
    }
}

/// Keeps everybody out of the volume. Returns the marked record.
async fn mark(world: &World, name_key: &Key, keys: Keys, silent: &Beats) -> Result<Bytes> {
    let shared = world.store.capabilities().shared;
    // For a volume whose record is lost: what it says is of no interest any more.
    let lost = VolumeRecord {
        features_refuse: NOT_WHOLE,
        features_read_only: 0,
        uuid: u128::from(world.random.next_u64()),
        chunk_bytes: 1 << 20,
        block_bytes: 1 << 16,
        inline_bytes_max: 0,
        codec: Codec::None,
        parity_group: 0,
        capacity_bytes: 0,
        inodes_max: 0,
        created: world.now(),
    };
    let lost = &lost;
    let done = world
        .store
        .transact_send(Durability::Synced, |mut txn, _| async move {
            txn.frees_space();
            still_named(&mut txn, name_key, keys).await?;
            let key = keys.volume();
            let found = txn.get(&key, Read::Serializable).await?;
            let mut record = match found.as_deref().map(|found| VolumeRecord::decode(&key, found)) {
                Some(Ok(record)) => record,
                None | Some(Err(VolumeDamage::Damaged)) => lost.clone(),
                Some(Err(VolumeDamage::Newer(_))) => return Err(unknown_volume()),
            };
            let features = record.features_refuse | record.features_read_only;
            if features & !(KNOWN_FEATURES | NOT_WHOLE) != 0 {
                return Err(unknown_volume());
            }
            if shared && let Some(who) = lively(silent, &heartbeats(&mut txn, keys).await?) {
                return Err(busy(who));
            }
            record.features_refuse |= NOT_WHOLE;
            let record = Bytes::from(record.encode(&key));
            txn.put(&key, record.clone())?;
            txn.delete_range(&keys.sessions())?;
            txn.delete(&keys.epoch())?;
            Ok::<_, Error>((txn, record))
        })
        .await?;
    Ok(done.value)
}

fn unknown_volume() -> Error {
    Error::new(
        Kind::Format,
        "the volume was made by a newer program, which alone knows what belongs to it: use that one",
    )
}

/// Fails when the name stands for another volume by now, or for none.
async fn still_named(txn: &mut Txn, name_key: &Key, keys: Keys) -> Result<()> {
    let found = txn.get(name_key, Read::Serializable).await?.ok_or_else(no_such_volume)?;
    if Keys::new(decode_number(name_key, &found)?) != keys {
        return Err(no_such_volume());
    }
    Ok(())
}

/// Removes some keys; without any left, the mark and the name. The mark is read each time: a volume
/// that was made anew under the same number does not have it.
async fn remove_some(world: &World, name_key: &Key, keys: Keys, mark: &Bytes) -> Result<Step> {
    let all = keys.all();
    let record_key = &keys.volume();
    let behind = KeyRange { start: record_key.successor(), end: all.end };
    let before = KeyRange { start: all.start, end: record_key.clone() };
    let parts = &[behind, before];
    let done = world
        .store
        .transact_send(Durability::Process, |mut txn, _| async move {
            txn.frees_space();
            let found = txn.get(record_key, Read::Serializable).await?;
            if found.as_ref() != Some(mark) {
                // Also after an unknown commit: whoever removed it, it was the last to go.
                return Ok::<_, Error>((txn, Step::Gone));
            }
            for part in parts {
                let query = Query::new(part.clone()).limit(KEYS_AT_ONCE);
                let page = txn.range(&query, Read::Serializable).await?;
                if let (Some((first, _)), Some(last)) = (page.get(0), page.last_key()) {
                    let range = KeyRange { start: Key::new(first), end: last.successor() };
                    txn.delete_range(&range)?;
                    return Ok((txn, Step::Removed(page.len() as u64)));
                }
            }
            still_named(&mut txn, name_key, keys).await?;
            txn.delete(record_key)?;
            txn.delete(name_key)?;
            Ok((txn, Step::Removed(2)))
        })
        .await?;
    Ok(done.value)
}
