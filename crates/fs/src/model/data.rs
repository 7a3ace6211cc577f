//! Bytes to write, as few words: so that an action can be printed.

use base::{Random, SeededRandom};

/// What the bytes look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// All the same; zeros among others.
    Repeated(u8),
    /// Lines of text, which shrink when compressed.
    Text(u8),
    /// Noise from a seed, which does not shrink.
    Noise(u64),
    /// Noise with zeros at its end and in its middle.
    Holed(u64),
}

/// Bytes to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data {
    /// What they look like.
    pub pattern: Pattern,
    /// How many.
    pub len: usize,
}

impl Data {
    /// Some bytes, this many.
    pub fn random(random: &dyn Random, len: usize) -> Self {
        let pattern = match random.below(8) {
            0 | 1 => Pattern::Repeated(0),
            2 => Pattern::Repeated(1 + random.below(255) as u8),
            3 => Pattern::Text(random.below(26) as u8),
            4 => Pattern::Holed(random.next_u64()),
            _ => Pattern::Noise(random.next_u64()),
        };
        Self { pattern, len }
    }

    /// The bytes themselves.
    pub fn bytes(&self) -> Vec<u8> {
        match self.pattern {
            Pattern::Repeated(byte) => vec![byte; self.len],
            Pattern::Text(letter) => {
                let line = format!("a line of text {}\n", char::from(b'a' + letter % 26));
                line.bytes().cycle().take(self.len).collect()
            }
            Pattern::Noise(seed) => noise(seed, self.len),
            Pattern::Holed(seed) => {
                let mut bytes = noise(seed, self.len);
                let third = self.len / 3;
                bytes[third / 2..third].fill(0);
                bytes[2 * third..].fill(0);
                bytes
            }
        }
    }
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let random = SeededRandom::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(random.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
