//! A volume: one filesystem inside a store. Making one, finding it again, changing its options, and
//! removing it.

mod destroy;

pub(crate) use destroy::{NOT_WHOLE, silent_sessions};

use crate::blob::block::Codec;
use crate::error::{Error, Kind, Result, corrupt, exists, invalid, not_found, too_long};
use crate::schema::{
    Counter, Inode, Keys, Parsed, VOLUMES_MAX, VolumeDamage, VolumeRecord, codec, volume_name,
    volume_names,
};
use crate::types::{NAME_BYTES_MAX, ROOT, Time, mode};
use base::{Clock, Random};
use kv::{Durability, Query, Read, Store};
use std::sync::Arc;

/// The first number that the allocator gives out: those below are kept for what is to come.
pub(crate) const FIRST_INODE: u64 = 256;

/// Features of volumes that this program knows; see [`VolumeRecord`].
const KNOWN_FEATURES: u64 = 0;

/// What the core needs of the world.
#[derive(Debug, Clone)]
pub struct World {
    /// The store.
    pub store: Store,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Where whole files live, if there is such a place beside the store.
    pub home: Option<Arc<dyn home::Home>>,
}

impl World {
    /// The time of day.
    pub(crate) fn now(&self) -> Time {
        let (secs, nanos) = self.clock.wall();
        Time { secs, nanos }
    }
}

/// How a new volume is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatOptions {
    /// Bytes of a chunk: 1, 2, 4 or 8 MiB.
    pub chunk_bytes: u32,
    /// Bytes of a block; what the engine's values hold when `None`, 64 KiB at most.
    pub block_bytes: Option<u32>,
    /// The largest file that is kept inline; a quarter of a block when `None`.
    pub inline_bytes_max: Option<u32>,
    /// How blocks are compressed.
    pub codec: Codec,
    /// Blocks in a group that shares parity; 0 for no parity.
    pub parity_group: u8,
    /// Bytes that data may take; 0 for no bound.
    pub capacity_bytes: u64,
    /// Inodes that there may be; 0 for no bound.
    pub inodes_max: u64,
    /// The owner of the root directory.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its permission bits.
    pub mode: u32,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: 4 << 20,
            block_bytes: None,
            inline_bytes_max: None,
            codec: Codec::Lz4,
            parity_group: 0,
            capacity_bytes: 0,
            inodes_max: 0,
            uid: 0,
            gid: 0,
            mode: 0o755,
        }
    }
}

/// What to change of a volume's options; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VolumeChanges {
    /// Bytes that data may take; 0 for no bound. What is there already stays, also above it.
    pub capacity_bytes: Option<u64>,
    /// Inodes that there may be; 0 for no bound. Those that are there stay, also above it.
    pub inodes_max: Option<u64>,
    /// How new blocks are compressed. Old ones stay as they are.
    pub codec: Option<Codec>,
}

/// Room that a block's header and parity's list of members need in a value.
const VALUE_SLACK: usize = 4096;

/// The block size that an engine's values allow.
pub(crate) fn block_bytes_for(store: &Store) -> u32 {
    let value = store.capabilities().value_bytes_max.saturating_sub(VALUE_SLACK);
    let bound = u32::try_from(value).unwrap_or(u32::MAX).clamp(1024, 65_536);
    // The greatest power of two that fits.
    1 << bound.ilog2()
}

/// A volume of a store.
#[derive(Debug, Clone)]
pub struct Volume {
    pub(crate) world: World,
    pub(crate) keys: Keys,
    pub(crate) record: Arc<VolumeRecord>,
    name: Arc<str>,
}

