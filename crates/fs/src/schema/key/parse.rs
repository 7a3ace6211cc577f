//! From keys back to what they mean.

use super::{
    BLOCKS, BlockPlace, CHANGED, CONFLICT, Counter, ESCAPE, Keys, LEASE, LOCK, Part, SUBDIRS, Side,
    XATTR, unescape,
};
use crate::schema::codec;
use crate::schema::family::Family;
use crate::types::Ino;
use kv::Key;
use std::borrow::Cow;

/// What a key of a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "docs/format.md names the fields")]
pub enum Parsed {
    Volume,
    Epoch,
    NextInode,
    Scrub,
    Life,
    Counter { counter: u8, shard: u8 },
    Inode { ino: Ino },
    Lock { ino: Ino, session: u64, owner: u64, flock: bool },
    Lease { ino: Ino, session: u64 },
    Xattr { ino: Ino, name: Vec<u8> },
    Changed { ino: Ino },
    Subdirs { ino: Ino },
    Blocks { ino: Ino },
    Conflict { ino: Ino, part: u8 },
    Entry { parent: Ino, name: Vec<u8> },
    Inline { blob: u64 },
    Backing { blob: u64 },
    Map { blob: u64, chunk: u64 },
    Block(BlockPlace),
    Garbage { ino: Ino },
    Session { session: u64 },
    Heartbeat { session: u64 },
    Held { session: u64, ino: Ino },
    Op { session: u64, op: u64 },
    Job { job: u64 },
}

impl Parsed {
    /// The inode under whose number the key stands.
    pub(crate) fn inode(&self) -> Option<Ino> {
        match self {
            Parsed::Inode { ino }
            | Parsed::Lock { ino, .. }
            | Parsed::Lease { ino, .. }
            | Parsed::Xattr { ino, .. }
            | Parsed::Changed { ino }
            | Parsed::Subdirs { ino }
            | Parsed::Blocks { ino }
            | Parsed::Conflict { ino, .. } => Some(*ino),
            _ => None,
        }
    }
}

impl Keys {
    /// Takes a key of this volume apart. `None` when it is none that this program writes.
    pub fn parse(&self, key: &[u8]) -> Option<Parsed> {
        let mut rest = codec::Reader(key.strip_prefix(&self.prefix)?);
        let family = Family::of_byte(rest.byte()?)?;
        let mut rest = Numbers(rest);
        let parsed = match family {
            Family::VolumeName => return None,
            Family::Volume => match rest.0.byte() {
                None => Parsed::Volume,
                Some(b'e') => Parsed::Epoch,
                Some(b'n') => Parsed::NextInode,
                Some(b's') => Parsed::Scrub,
                Some(b'l') => Parsed::Life,
                Some(_) => return None,
            },
            Family::Counter => {
                let counter = rest.0.byte()?;
                if ![Counter::Bytes as u8, Counter::Inodes as u8].contains(&counter) {
                    return None;
                }
                Parsed::Counter { counter, shard: rest.0.byte()? }
            }
            Family::Inode => {
                let ino = rest.number()?;
                match rest.0.byte() {
                    None => Parsed::Inode { ino },
                    Some(LOCK) => Parsed::Lock {
                        ino,
                        session: rest.number()?,
                        owner: rest.number()?,
                        flock: match rest.0.byte()? {
                            0 => false,
                            1 => true,
                            _ => return None,
                        },
                    },
                    Some(LEASE) => Parsed::Lease { ino, session: rest.number()? },
                    Some(XATTR) => Parsed::Xattr { ino, name: rest.name()? },
                    Some(CHANGED) => Parsed::Changed { ino },
                    Some(SUBDIRS) => Parsed::Subdirs { ino },
                    Some(BLOCKS) => Parsed::Blocks { ino },
                    Some(CONFLICT) => {
                        let part = rest.0.byte()?;
                        let known = [Part::Access, Part::Data, Part::Parent];
                        if !known.iter().any(|known| *known as u8 == part) {
                            return None;
                        }
                        Parsed::Conflict { ino, part }
                    }
                    Some(_) => return None,
                }
            }
            Family::Entry => Parsed::Entry { parent: rest.number()?, name: rest.name()? },
            Family::Inline => Parsed::Inline { blob: rest.number()? },
            Family::Backing => Parsed::Backing { blob: rest.number()? },
            Family::Map => Parsed::Map { blob: rest.number()?, chunk: rest.number()? },
            Family::Block => Parsed::Block(BlockPlace {
                slot: rest.number()?,
                blob: rest.number()?,
                chunk: rest.number()?,
                generation: rest.number()?,
                block: u16::from_be_bytes(rest.0.array()?),
            }),
            Family::Garbage => Parsed::Garbage { ino: rest.number()? },
            Family::Session => {
                let session = rest.number()?;
                match rest.0.byte()? {
                    0 => Parsed::Session { session },
                    1 => Parsed::Heartbeat { session },
                    _ => return None,
                }
            }
            Family::Held => Parsed::Held { session: rest.number()?, ino: rest.number()? },
            Family::Op => Parsed::Op { session: rest.number()?, op: rest.number()? },
            Family::Job => Parsed::Job { job: rest.number()? },
        };
        rest.0.end()?;
        Some(parsed)
    }

