//! Every key of a volume; `parse` takes keys apart again. docs/format.md says the same in prose.

mod parse;

pub use parse::Parsed;

use super::family::Family;
use crate::types::Ino;
use kv::{Key, KeyRange};

/// Under an inode: locks, leases, extended attributes, what changes without the record, and keys
/// that are never written and only carry conflicts.
const LOCK: u8 = 0x00;
const LEASE: u8 = 0x01;
const XATTR: u8 = 0x02;
const CHANGED: u8 = 0x03;
const SUBDIRS: u8 = 0x04;
const BLOCKS: u8 = 0x05;
const CONFLICT: u8 = 0xfe;

/// Parts of an inode that an operation can depend on without depending on the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// Type, mode, owner, access control lists, and that it has a name.
    Access = b'a',
    /// Size, form and place of the data.
    Data = b'd',
    /// A directory's parent.
    Parent = b'p',
}

/// A number that is kept beside an inode's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// When the contents last changed without the record.
    Changed,
    /// Directories in a directory.
    Subdirs,
    /// Bytes that a mapped file takes.
    Blocks,
}

/// Which counter of the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Counter {
    /// Bytes of data that are allocated.
    Bytes = b'b',
    /// Inodes.
    Inodes = b'i',
}

/// A volume's number in its store. Every key of the volume begins with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    prefix: [u8; 2],
}

/// The bit that tells a group's parity from a block.
pub const PARITY_BLOCK: u16 = 1 << 15;

/// The most volumes of a store.
pub const VOLUMES_MAX: u16 = 0x7fff;

const LONGEST: usize = 2 + 1 + 8 * 4 + 8;

/// A key on the stack.
struct Builder {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Builder {
    #[inline]
    fn push(mut self, bytes: &[u8]) -> Self {
        if let Some(space) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            space.copy_from_slice(bytes);
            self.len += bytes.len();
        }
        self
    }

    #[inline]
    fn number(self, number: u64) -> Self {
        self.push(&number.to_be_bytes())
    }

    #[inline]
    fn byte(self, byte: u8) -> Self {
        self.push(&[byte])
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    #[inline]
    fn key(self) -> Key {
        Key::new(self.bytes())
    }

    /// Behind it a name, in the escape.
    fn name(self, name: &[u8]) -> Key {
        if self.len + name.len() <= LONGEST && name.iter().all(|&byte| byte < ESCAPE) {
            return self.push(name).key();
        }
        let mut bytes = Vec::with_capacity(self.len + name.len() + 8);
        bytes.extend_from_slice(self.bytes());
        escape(name, &mut bytes);
        Key::new(&bytes)
    }

    /// All keys that begin with it.
    fn prefix(self) -> KeyRange {
        KeyRange::prefix(self.bytes())
    }
}

/// The first byte that names must not show in a key.
const ESCAPE: u8 = 0xfe;

/// Names keep their order and lose the bytes 0xfe and 0xff, which become two.
fn escape(name: &[u8], out: &mut Vec<u8>) {
    for &byte in name {
        match byte {
            0xfe => out.extend_from_slice(&[ESCAPE, 1]),
            0xff => out.extend_from_slice(&[ESCAPE, 2]),
            _ => out.push(byte),
        }
    }
}

fn unescape(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        name.push(match byte {
            ESCAPE => match rest.next()? {
                1 => 0xfe,
                2 => 0xff,
                _ => return None,
            },
            0xff => return None,
            byte => byte,
        });
    }
    Some(name)
}

/// Where a volume's number is kept, by its name.
pub(crate) fn volume_name(name: &[u8]) -> Key {
    Builder { bytes: [0; LONGEST], len: 2 }.byte(Family::VolumeName.byte()).name(name)
}

/// The names of all volumes of a store.
pub(crate) fn volume_names() -> KeyRange {
    Builder { bytes: [0; LONGEST], len: 2 }.byte(Family::VolumeName.byte()).prefix()
}

impl Keys {
    /// The keys of the volume with this number, from 1 to [`VOLUMES_MAX`].
    pub fn new(volume: u16) -> Self {
        Self { prefix: volume.to_be_bytes() }
    }