impl Volume {
    /// Makes a new volume, with nothing but its root directory in it.
    pub async fn format(world: &World, name: &str, options: &FormatOptions) -> Result<Volume> {
        check_name(name)?;
        let block_bytes = options.block_bytes.unwrap_or_else(|| block_bytes_for(&world.store));
        let record = VolumeRecord {
            features_refuse: 0,
            features_read_only: 0,
            uuid: u128::from(world.random.next_u64()) << 64 | u128::from(world.random.next_u64()),
            chunk_bytes: options.chunk_bytes,
            block_bytes,
            inline_bytes_max: options.inline_bytes_max.unwrap_or(block_bytes / 4),
            codec: options.codec,
            parity_group: options.parity_group,
            capacity_bytes: options.capacity_bytes,
            inodes_max: options.inodes_max,
            created: world.now(),
        };
        check_sizes(&record, &world.store)?;
        let name_key = volume_name(name.as_bytes());
        let (name_key, record_ref) = (&name_key, &record);
        let made = world
            .store
            .transact_send(Durability::Synced, |mut txn, attempt| async move {
                let found = txn.get(name_key, Read::Serializable).await?;
                if let Some(found) = found {
                    let number = decode_number(name_key, &found)?;
                    let keys = Keys::new(number);
                    let mine = txn.get(&keys.volume(), Read::Serializable).await?;
                    // After an unknown commit: the volume with this number drawn at random is ours.
                    let same = mine.is_some_and(|bytes| bytes == record_ref.encode(&keys.volume()));
                    if attempt.maybe_committed && same {
                        return Ok((txn, number));
                    }
                    return Err(exists("a volume of this name exists already"));
                }
                let number = free_number(&mut txn).await?;
                let keys = Keys::new(number);
                txn.put(name_key, encode_number(name_key, number))?;
                txn.put(&keys.volume(), record_ref.encode(&keys.volume()))?;
                txn.put(&keys.epoch(), 1u64.to_le_bytes().to_vec())?;
                txn.put(&keys.next_inode(), FIRST_INODE.to_le_bytes().to_vec())?;
                let bits = mode::DIRECTORY | options.mode & mode::PERMISSIONS;
                let mut root = Inode::new(ROOT, bits, options.uid, options.gid, record_ref.created);
                root.parent = ROOT;
                let root_key = keys.inode(ROOT);
                txn.put(&root_key, root.encode(&root_key, ROOT))?;
                txn.add(&keys.counter(0, Counter::Inodes), 1)?;
                Ok((txn, number))
            })
            .await?;
        Ok(Self {
            world: world.clone(),
            keys: Keys::new(made.value),
            record: Arc::new(record),
            name: name.into(),
        })
    }

    /// Finds a volume by its name.
    pub async fn open(world: &World, name: &str) -> Result<Volume> {
        check_name(name)?;
        let name_key = volume_name(name.as_bytes());
        let name_key = &name_key;
        let found = world
            .store
            .transact_send(Durability::Process, |mut txn, _| async move {
                let found = find(&mut txn, name_key).await?;
                Ok::<_, Error>((txn, found))
            })
            .await?;
        let (number, record) = found.value;
        check_sizes(&record, &world.store)?;
        Ok(Self {
            world: world.clone(),
            keys: Keys::new(number),
            record: Arc::new(record),
            name: name.into(),
        })
    }

    /// Changes options of a volume. Sessions that have begun go on with what it said then.
    pub async fn set_options(world: &World, name: &str, changes: &VolumeChanges) -> Result<Volume> {
        check_name(name)?;
        let name_key = &volume_name(name.as_bytes());
        world
            .store
            .transact_send(Durability::Synced, |mut txn, _| async move {
                let (number, mut record) = find(&mut txn, name_key).await?;
                record.capacity_bytes = changes.capacity_bytes.unwrap_or(record.capacity_bytes);
                record.inodes_max = changes.inodes_max.unwrap_or(record.inodes_max);
                record.codec = changes.codec.unwrap_or(record.codec);
                let key = Keys::new(number).volume();
                txn.put(&key, record.encode(&key))?;
                Ok::<_, Error>((txn, ()))
            })
            .await?;
        Self::open(world, name).await
    }

    /// The names of a store's volumes.
    pub async fn list(world: &World) -> Result<Vec<String>> {
        let query = Query::new(volume_names());
        let mut txn = world.store.begin().await?;
        let mut names = Vec::new();
        let mut next = Some(query);
        while let Some(query) = next {
            let page = txn.range(&query, Read::Snapshot).await?;
            for (key, _) in page.iter() {
                let name = key.get(3..).unwrap_or_default();
                names.push(String::from_utf8_lossy(name).into_owned());
            }
            next = if page.more { query.behind(&page) } else { None };
        }
        Ok(names)
    }

