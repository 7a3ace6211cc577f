//! Map entries: what a chunk of a blob holds.

use super::codec::{Reader, Writer, unseal};

const VERSION: u8 = 1;
/// The most blocks of a chunk: 8 MiB of blocks of 1 KiB.
const BLOCKS_MAX: usize = 8192;

/// A set of blocks of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// No block.
    pub fn new() -> Self {
        Self::default()
    }

    /// The blocks of `range`.
    pub fn of(range: std::ops::Range<u32>) -> Self {
        let mut bits = Self::new();
        range.for_each(|block| bits.set(block));
        bits
    }

    /// Whether a block is in it.
    #[inline]
    pub fn has(&self, block: u32) -> bool {
        self.0.get(block as usize / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Adds a block.
    pub fn set(&mut self, block: u32) {
        let word = block as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << (block % 64);
        }
    }

    /// Takes a block out.
    pub fn clear(&mut self, block: u32) {
        if let Some(word) = self.0.get_mut(block as usize / 64) {
            *word &= !(1 << (block % 64));
        }
        // One form for each set.
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// How many blocks it has.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The blocks in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index as u32 * 64 + bit)
        })
    }

    /// Whether all of its blocks are in `other`.
    fn is_within(&self, other: &Self) -> bool {
        let theirs = other.0.iter().chain(std::iter::repeat(&0));
        self.0.iter().zip(theirs).all(|(word, their)| word & !their == 0)
    }

    /// Whether some block is in both.
    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(word, their)| word & their != 0)
    }

    /// Adds the blocks of `other`.
    fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(word, their)| *word |= their);
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.number(self.0.len() as u64);
        for word in &self.0 {
            out.raw(&word.to_le_bytes());
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let words = usize::try_from(from.number()?).ok()?;
        if words > BLOCKS_MAX / 64 {
            return None;
        }
        let mut bits = Vec::with_capacity(words);
        for _ in 0..words {
            bits.push(u64::from_le_bytes(from.array()?));
        }
        (bits.last() != Some(&0)).then_some(Self(bits))
    }
}

/// What a chunk holds. A chunk without an entry inherits from the blob's base, or is zero where it
/// has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapEntry {
    /// Zeros, whatever the base has.
    Zero,
    /// Data.
    Data(Data),
}

/// Blocks of a chunk. A block that is allocated and in no layer is zeros that take their space.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Data {
    /// Blocks that take space.
    pub allocated: Bits,
    /// Blocks that are stored, by the generation under which they are.
    pub layers: Vec<(u64, Bits)>,
}

impl Data {
    /// The generation under which a block is stored.
    #[inline]
    pub fn generation_of(&self, block: u32) -> Option<u64> {
        self.layers.iter().find(|(_, bits)| bits.has(block)).map(|(generation, _)| *generation)
    }

    /// Notes that a block is now stored under `generation`, or under none; returns where it was.
    pub fn store(&mut self, block: u32, generation: Option<u64>) -> Option<u64> {
        let before = self.generation_of(block);
        if before != generation {
            if let Some(before) = before
                && let Some((_, bits)) = self.layers.iter_mut().find(|(other, _)| *other == before)
            {
                bits.clear(block);
            }
            if let Some(generation) = generation {
                match self.layers.iter_mut().find(|(other, _)| *other == generation) {
                    Some((_, bits)) => bits.set(block),
                    None => self.layers.push((generation, Bits::of(block..block + 1))),
                }
            }
            self.layers.retain(|(_, bits)| !bits.is_empty());
            self.layers.sort_by_key(|(generation, _)| *generation);
        }
        before
    }
}

impl MapEntry {
    /// The record.
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Writer::with_capacity(48);
        out.byte(VERSION);
        match self {
            Self::Zero => {
                out.byte(0);
            }
            Self::Data(data) => {
                out.byte(1);
                data.allocated.encode(&mut out);
                out.number(data.layers.len() as u64);
                for (generation, bits) in &data.layers {
                    out.number(*generation);
                    bits.encode(&mut out);
                }
            }
        }
        out.seal(key)
    }

    /// From the record.
    pub fn decode(key: &[u8], record: &[u8]) -> Option<Self> {
        let mut from = unseal(key, record)?;
        if from.byte()? != VERSION {
            return None;
        }
        let entry = match from.byte()? {
            0 => Self::Zero,
            1 => {
                let allocated = Bits::decode(&mut from)?;
                let mut layers = Vec::new();
                let mut taken = Bits::new();
                let count = from.number()?;
                for number in 1..=count {
                    let generation = from.number()?;
                    let bits = Bits::decode(&mut from)?;
                    // A block is in one layer.
                    let sound = !bits.is_empty()
                        && bits.is_within(&allocated)
                        && !bits.meets(&taken)
                        && layers.last().is_none_or(|(last, _)| *last < generation);
                    if !sound {
                        return None;
                    }
                    if number < count {
                        taken.add(&bits);
                    }
                    layers.push((generation, bits));
                }
                Self::Data(Data { allocated, layers })
            }
            _ => return None,
        };
        from.end()?;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_in_one_layer() {
        let mut data = Data { allocated: Bits::of(0..200), layers: Vec::new() };
        assert_eq!(data.store(3, Some(0)), None);
        assert_eq!(data.store(130, Some(9)), None);
        assert_eq!(data.store(3, Some(9)), Some(0));
        assert_eq!(
            data.layers,
            [(9, {
                let mut b = Bits::of(3..4);
                b.set(130);
                b
            })]
        );
        assert_eq!(data.store(3, None), Some(9));
        assert_eq!(data.store(130, None), Some(9));
        assert!(data.layers.is_empty());
    }

    #[test]
    fn entries_come_back() {
        let mut data = Data { allocated: Bits::of(0..64), layers: Vec::new() };
        data.store(5, Some(0));
        data.store(6, Some(1 << 60));
        for entry in [MapEntry::Zero, MapEntry::Data(Data::default()), MapEntry::Data(data)] {
            let record = entry.encode(b"k");
            assert_eq!(MapEntry::decode(b"k", &record), Some(entry));
        }
    }

    #[test]
    fn layers_that_do_not_fit_together_are_damage() {
        let entry = |layers: &[(u64, Bits)]| {
            let data = Data { allocated: Bits::of(0..130), layers: layers.to_vec() };
            MapEntry::decode(b"k", &MapEntry::Data(data).encode(b"k"))
        };
        let (low, high) = (Bits::of(0..70), Bits::of(70..130));
        assert!(entry(&[(1, low.clone()), (2, high.clone())]).is_some());
        // Out of order, twice, empty, with a block in two, with a block that takes no space.
        assert!(entry(&[(2, low.clone()), (1, high.clone())]).is_none());
        assert!(entry(&[(1, low.clone()), (1, high.clone())]).is_none());
        assert!(entry(&[(1, Bits::new())]).is_none());
        assert!(entry(&[(1, low.clone()), (2, Bits::of(69..80))]).is_none());
        assert!(entry(&[(1, low), (2, high), (3, Bits::of(5..6))]).is_none());
        assert!(entry(&[(1, Bits::of(0..131))]).is_none());
        assert!(entry(&[(1, Bits::of(500..501))]).is_none());
    }
}