    /// The volume's number.
    pub fn volume_number(&self) -> u16 {
        u16::from_be_bytes(self.prefix)
    }

    /// Every key of the volume.
    pub fn all(&self) -> KeyRange {
        KeyRange::prefix(&self.prefix)
    }

    /// Every key of a family.
    pub(crate) fn family_range(&self, family: Family) -> KeyRange {
        self.family(family).prefix()
    }

    #[inline]
    fn family(&self, family: Family) -> Builder {
        let mut bytes = [0; LONGEST];
        bytes[0] = self.prefix[0];
        bytes[1] = self.prefix[1];
        bytes[2] = family.byte();
        Builder { bytes, len: 3 }
    }

    pub(crate) fn volume(&self) -> Key {
        self.family(Family::Volume).key()
    }

    pub(crate) fn epoch(&self) -> Key {
        self.family(Family::Volume).byte(b'e').key()
    }

    pub(crate) fn next_inode(&self) -> Key {
        self.family(Family::Volume).byte(b'n').key()
    }

    /// Which start of the machine the local home was last used in.
    pub(crate) fn life(&self) -> Key {
        self.family(Family::Volume).byte(b'l').key()
    }

    pub(crate) fn scrub(&self) -> Key {
        self.family(Family::Volume).byte(b's').key()
    }

    pub(crate) fn counter(&self, shard: u8, counter: Counter) -> Key {
        self.family(Family::Counter).byte(counter as u8).byte(shard).key()
    }

    pub(crate) fn counters(&self, counter: Counter) -> KeyRange {
        self.family(Family::Counter).byte(counter as u8).prefix()
    }

    #[inline]
    pub(crate) fn inode(&self, ino: Ino) -> Key {
        self.family(Family::Inode).number(ino).key()
    }

    /// The inode's record and everything under it.
    pub(crate) fn inode_all(&self, ino: Ino) -> KeyRange {
        self.family(Family::Inode).number(ino).prefix()
    }

    /// Records and what is under them, from one inode to another, which is included.
    pub(crate) fn inodes(&self, first: Ino, last: Ino) -> KeyRange {
        let end = self.family(Family::Inode).number(last).prefix().end;
        KeyRange { start: self.inode(first), end }
    }

    pub(crate) fn lock(&self, ino: Ino, session: u64, owner: u64, flock: bool) -> Key {
        self.inode_part(ino, LOCK).number(session).number(owner).byte(u8::from(flock)).key()
    }

    pub(crate) fn locks(&self, ino: Ino) -> KeyRange {
        self.inode_part(ino, LOCK).prefix()
    }

    pub(crate) fn locks_of(&self, ino: Ino, session: u64) -> KeyRange {
        self.inode_part(ino, LOCK).number(session).prefix()
    }

    pub(crate) fn lease(&self, ino: Ino, session: u64) -> Key {
        self.inode_part(ino, LEASE).number(session).key()
    }

    pub(crate) fn leases(&self, ino: Ino) -> KeyRange {
        self.inode_part(ino, LEASE).prefix()
    }

    pub(crate) fn xattr(&self, ino: Ino, name: &[u8]) -> Key {
        self.inode_part(ino, XATTR).name(name)
    }

    pub(crate) fn xattrs(&self, ino: Ino) -> KeyRange {
        self.inode_part(ino, XATTR).prefix()
    }

    #[inline]
    pub(crate) fn changed(&self, ino: Ino) -> Key {
        self.inode_part(ino, CHANGED).key()
    }

    #[inline]
    pub(crate) fn subdirs(&self, ino: Ino) -> Key {
        self.inode_part(ino, SUBDIRS).key()
    }

    #[inline]
    pub(crate) fn blocks(&self, ino: Ino) -> Key {
        self.inode_part(ino, BLOCKS).key()
    }

    #[inline]
    pub(crate) fn part(&self, ino: Ino, part: Part) -> Key {
        self.inode_part(ino, CONFLICT).byte(part as u8).key()
    }