    /// Its name in the store.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is.
    pub fn record(&self) -> &VolumeRecord {
        &self.record
    }

    /// Its keys.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// The world that it is in.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// What a key of this volume is, for messages.
    pub(crate) fn describe(&self, key: &[u8]) -> String {
        match self.keys.parse(key) {
            Some(Parsed::Entry { parent, name }) => {
                format!("entry \"{}\" of directory {parent}", name.escape_ascii())
            }
            Some(parsed) => format!("{parsed:?}"),
            None => format!("\"{}\"", key.escape_ascii()),
        }
    }
}

/// A volume's number and its record, when this program can use it.
async fn find(txn: &mut kv::Txn, name_key: &kv::Key) -> Result<(u16, VolumeRecord)> {
    let found = txn.get(name_key, Read::Serializable).await?.ok_or_else(no_such_volume)?;
    let number = decode_number(name_key, &found)?;
    let key = Keys::new(number).volume();
    let Some(record) = txn.get(&key, Read::Serializable).await? else {
        return Err(corrupt("the volume's record is missing"));
    };
    let record = VolumeRecord::decode(&key, &record).map_err(|damage| match damage {
        VolumeDamage::Damaged => corrupt("the volume's record is damaged"),
        VolumeDamage::Newer(version) => Error::new(
            Kind::Format,
            format!(
                "the volume has format {version}, which this program does not know: use a newer one"
            ),
        ),
    })?;
    if record.features_refuse & NOT_WHOLE != 0 {
        return Err(Error::new(
            Kind::Format,
            "the volume is not whole: it is being destroyed or loaded, or was until that program ended; \
             destroy it to remove what is left",
        ));
    }
    if (record.features_refuse | record.features_read_only) & !KNOWN_FEATURES != 0 {
        return Err(Error::new(
            Kind::Format,
            "the volume uses features that this program does not know: use a newer one",
        ));
    }
    Ok((number, record))
}

fn no_such_volume() -> Error {
    not_found("there is no volume of this name in the store")
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.bytes().any(|byte| byte == 0 || byte == b'/' || byte < 0x20) {
        return Err(invalid(
            "a volume's name has at least one character, and no / or control ones",
        ));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(too_long("a volume's name has at most 255 bytes"));
    }
    Ok(())
}

fn check_sizes(record: &VolumeRecord, store: &Store) -> Result<()> {
    if !record.is_sound() {
        return Err(invalid(
            "a chunk has 1, 2, 4 or 8 MiB; a block is a power of two from 1 KiB to 1 MiB; \
             an inline file is at most a block; a parity group has at most 64 blocks",
        ));
    }
    let value = store.capabilities().value_bytes_max;
    if record.block_bytes as usize + 64 > value {
        return Err(invalid(format!(
            "blocks of {} bytes do not fit the values of {}, which have at most {value}",
            record.block_bytes,
            store.capabilities().name
        )));
    }
    Ok(())
}

pub(crate) fn encode_number(key: &[u8], number: u16) -> Vec<u8> {
    let mut out = codec::Writer::default();
    out.number(number.into());
    out.seal(key)
}

pub(crate) fn decode_number(key: &[u8], record: &[u8]) -> Result<u16> {
    let read = || {
        let mut from = codec::unseal(key, record)?;
        let number = u16::try_from(from.number()?).ok()?;
        from.end()?;
        (1..=VOLUMES_MAX).contains(&number).then_some(number)
    };
    read().ok_or_else(|| corrupt("the record of the volume's name is damaged"))
}

/// The first number above those that are taken under which nothing is left.
pub(crate) async fn free_number(txn: &mut kv::Txn) -> Result<u16> {
    let mut highest = 0;
    let mut next = Some(Query::new(volume_names()));
    while let Some(query) = next {
        let page = txn.range(&query, Read::Serializable).await?;
        for (key, value) in page.iter() {
            highest = highest.max(decode_number(key, value)?);
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    for number in highest + 1..=VOLUMES_MAX {
        let query = Query::new(Keys::new(number).all()).limit(1);
        if txn.range(&query, Read::Serializable).await?.is_empty() {
            return Ok(number);
        }
    }
    Err(Error::new(Kind::NoSpace, "the store has as many volumes as it can have"))
}
