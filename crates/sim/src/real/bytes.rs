//! Bytes that a number names: whoever knows the number can check them.

use base::{Random, SeededRandom};

/// As many bytes as `len`, of a kind that the number chooses: noise, a few values again and again, or one.
pub fn fill(seed: u64, len: usize) -> Vec<u8> {
    let random = SeededRandom::new(seed);
    match seed % 4 {
        0 => vec![(seed >> 8) as u8; len],
        1 => {
            let piece: Vec<u8> = format!("{seed:x} ").into_bytes();
            piece.iter().copied().cycle().take(len).collect()
        }
        _ => {
            let mut bytes = Vec::with_capacity(len + 8);
            while bytes.len() < len {
                bytes.extend_from_slice(&random.next_u64().to_le_bytes());
            }
            bytes.truncate(len);
            bytes
        }
    }
}
