//! The unit of reading: entries in order, searched in place.
//!
//! ```text
//! entries | offset of each u32 | count u32 | hash u64
//! entry: key length u16 | value length u32, or all ones for "gone" | key | value
//! ```

use crate::codec::Reader;
use base::checksum::hash64;
use bytes::Bytes;

const GONE: u32 = u32::MAX;
const HASH_BYTES: usize = 8;
/// Key and value length.
const LENGTHS_BYTES: usize = 6;

/// A value, or that the key is gone.
pub(crate) type Value<'a> = Option<&'a [u8]>;

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
        self.bytes.len() + 4 * self.offsets.len() + 4 + HASH_BYTES
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
        for offset in &self.offsets {
            out.extend_from_slice(&offset.to_le_bytes());
        }
        out.extend_from_slice(&(self.offsets.len() as u32).to_le_bytes());
        let hash = hash64(seed, &out[start..]);
        out.extend_from_slice(&hash.to_le_bytes());
        self.offsets.clear();
        self.last_key.clear();
    }
}

/// A block that was read and verified.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    bytes: Bytes,
    count: usize,
    /// Where the offsets begin, which is where the entries end.
    offsets: usize,
}

impl Block {
    /// Verifies what was read; `None` when it is not what was written.
    pub(crate) fn open(bytes: Vec<u8>, seed: u64) -> Option<Self> {
        let body = bytes.len().checked_sub(HASH_BYTES)?;
        let stored = u64::from_le_bytes(bytes[body..].try_into().ok()?);
        if hash64(seed, &bytes[..body]) != stored {
            return None;
        }
        Self::parse(bytes)
    }

    /// Reads the frame of a block whose hash is right, and checks that every entry lies inside.
    pub(crate) fn parse(bytes: Vec<u8>) -> Option<Self> {
        let body = bytes.len().checked_sub(HASH_BYTES)?;
        let count_at = body.checked_sub(4)?;
        let count = Reader(&bytes[count_at..]).u32()? as usize;
        let offsets = count_at.checked_sub(count.checked_mul(4)?)?;
        let block = Self { bytes: bytes.into(), count, offsets };
        for index in 0..count {
            let (start, key, value) = block.lengths(index)?;
            let end = start.checked_add(LENGTHS_BYTES + key)?.checked_add(value.unwrap_or(0))?;
            if end > offsets {
                return None;
            }
        }
        Some(block)
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Memory that it takes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn lengths(&self, index: usize) -> Option<(usize, usize, Option<usize>)> {
        let at = self.offsets + 4 * index;
        let start = Reader(self.bytes.get(at..at + 4)?).u32()? as usize;
        let mut reader = Reader(self.bytes.get(start..self.offsets)?);
        let key = reader.u16()?.into();
        let value = reader.u32()?;
        Some((start, key, (value != GONE).then_some(value as usize)))
    }

    /// The key at `index`, which is below [`count`](Self::count).
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        match self.lengths(index) {
            Some((start, key, _)) => {
                &self.bytes[start + LENGTHS_BYTES..start + LENGTHS_BYTES + key]
            }
            None => &[],
        }
    }

    /// The value at `index`.
    pub(crate) fn value(&self, index: usize) -> Value<'_> {
        let (start, key, value) = self.lengths(index)?;
        let at = start + LENGTHS_BYTES + key;
        Some(&self.bytes[at..at + value?])
    }

    /// The value at `index`, kept alive by itself.
    pub(crate) fn value_owned(&self, index: usize) -> Option<Bytes> {
        let value = self.value(index)?;
        // A small value must not keep its whole block in memory.
        if value.len() * 2 < self.bytes.len() {
            Some(Bytes::copy_from_slice(value))
        } else {
            Some(self.bytes.slice_ref(value))
        }
    }

    /// The index of the first key that is not below `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