    /// The key of what was parsed.
    pub fn unparse(&self, parsed: &Parsed) -> Key {
        match parsed {
            Parsed::Volume => self.volume(),
            Parsed::Epoch => self.epoch(),
            Parsed::NextInode => self.next_inode(),
            Parsed::Scrub => self.scrub(),
            Parsed::Life => self.life(),
            Parsed::Counter { counter, shard } => {
                self.family(Family::Counter).byte(*counter).byte(*shard).key()
            }
            Parsed::Inode { ino } => self.inode(*ino),
            Parsed::Lock { ino, session, owner, flock } => {
                self.lock(*ino, *session, *owner, *flock)
            }
            Parsed::Lease { ino, session } => self.lease(*ino, *session),
            Parsed::Xattr { ino, name } => self.xattr(*ino, name),
            Parsed::Changed { ino } => self.changed(*ino),
            Parsed::Subdirs { ino } => self.subdirs(*ino),
            Parsed::Blocks { ino } => self.blocks(*ino),
            Parsed::Conflict { ino, part } => self.inode_part(*ino, CONFLICT).byte(*part).key(),
            Parsed::Entry { parent, name } => self.entry(*parent, name),
            Parsed::Inline { blob } => self.inline(*blob),
            Parsed::Backing { blob } => self.backing(*blob),
            Parsed::Map { blob, chunk } => self.map(*blob, *chunk),
            Parsed::Block(place) => self.block(*place),
            Parsed::Garbage { ino } => self.garbage(*ino),
            Parsed::Session { session } => self.session(*session),
            Parsed::Heartbeat { session } => self.heartbeat(*session),
            Parsed::Held { session, ino } => self.held(*session, *ino),
            Parsed::Op { session, op } => self.op(*session, *op),
            Parsed::Job { job } => self.job(*job),
        }
    }

    /// The inode of a key of the inode family, and the byte behind it when the key is that of a
    /// number kept beside the record; `None` for other keys. Cheaper than [`parse`](Self::parse).
    #[inline]
    pub(crate) fn inode_key(&self, key: &[u8]) -> Option<(Ino, Option<Side>)> {
        let (ino, rest) = key.get(3..)?.split_first_chunk::<8>()?;
        let ino = u64::from_be_bytes(*ino);
        match rest {
            [] => Some((ino, None)),
            [CHANGED] => Some((ino, Some(Side::Changed))),
            [SUBDIRS] => Some((ino, Some(Side::Subdirs))),
            [BLOCKS] => Some((ino, Some(Side::Blocks))),
            _ => None,
        }
    }

    /// The inode that a key belongs to, if it is that of a record or of something under one.
    #[inline]
    pub(crate) fn inode_of(&self, key: &[u8]) -> Option<Ino> {
        let (head, ino) = key.get(..11)?.split_last_chunk::<8>()?;
        let is = matches!(head, [_, _, family] if *family == Family::Inode.byte());
        is.then(|| u64::from_be_bytes(*ino))
    }

    /// Whether a key may be one that every change reads.
    #[inline]
    pub(crate) fn is_fence(&self, key: &[u8]) -> bool {
        let family = key.get(2);
        family == Some(&Family::Session.byte()) || family == Some(&Family::Volume.byte())
    }

