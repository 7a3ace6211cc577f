//! The smaller records: directory entries, sessions, locks, the volume.

use super::codec::{Writer, unseal};
use super::inode::{get_time, put_time};
use crate::blob::block::Codec;
use crate::types::{FileType, Ino, Lock, LockKind, Time};

const VERSION: u8 = 1;

fn type_byte(file_type: FileType) -> u8 {
    // The type bits of a mode, which nobody can renumber.
    (file_type.mode() >> 12) as u8
}

/// What a name stands for. Written once and never changed: a name that changes its meaning is a
/// record put anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The inode.
    pub ino: Ino,
    /// What that is.
    pub file_type: FileType,
}

impl Entry {
    /// The record.
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Writer::with_capacity(16);
        out.byte(VERSION).byte(type_byte(self.file_type)).number(self.ino);
        out.seal(key)
    }

    /// From the record.
    #[inline]
    pub fn decode(key: &[u8], record: &[u8]) -> Option<Self> {
        let mut from = unseal(key, record)?;
        if from.byte()? != VERSION {
            return None;
        }
        let byte = from.byte()?;
        let file_type = FileType::of_mode(u32::from(byte) << 12)?;
        if type_byte(file_type) != byte {
            return None;
        }
        let ino = from.number()?;
        from.end()?;
        Some(Self { ino, file_type })
    }
}

/// Who a session is. There while it lives; every change that the session makes reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// The machine.
    pub host: String,
    /// The process there.
    pub pid: u32,
    /// The program's version.
    pub version: String,
    /// When it began, by its own clock: for people only.
    pub started: Time,
}

impl SessionRecord {
    /// The record.
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Writer::default();
        out.byte(VERSION).bytes(self.host.as_bytes()).number(self.pid.into());
        out.bytes(self.version.as_bytes());
        put_time(&mut out, self.started);
        out.seal(key)
    }

    /// From the record.
    pub fn decode(key: &[u8], record: &[u8]) -> Option<Self> {
        let mut from = unseal(key, record)?;
        if from.byte()? != VERSION {
            return None;
        }
        let host = String::from_utf8(from.bytes()?.to_vec()).ok()?;
        let pid = from.number_u32()?;
        let version = String::from_utf8(from.bytes()?.to_vec()).ok()?;
        let started = get_time(&mut from)?;
        from.end()?;
        Some(Self { host, pid, version, started })
    }
}

/// The locks that one owner of one session has on an inode: ranges in order, none touching another
/// of its kind.
pub fn encode_locks(key: &[u8], locks: &[Lock]) -> Vec<u8> {
    let mut out = Writer::default();
    out.byte(VERSION).number(locks.len() as u64);
    for lock in locks {
        out.byte(u8::from(lock.kind == LockKind::Write));
        out.number(lock.start).number(lock.end).number(lock.pid.into());
    }
    out.seal(key)
}

/// From the record.
pub fn decode_locks(key: &[u8], record: &[u8]) -> Option<Vec<Lock>> {
    let mut from = unseal(key, record)?;
    if from.byte()? != VERSION {
        return None;
    }
    let count = from.number()?;
    let mut locks: Vec<Lock> = Vec::new();
    for _ in 0..count {
        let kind = match from.byte()? {
            0 => LockKind::Read,
            1 => LockKind::Write,
            _ => return None,
        };
        let (start, end, pid) = (from.number()?, from.number()?, from.number_u32()?);
        let behind = locks
            .last()
            .is_none_or(|last| last.end < start || (last.end == start && last.kind != kind));
        if start >= end || !behind {
            return None;
        }
        locks.push(Lock { kind, start, end, pid });
    }
    from.end()?;
    Some(locks)
}

/// What a volume is. Written when it is formatted; options may change later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Features without which nobody may open it.
    pub features_refuse: u64,
    /// Features without which nobody may write to it.
    pub features_read_only: u64,
    /// Drawn at random.
    pub uuid: u128,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Bytes of a block in the engine.
    pub block_bytes: u32,
    /// The largest file that is kept inline.
    pub inline_bytes_max: u32,
    /// How new blocks are compressed.
    pub codec: Codec,
    /// Blocks in a group that shares parity; 0 for no parity.
    pub parity_group: u8,
    /// Bytes that data may take; 0 for no bound.
    pub capacity_bytes: u64,
    /// Inodes that there may be; 0 for no bound.
    pub inodes_max: u64,
    /// When it was made.
    pub created: Time,
}

/// The volume's format that this program writes.
pub const FORMAT: u64 = 1;

/// Why a volume's record was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeDamage {
    /// The bytes are not what was written.
    Damaged,
    /// Written by a newer program, in this format.
    Newer(u64),
}

impl VolumeRecord {
    /// The record.
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Writer::default();
        out.number(FORMAT).number(self.features_refuse).number(self.features_read_only);
        out.raw(&self.uuid.to_le_bytes());
        out.number(self.chunk_bytes.into()).number(self.block_bytes.into());
        out.number(self.inline_bytes_max.into());
        out.byte(self.codec.to_byte()).byte(self.parity_group);
        out.number(self.capacity_bytes).number(self.inodes_max);
        put_time(&mut out, self.created);
        out.seal(key)
    }

    /// From the record.
    pub fn decode(key: &[u8], record: &[u8]) -> Result<Self, VolumeDamage> {
        let damaged = VolumeDamage::Damaged;
        let mut from = unseal(key, record).ok_or(damaged)?;
        match from.number().ok_or(damaged)? {
            0 => return Err(damaged),
            FORMAT => {}
            newer => return Err(VolumeDamage::Newer(newer)),
        }
        let mut read = || {
            let features_refuse = from.number()?;
            let features_read_only = from.number()?;
            let uuid = u128::from_le_bytes(from.array()?);
            let chunk_bytes = from.number_u32()?;
            let block_bytes = from.number_u32()?;
            let inline_bytes_max = from.number_u32()?;
            let codec = Codec::from_byte(from.byte()?)?;
            let parity_group = from.byte()?;
            let capacity_bytes = from.number()?;
            let inodes_max = from.number()?;
            let created = get_time(&mut from)?;
            from.end()?;
            Some(Self {
                features_refuse,
                features_read_only,
                uuid,
                chunk_bytes,
                block_bytes,
                inline_bytes_max,
                codec,
                parity_group,
                capacity_bytes,
                inodes_max,
                created,
            })
        };
        let record = read().ok_or(damaged)?;
        record.is_sound().then_some(record).ok_or(damaged)
    }

    /// Whether the sizes fit together: everything that computes with them relies on it.
    pub fn is_sound(&self) -> bool {
        const MIB: u32 = 1 << 20;
        let chunk = [MIB, 2 * MIB, 4 * MIB, 8 * MIB].contains(&self.chunk_bytes);
        let block = self.block_bytes.is_power_of_two() && (1024..=MIB).contains(&self.block_bytes);
        chunk && block && self.inline_bytes_max <= self.block_bytes && self.parity_group <= 64
    }

    /// Blocks of a chunk.
    pub fn blocks_per_chunk(&self) -> u32 {
        self.chunk_bytes / self.block_bytes
    }
}