    #[inline]
    fn inode_part(&self, ino: Ino, part: u8) -> Builder {
        self.family(Family::Inode).number(ino).byte(part)
    }

    #[inline]
    pub(crate) fn entry(&self, parent: Ino, name: &[u8]) -> Key {
        self.family(Family::Entry).number(parent).name(name)
    }

    pub(crate) fn entries(&self, parent: Ino) -> KeyRange {
        self.family(Family::Entry).number(parent).prefix()
    }

    pub(crate) fn inline(&self, blob: u64) -> Key {
        self.family(Family::Inline).number(blob).key()
    }

    #[inline]
    pub(crate) fn backing(&self, blob: u64) -> Key {
        self.family(Family::Backing).number(blob).key()
    }

    /// Backing files from a number on.
    pub(crate) fn backings_from(&self, blob: u64) -> KeyRange {
        KeyRange { start: self.backing(blob), end: self.family(Family::Backing).prefix().end }
    }

    pub(crate) fn map(&self, blob: u64, chunk: u64) -> Key {
        self.family(Family::Map).number(blob).number(chunk).key()
    }

    /// The map from a chunk on.
    pub(crate) fn map_from(&self, blob: u64, chunk: u64) -> KeyRange {
        let end = self.family(Family::Map).number(blob).prefix().end;
        KeyRange { start: self.map(blob, chunk), end }
    }

    pub(crate) fn block(&self, at: BlockPlace) -> Key {
        self.family(Family::Block)
            .number(at.slot)
            .number(at.blob)
            .number(at.chunk)
            .number(at.generation)
            .push(&at.block.to_be_bytes())
            .key()
    }

    /// All blocks of one chunk under one generation.
    pub(crate) fn blocks_of(&self, slot: u64, blob: u64, chunk: u64, generation: u64) -> KeyRange {
        self.family(Family::Block)
            .number(slot)
            .number(blob)
            .number(chunk)
            .number(generation)
            .prefix()
    }

    pub(crate) fn garbage(&self, ino: Ino) -> Key {
        self.family(Family::Garbage).number(ino).key()
    }

    pub(crate) fn all_garbage(&self) -> KeyRange {
        self.family(Family::Garbage).prefix()
    }

    #[inline]
    pub(crate) fn session(&self, session: u64) -> Key {
        self.family(Family::Session).number(session).byte(0).key()
    }

    pub(crate) fn heartbeat(&self, session: u64) -> Key {
        self.family(Family::Session).number(session).byte(1).key()
    }

    pub(crate) fn sessions(&self) -> KeyRange {
        self.family(Family::Session).prefix()
    }

    pub(crate) fn held(&self, session: u64, ino: Ino) -> Key {
        self.family(Family::Held).number(session).number(ino).key()
    }

    pub(crate) fn held_by(&self, session: u64) -> KeyRange {
        self.family(Family::Held).number(session).prefix()
    }

    pub(crate) fn op(&self, session: u64, op: u64) -> Key {
        self.family(Family::Op).number(session).number(op).key()
    }

    /// The op log of a session below an operation.
    pub(crate) fn ops_below(&self, session: u64, op: u64) -> KeyRange {
        KeyRange { start: self.op(session, 0), end: self.op(session, op) }
    }

    pub(crate) fn all_ops(&self) -> KeyRange {
        self.family(Family::Op).prefix()
    }

    pub(crate) fn ops(&self, session: u64) -> KeyRange {
        self.family(Family::Op).number(session).prefix()
    }

    pub(crate) fn job(&self, job: u64) -> Key {
        self.family(Family::Job).number(job).key()
    }

    pub(crate) fn jobs(&self) -> KeyRange {
        self.family(Family::Job).prefix()
    }
}

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockPlace {
    /// The home's slot.
    pub slot: u64,
    /// The blob.
    pub blob: u64,
    /// The chunk in the blob.
    pub chunk: u64,
    /// The block in the chunk, or a group's number with [`PARITY_BLOCK`].
    pub block: u16,
    /// Which writing of it.
    pub generation: u64,
}
