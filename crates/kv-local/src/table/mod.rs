//! Tables: sorted files that are written once, never changed, and verified whenever they are read.

pub(crate) mod block;
mod bloom;
mod cursor;
mod pool;
mod reader;
mod writer;

use crate::codec::Reader;
use base::checksum::hash64;
use kv::Key;

pub(crate) use cursor::TableCursor;
pub(crate) use reader::{Memory, Table, key_hash};
pub(crate) use writer::Writer;

const PREFIX: &str = "table-";
pub(crate) const FOOTER_BYTES: usize = 40;
const FOOTER_MAGIC: u64 = u64::from_le_bytes(*b"SMTABLE1");

/// The name of table `id`.
pub(crate) fn name_of(id: u64) -> String {
    format!("{PREFIX}{id:016x}")
}

/// The number of a table by its name; `None` when it is not one.
pub(crate) fn id_of(name: &str) -> Option<u64> {
    let id = u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()?;
    (name_of(id) == name).then_some(id)
}

/// What the manifest knows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableInfo {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) smallest: Key,
    pub(crate) largest: Key,
}

/// Binds a block to its store, table and place: bytes that belong elsewhere fail.
fn block_seed(store: u64, id: u64, offset: u64) -> u64 {
    let mut place = [0; 24];
    place[..8].copy_from_slice(&store.to_le_bytes());
    place[8..16].copy_from_slice(&id.to_le_bytes());
    place[16..].copy_from_slice(&offset.to_le_bytes());
    hash64(0, &place)
}

/// The end of a table file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The index goes from here to the filter, the filter to the footer.
    index_at: u64,
    filter_at: u64,
    filter_hash: u64,
}

impl Footer {
    fn filter_hash(store: u64, id: u64, filter: &[u8]) -> u64 {
        hash64(block_seed(store, id, 1), filter)
    }

    fn encode(&self, store: u64, id: u64) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..8].copy_from_slice(&FOOTER_MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.index_at.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.filter_at.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.filter_hash.to_le_bytes());
        let hash = hash64(block_seed(store, id, u64::MAX), &bytes[..32]);
        bytes[32..].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], store: u64, id: u64) -> Option<Self> {
        let mut reader = Reader(bytes);
        let magic = reader.u64()?;
        let footer =
            Self { index_at: reader.u64()?, filter_at: reader.u64()?, filter_hash: reader.u64()? };
        let hash = reader.u64()?;
        let right = hash64(block_seed(store, id, u64::MAX), &bytes[..32]) == hash;
        (right && magic == FOOTER_MAGIC && footer.index_at <= footer.filter_at).then_some(footer)
    }
}
