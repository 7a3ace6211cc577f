//! How sessions begin and end.

use super::{
    Counts, Handles, Known, Numbers, OpLog, OpenFiles, Peers, Places, Session, SessionOptions,
    Shared, Sharing, asked, times,
};
use crate::error::{Error, Kind, Result};
use crate::local::Local;
use crate::schema::{Job, Keys, Parsed, SessionRecord, VolumeRecord};
use crate::volume::Volume;
use base::sync::Mutex;
use kv::{Durability, Query, Read, Txn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Sessions of the dead that one transaction buries.
const BURIED_AT_ONCE: usize = 16;

impl Session {
    /// Begins a session.
    pub async fn start(volume: &Volume, mut options: SessionOptions) -> Result<Session> {
        let open_before = std::mem::take(&mut options.open_before);
        let capabilities = volume.world.store.capabilities();
        let private = match options.sharing {
            Sharing::Auto => !capabilities.shared,
            Sharing::Private => true,
            Sharing::Shared => false,
        };
        let record = SessionRecord {
            host: options.host.clone(),
            pid: options.pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: volume.world.now(),
        };
        let replies = match options.takes_over {
            true => asked::inherit(volume).await?,
            false => asked::Replies::default(),
        };
        if private {
            while bury(volume).await? {}
        }
        let id = enroll(volume, &record).await?;
        let keys = volume.keys;
        let home = volume.world.home.as_ref().filter(|_| private);
        let local = home.map(|home| Local::new(Arc::clone(home), keys.volume_number()));
        let bounded = volume.record.parity_group > 0 || volume.record.capacity_bytes > 0;
        let session = Session(
            Arc::new(Shared {
                volume: volume.clone(),
                id,
                private,
                native_atomics: capabilities.native.atomics,
                session_key: keys.session(id),
                epoch_key: keys.epoch(),
                open: OpenFiles::default(),
                lends: home.is_some_and(|home| !home.is_read_only()) && options.local && !bounded,
                local,
                handles: Handles::new(options.handles_max, options.handles_from),
                times: times::AccessTimes::default(),
                known: Known::default(),
                places: Places::default(),
                // What a crash has left behind.
                jobs_waiting: AtomicBool::new(true),
                beaten: AtomicU64::new(0),
                staging: Mutex::default(),
                counts: Counts::default(),
                observer: Mutex::default(),
                log_ops: capabilities.unknown_commits,
                ended: AtomicBool::new(false),
                ops: Mutex::new(OpLog::new()),
                replies,
                numbers: Numbers::default(),
                peers: Peers::default(),
                options,
            }),
            None,
        );
        if session.0.options.takes_over {
            session.0.keep_inherited().await?;
            session.hold_nameless().await?;
        }
        // Before anything is settled.
        for (ino, way) in open_before {
            session.0.open.open_before(ino, way);
        }
        session.recover_local().await?;
        Ok(session)
    }

    /// Ends this session in good order: access times are written, what it holds is given up, and
    /// everything that it did is durable.
    pub async fn stop(&self) -> Result<()> {
        self.flush_times().await?;
        self.settle_all().await?;
        // What is open still counts as it is, also after the next start of the machine.
        self.sync_lent().await?;
        let id = self.0.id;
        // What is left to do is done before the key goes: afterwards this session can do nothing.
        self.run_reap_of(id).await?;
        match self.end_peer(id, None).await {
            Ok(_) => {}
            // An unknown commit that did happen: the key is gone, as was wanted.
            Err(error) if error.kind() == Kind::Stale => {}
            Err(error) => return Err(error),
        }
        self.0.ended.store(true, Ordering::Release);
        self.wake_tender();
        self.sync_store().await
    }
}

/// Takes a number that no session has, and writes the session's records.
async fn enroll(volume: &Volume, record: &SessionRecord) -> Result<u64> {
    let (keys, held) = (volume.keys, &volume.record);
    let random = &volume.world.random;
    // The number is drawn once: after an unknown commit a record under it is ours.
    let id = (random.next_u64() >> 1).max(1);
    volume
        .world
        .store
        .transact_send(Durability::Process, |mut txn, attempt| async move {
            // Who wants to make room on a full disk must get in.
            txn.frees_space();
            // Its number may have gone to another volume since it was opened.
            let volume_key = keys.volume();
            let there = txn.get(&volume_key, Read::Serializable).await?;
            let there = there.and_then(|found| VolumeRecord::decode(&volume_key, &found).ok());
            // A copy that was loaded has the same uuid, and perhaps other sizes.
            let same = |found: &VolumeRecord| {
                (found.uuid, found.chunk_bytes, found.block_bytes, found.inline_bytes_max)
                    == (held.uuid, held.chunk_bytes, held.block_bytes, held.inline_bytes_max)
            };
            if !there.as_ref().is_some_and(same) {
                return Err(Error::new(Kind::NotFound, "the volume was destroyed: open it again"));
            }
            let key = keys.session(id);
            let bytes = record.encode(&key);
            match txn.get(&key, Read::Serializable).await? {
                None => {}
                Some(found) if attempt.maybe_committed && found == bytes => return Ok((txn, ())),
                Some(_) => {
                    return Err(Error::new(
                        Kind::Busy,
                        "a session of the same number: start again",
                    ));
                }
            }
            txn.put(&key, bytes)?;
            txn.put(&keys.heartbeat(id), 0u64.to_le_bytes().to_vec())?;
            Ok::<_, Error>((txn, ()))
        })
        .await?;
    Ok(id)
}

/// On a private store every session that is found is that of a process that died. True when there
/// are more.
pub(crate) async fn bury(volume: &Volume) -> Result<bool> {
    let keys = volume.keys;
    let random = &volume.world.random;
    let done = volume
        .world
        .store
        .transact_send(Durability::Process, |mut txn, _| async move {
            txn.frees_space();
            let query = Query::new(keys.sessions()).limit(2 * BURIED_AT_ONCE);
            let page = txn.range(&query, Read::Serializable).await?;
            for (key, _) in page.iter() {
                txn.delete(key)?;
                if let Some(Parsed::Session { session }) = keys.parse(key) {
                    put_reap(&mut txn, keys, random.next_u64() >> 1, session).await?;
                }
            }
            Ok::<_, Error>((txn, page.more))
        })
        .await?;
    Ok(done.value)
}

async fn put_reap(txn: &mut Txn, keys: Keys, mut job: u64, session: u64) -> Result<()> {
    while txn.get(&keys.job(job), Read::Serializable).await?.is_some() {
        job += 1;
    }
    let key = keys.job(job);
    txn.put(&key, Job::Reap { session, next: 0 }.encode(&key))?;
    Ok(())
}