    /// The directory and the name in the key of an entry: cheaper than [`parse`](Self::parse).
    pub(crate) fn entry_parts<'a>(&self, key: &'a [u8]) -> Option<(Ino, Cow<'a, [u8]>)> {
        let rest = key.strip_prefix(&self.prefix)?.strip_prefix(&[Family::Entry.byte()])?;
        let (parent, name) = rest.split_first_chunk::<8>()?;
        let name = match name.iter().all(|&byte| byte < ESCAPE) {
            true => Cow::Borrowed(name),
            false => Cow::Owned(unescape(name)?),
        };
        (!name.is_empty()).then_some((u64::from_be_bytes(*parent), name))
    }

    /// Appends the name in the key of an entry: cheaper than [`parse`](Self::parse). False when there
    /// is none.
    #[inline]
    pub(crate) fn entry_name(&self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(name) = key.get(2 + 1 + 8..).filter(|name| !name.is_empty()) else {
            return false;
        };
        if name.iter().all(|&byte| byte < ESCAPE) {
            out.extend_from_slice(name);
            return true;
        }
        match unescape(name) {
            Some(name) => {
                out.extend_from_slice(&name);
                true
            }
            None => false,
        }
    }
}

/// Numbers and names of a key. All of the rest is a name, and a name is not empty.
struct Numbers<'a>(codec::Reader<'a>);

impl Numbers<'_> {
    fn number(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.0.array()?))
    }

    fn name(&mut self) -> Option<Vec<u8>> {
        let rest = self.0.raw(self.0.0.len())?;
        unescape(rest).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_order_and_come_back() {
        let names: [&[u8]; 9] =
            [b"\x01", b"a", b"a\x01", b"ab", b"b", b"\xfd\xff", b"\xfe", b"\xfe\xff", b"\xff"];
        let keys = Keys::new(7);
        let encoded: Vec<Key> = names.iter().map(|name| keys.entry(5, name)).collect();
        assert!(encoded.windows(2).all(|pair| pair[0] < pair[1]));
        for (name, key) in names.iter().zip(&encoded) {
            assert!(!key[11..].contains(&0xff));
            let mut found = Vec::new();
            assert!(keys.entry_name(key, &mut found));
            assert_eq!(found, *name);
            assert_eq!(keys.entry_parts(key), Some((5, Cow::Borrowed(*name))));
            assert!(keys.entries(5).contains(key));
            assert!(!keys.entries(4).contains(key) && !keys.entries(6).contains(key));
        }
    }

    #[test]
    fn every_kind_of_key_can_be_taken_apart() {
        let keys = Keys::new(0x1234);
        let place = BlockPlace { slot: 1, blob: 2, chunk: 3, block: 4, generation: 5 };
        let all = [
            Parsed::Volume,
            Parsed::Epoch,
            Parsed::NextInode,
            Parsed::Scrub,
            Parsed::Counter { counter: b'b', shard: 3 },
            Parsed::Inode { ino: 9 },
            Parsed::Lock { ino: 9, session: 8, owner: u64::MAX, flock: true },
            Parsed::Lease { ino: 9, session: 8 },
            Parsed::Xattr { ino: 9, name: b"user.\xff".to_vec() },
            Parsed::Changed { ino: 9 },
            Parsed::Subdirs { ino: 9 },
            Parsed::Blocks { ino: 9 },
            Parsed::Conflict { ino: 9, part: b'a' },
            Parsed::Entry { parent: 1, name: vec![0xfe; 255] },
            Parsed::Inline { blob: 1 },
            Parsed::Map { blob: 1, chunk: 2 },
            Parsed::Block(place),
            Parsed::Garbage { ino: 1 },
            Parsed::Session { session: 1 },
            Parsed::Heartbeat { session: 1 },
            Parsed::Held { session: 1, ino: 2 },
            Parsed::Op { session: 1, op: 2 },
            Parsed::Job { job: 1 },
        ];
        for parsed in &all {
            let key = keys.unparse(parsed);
            assert_eq!(keys.parse(&key).as_ref(), Some(parsed), "{key:?}");
            assert!(keys.all().contains(&key));
            assert_eq!(Keys::new(1).parse(&key), None);
        }
    }
}
