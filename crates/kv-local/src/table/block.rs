//! The unit of reading: entries in order, searched in place.
//!
//! ```text
//! entries | head of each key u32 | offset of each u32 | prefix u16 | zero u16 | count u32 | hash u64
//! entry: key length u16 | value length u32, or all ones for "gone" | key | value
//! ```
//!
//! `prefix` is the number of bytes that all keys begin with; a head is the next four bytes of a key,
//! big-endian, so heads order as keys do. They lie beside one another: most of a search stays in two
//! or three cache lines.

use super::pool::Buffer;
use crate::codec::Reader;
use base::checksum::hash64;
use bytes::Bytes;

const GONE: u32 = u32::MAX;
const HASH_BYTES: usize = 8;
/// Prefix length, nothing, count.
const FRAME_BYTES: usize = 8;
/// Head and offset.
const SLOT_BYTES: usize = 8;
/// Key and value length.
const LENGTHS_BYTES: usize = 6;

/// A value, or that the key is gone.
pub(crate) type Value<'a> = Option<&'a [u8]>;

/// Bytes that an entry adds to a block.
pub(crate) fn entry_bytes(key: &[u8], value: Value<'_>) -> usize {
    LENGTHS_BYTES + SLOT_BYTES + key.len() + value.map_or(0, <[u8]>::len)
}

/// Builds a block.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    offsets: Vec<u32>,
    last_key: Vec<u8>,
}

impl Builder {
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Bytes of the block so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + SLOT_BYTES * self.offsets.len() + FRAME_BYTES + HASH_BYTES
    }

    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Appends an entry; keys come in order.
    pub(crate) fn push(&mut self, key: &[u8], value: Value<'_>) {
        debug_assert!(self.is_empty() || *self.last_key < *key, "keys come in order");
        self.offsets.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        let len = value.map_or(GONE, |value| value.len() as u32);
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    /// Ends the block, appends it to `out`, and starts the next. `seed` binds it to its place.
    pub(crate) fn finish(&mut self, seed: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.append(&mut self.bytes);
        let key_at = |out: &[u8], offset: u32| {
            let entry = &out[start + offset as usize..];
            let len = usize::from(u16::from_le_bytes([entry[0], entry[1]]));
            LENGTHS_BYTES + start + offset as usize..LENGTHS_BYTES + start + offset as usize + len
        };
        // Keys are in order, so what the first and the last share is shared by all.
        let prefix = match self.offsets.first() {
            Some(&first) => {
                let first = &out[key_at(out, first)];
                first.iter().zip(&self.last_key).take_while(|(a, b)| a == b).count()
            }
            None => 0,
        };
        for &offset in &self.offsets {
            let head = head(&out[key_at(out, offset)][prefix..]);
            out.extend_from_slice(&head.to_le_bytes());
        }
        for offset in &self.offsets {
            out.extend_from_slice(&offset.to_le_bytes());
        }
        out.extend_from_slice(&(prefix as u16).to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&(self.offsets.len() as u32).to_le_bytes());
        let hash = hash64(seed, &out[start..]);
        out.extend_from_slice(&hash.to_le_bytes());
        self.offsets.clear();
        self.last_key.clear();
    }
}

/// The first four bytes of what is left of a key, as a number that orders as they do.
fn head(rest: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    let len = rest.len().min(4);
    bytes[..len].copy_from_slice(&rest[..len]);
    u32::from_be_bytes(bytes)
}

/// A block that was read and verified.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Buffer,
    count: usize,
    /// How many bytes all keys begin with.
    prefix: usize,
    /// Where the heads begin, which is where the entries end.
    heads: usize,
}

impl Block {
    /// Verifies what was read; `None` when it is not what was written.
    pub(crate) fn open(bytes: impl Into<Buffer>, seed: u64) -> Option<Self> {
        let bytes = bytes.into();
        let body = bytes.len().checked_sub(HASH_BYTES)?;
        let stored = u64::from_le_bytes(bytes[body..].try_into().ok()?);
        if hash64(seed, &bytes[..body]) != stored {
            return None;
        }
        Self::parse(bytes)
    }

    /// Reads the frame of a block whose hash is right. Its entries are looked at when they are asked
    /// for: one that lies outside, which no block that we wrote has, is empty.
    pub(crate) fn parse(bytes: impl Into<Buffer>) -> Option<Self> {
        let bytes = bytes.into();
        let frame = bytes.len().checked_sub(HASH_BYTES + FRAME_BYTES)?;
        let mut reader = Reader(&bytes[frame..]);
        let (prefix, _, count) = (reader.u16()?, reader.u16()?, reader.u32()? as usize);
        let heads = frame.checked_sub(count.checked_mul(SLOT_BYTES)?)?;
        Some(Self { bytes, count, prefix: prefix.into(), heads })
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Memory that it takes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.capacity()
    }

