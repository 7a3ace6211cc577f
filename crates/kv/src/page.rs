//! What a range read returns: entries packed in one buffer, two allocations however many they are.

use crate::Key;

/// Keys and values in the order of the read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    bytes: Vec<u8>,
    /// Where each entry's key ends and where its value ends.
    ends: Vec<(u32, u32)>,
    /// Whether the range may hold more behind the last entry. Never true of an empty page.
    pub more: bool,
}

impl Page {
    /// The most bytes that a page holds: offsets are 32 bits.
    pub const BYTES_MAX: usize = 1 << 30;

    /// An empty page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an entry.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len() as u32));
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The entry at `index`.
    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let &(key_end, value_end) = self.ends.get(index)?;
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1].1,
        };
        let key = &self.bytes[start as usize..key_end as usize];
        Some((key, &self.bytes[key_end as usize..value_end as usize]))
    }

    /// The entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> + ExactSizeIterator {
        (0..self.len()).map(|index| {
            let (key_end, value_end) = self.ends[index];
            let start = if index == 0 { 0 } else { self.ends[index - 1].1 };
            (
                &self.bytes[start as usize..key_end as usize],
                &self.bytes[key_end as usize..value_end as usize],
            )
        })
    }

    /// The key of the last entry.
    pub fn last_key(&self) -> Option<Key> {
        let (key, _) = self.get(self.len().checked_sub(1)?)?;
        Some(Key::new(key))
    }
}
