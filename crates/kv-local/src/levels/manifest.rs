//! The manifest: the one file that says which tables and logs are the store. It is replaced whole,
//! atomically, and holds its content twice, so that damage to one copy loses nothing.

use crate::codec::{Reader, put_short};
use crate::error::{corrupt, io_error};
use crate::levels::LEVELS;
use crate::table::TableInfo;
use base::Disk;
use base::checksum::hash64;
use kv::{Error, ErrorKind, Key, Result, Version};

pub(crate) const NAME: &str = "manifest";
const NEW_NAME: &str = "manifest.new";
/// The same once more, for when the file is lost. Nothing but recovery reads it.
pub(crate) const COPY_NAME: &str = "manifest.copy";
/// A table that is cut in two is longer by a footer, a line of its filter, an entry of its index, and the frames of both.
const TABLE_ROOM: u64 = 256;
const MAGIC: u64 = u64::from_le_bytes(*b"SMMANIF1");

/// What the manifest says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Everything up to this version is in the tables.
    pub(crate) folded: Version,
    /// Logs with lower numbers are not needed any more.
    pub(crate) first_log: u64,
    /// This log exists: its name was durable before this manifest was.
    pub(crate) known_log: u64,
    /// The store was closed at this version, so the logs reach it. None while it is open.
    pub(crate) closed_at: Option<Version>,
    /// No table has this number or a higher one.
    pub(crate) next_table: u64,
    /// Level and table.
    pub(crate) tables: Vec<(u8, TableInfo)>,
}

/// Why a manifest was not stored.
pub(crate) enum StoreError {
    /// The old one holds.
    Clean(Error),
    /// One of the two holds; only opening the store again tells which.
    Unknown(Error),
}

impl Manifest {
    fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC.to_le_bytes());
        for number in [self.folded, self.first_log, self.known_log, self.next_table] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(self.closed_at.is_some().into());
        out.extend_from_slice(&self.closed_at.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&(self.tables.len() as u32).to_le_bytes());
        for (level, table) in &self.tables {
            out.push(*level);
            for number in [table.id, table.bytes, table.entries] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            put_short(&mut out, &table.smallest);
            put_short(&mut out, &table.largest);
        }
        out
    }

    /// Two equal copies: length, hash, body.
    pub(crate) fn encode(&self, store: u64) -> Vec<u8> {
        let body = self.body();
        let mut copy = Vec::with_capacity(body.len() + 16);
        copy.extend_from_slice(&(body.len() as u64).to_le_bytes());
        copy.extend_from_slice(&hash64(store, &body).to_le_bytes());
        copy.extend_from_slice(&body);
        copy.repeat(2)
    }

    /// Reads the first copy that is whole.
    pub(crate) fn decode(bytes: &[u8], store: u64) -> Option<Self> {
        // Both copies have the same length, so the second begins in the middle.
        Self::decode_copy(bytes, store)
            .or_else(|| Self::decode_copy(&bytes[bytes.len() / 2..], store))
    }

    fn decode_copy(bytes: &[u8], store: u64) -> Option<Self> {
        let mut reader = Reader(bytes);
        let len = usize::try_from(reader.u64()?).ok()?;
        let hash = reader.u64()?;
        let body = reader.bytes(len)?;
        (hash64(store, body) == hash).then(|| Self::parse(body))?
    }

    /// What writing the next one takes on the disk while this one is there, and what tables cost beside their entries
    /// when a merge has to cut them where others lie: about, and rather more.
    pub(crate) fn room(&self) -> u64 {
        let table = |(_, table): &(u8, TableInfo)| {
            let listed = 32 + table.smallest.len() + table.largest.len();
            TABLE_ROOM + 2 * listed as u64
        };
        4 * TABLE_ROOM + self.tables.iter().map(table).sum::<u64>()
    }

    /// Reads a body whose checksum is right.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        if reader.u64()? != MAGIC {
            return None;
        }
        let mut manifest = Self {
            folded: reader.u64()?,
            first_log: reader.u64()?,
            known_log: reader.u64()?,
            next_table: reader.u64()?,
            ..Self::default()
        };
        let (closed, version) = (reader.u8()?, reader.u64()?);
        manifest.closed_at = (closed != 0).then_some(version);
        for _ in 0..reader.u32()? {
            let level = reader.u8()?;
            let (id, bytes, entries) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let (smallest, largest) = (Key::new(reader.short()?), Key::new(reader.short()?));
            if usize::from(level) >= LEVELS || smallest > largest {
                return None;
            }
            manifest.tables.push((level, TableInfo { id, bytes, entries, smallest, largest }));
        }
        (reader.0.is_empty() && manifest.is_in_order()).then_some(manifest)
    }

    /// Below level 0 tables follow one another: a key is looked for in one of each level only.
    fn is_in_order(&self) -> bool {
        self.tables.windows(2).all(|pair| match pair {
            [(level, one), (next, other)] if level == next && *level > 0 => {
                one.largest < other.smallest
            }
            [(level, _), (next, _)] => level <= next,
            _ => true,
        })
    }

    /// The manifest of a store; `None` when it has none yet.
    pub(crate) fn load(disk: &dyn Disk, name: &str, store: u64) -> Result<Option<Self>> {
        let failed = |error| io_error("cannot read the manifest", error);
        let file = match disk.open(name) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut bytes = vec![0; file.len().map_err(failed)? as usize];
        file.read_at(&mut bytes, 0).map_err(failed)?;
        let manifest = Self::decode(&bytes, store)
            .ok_or_else(|| corrupt(format!("both copies in the file {name:?} are damaged")))?;
        Ok(Some(manifest))
    }

    /// Replaces the manifest. When this returns, the new one and every name made before it survive
    /// a loss of power.
    pub(crate) fn store(&self, disk: &dyn Disk, store: u64) -> Result<(), StoreError> {
        let clean = |error| StoreError::Clean(io_error("cannot write the manifest", error));
        match disk.remove(NEW_NAME) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(clean(error)),
            _ => {}
        }
        let file = disk.create(NEW_NAME).map_err(clean)?;
        file.write_at(&self.encode(store), 0).map_err(clean)?;
        file.sync().map_err(clean)?;
        // A sync that fails may have forgotten names for good; trying again would not tell.
        let unknown = |error| {
            let error =
                io_error("cannot sync the store's directory, so open the store again", error);
            StoreError::Unknown(error.with_kind(ErrorKind::Closed))
        };
        // The names of the tables and logs that it speaks of must not be lost where its own is kept.
        disk.sync_dir().map_err(unknown)?;
        disk.rename(NEW_NAME, NAME).map_err(clean)?;
        disk.sync_dir().map_err(unknown)?;
        self.keep_copy(disk, store);
        Ok(())
    }

    /// Writes the copy. It is for bad days: failing is no failure, and one that is old says so by the
    /// tables and logs that it misses.
    fn keep_copy(&self, disk: &dyn Disk, store: u64) {
        let _ = disk.remove(COPY_NAME);
        if let Ok(file) = disk.create(COPY_NAME) {
            let _ = file.write_at(&self.encode(store), 0);
        }
    }
}