    fn number(&self, at: usize) -> u32 {
        match self.bytes.get(at..at + 4) {
            Some(bytes) => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            None => 0,
        }
    }

    fn head_at(&self, index: usize) -> u32 {
        self.number(self.heads + 4 * index)
    }

    /// The entry at `index`, from its lengths to the end of all entries.
    fn entry(&self, index: usize) -> Option<&[u8]> {
        let start = self.number(self.heads + 4 * self.count + 4 * index);
        self.bytes.get(start as usize..self.heads)
    }

    /// The key at `index`, which is below [`count`](Self::count).
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        let key = self.entry(index).and_then(|entry| {
            let len = u16::from_le_bytes(entry.get(..2)?.try_into().ok()?);
            entry.get(LENGTHS_BYTES..LENGTHS_BYTES + usize::from(len))
        });
        key.unwrap_or_default()
    }

    /// The value at `index`.
    pub(crate) fn value(&self, index: usize) -> Value<'_> {
        let mut reader = Reader(self.entry(index)?);
        let (key, value) = (reader.u16()?, reader.u32()?);
        reader.bytes(key.into())?;
        (value != GONE).then(|| reader.bytes(value as usize).unwrap_or_default())
    }

    /// A copy of the value at `index`: it must not keep its whole block in memory.
    pub(crate) fn value_owned(&self, index: usize) -> Option<Bytes> {
        self.value(index).map(Bytes::copy_from_slice)
    }

    /// The index of the first key that is not below `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        self.lower_bound_in(key, 0, self.count)
    }

    /// The same, when it is known to lie from `low` to `high`.
    pub(crate) fn lower_bound_in(&self, key: &[u8], low: usize, high: usize) -> usize {
        if low >= high {
            return low;
        }
        let first = self.key(low);
        let prefix = first.get(..self.prefix).unwrap_or(first);
        let len = key.len().min(prefix.len());
        match key[..len].cmp(&prefix[..len]) {
            std::cmp::Ordering::Less => return low,
            std::cmp::Ordering::Greater => return high,
            std::cmp::Ordering::Equal if key.len() < prefix.len() => return low,
            std::cmp::Ordering::Equal => {}
        }
        let wanted = head(&key[len..]);
        let mut at = search(low, high, |index| self.head_at(index) < wanted);
        // Usually one head is like the wanted one, if any.
        while at < high && self.head_at(at) == wanted && self.key(at) < key {
            at += 1;
        }
        at
    }

    /// The index of `key`, when it is here. It then has the common prefix, so that need not be
    /// compared, and the first entry need not be touched.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let wanted = head(key.get(self.prefix..)?);
        let from = search(0, self.count, |index| self.head_at(index) < wanted);
        (from..self.count)
            .take_while(|&index| self.head_at(index) == wanted)
            .find(|&index| self.key(index) == key)
    }
}

/// The first index from `low` to `high` that is not `below`.
fn search(mut low: usize, mut high: usize, below: impl Fn(usize) -> bool) -> usize {
    while low < high {
        let middle = low + (high - low) / 2;
        if below(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};
    use std::collections::BTreeSet;

    #[test]
    fn searches_agree_with_a_sorted_list() {
        for seed in 0..300 {
            let random = SeededRandom::new(seed);
            let shared = random.below(4) as usize;
            let key = || {
                let mut key = vec![b'p'; shared];
                // Few byte values and lengths around the head's, so that heads and prefixes collide.
                for _ in 0..random.below(8) {
                    key.push([0, 1, b'p', 0xff][random.below(4) as usize]);
                }
                key
            };
            let keys: BTreeSet<Vec<u8>> = (0..random.below(40)).map(|_| key()).collect();
            let keys: Vec<Vec<u8>> = keys.into_iter().collect();
            let mut builder = Builder::default();
            for key in &keys {
                builder.push(key, (!key.is_empty()).then_some(&key[..]));
            }
            let mut bytes = Vec::new();
            builder.finish(seed, &mut bytes);
            assert!(Block::open(bytes.clone(), seed + 1).is_none());
            let block = Block::open(bytes, seed).unwrap();
            assert_eq!(block.count(), keys.len());
            for (index, key) in keys.iter().enumerate() {
                assert_eq!(block.key(index), &key[..], "seed {seed}");
                assert_eq!(block.value(index), (!key.is_empty()).then_some(&key[..]));
            }
            for _ in 0..40 {
                let mut probe = key();
                probe.truncate(random.below(9) as usize);
                let expected = keys.partition_point(|key| *key < probe);
                assert_eq!(block.lower_bound(&probe), expected, "seed {seed} {probe:?}");
                assert_eq!(block.find(&probe), keys.binary_search(&probe).ok(), "seed {seed}");
            }
        }
    }
}
