//! The two checksums of Seamount's files, and the one place that chooses them.
//!
//! * [`crc32`] guards log records. It is linear, so a single flipped bit can be told from a torn
//!   write ([`one_bit_away`]).
//! * [`hash64`] guards what lies at rest for years: table blocks, manifests, superblocks.

/// CRC-32 (IEEE) of `bytes`.
#[inline]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// 64-bit XXH3 of `bytes`; `seed` binds the sum to a place, so that bytes moved elsewhere fail.
#[inline]
pub fn hash64(seed: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}

/// The reflected IEEE polynomial, as `crc32fast` uses it.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// Whether flipping exactly one bit of a message of `len` bytes turns a CRC of `found` into
/// `wanted`.
///
/// CRC is linear: the difference of two sums depends only on the difference of the messages. The
/// difference that one flipped bit makes is walked from the last bit of the message to the first,
/// one shift each, so a message of a megabyte costs milliseconds.
pub fn one_bit_away(len: usize, found: u32, wanted: u32) -> bool {
    let difference = found ^ wanted;
    // A flipped bit in the stored sum itself is one bit away too.
    if difference.count_ones() == 1 {
        return true;
    }
    // What a flip of the highest bit of the last byte does to the sum.
    let mut effect = POLYNOMIAL;
    for _ in 0..len.saturating_mul(8) {
        if effect == difference {
            return true;
        }
        effect = if effect & 1 == 1 { (effect >> 1) ^ POLYNOMIAL } else { effect >> 1 };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_flip_is_recognised_and_double_flips_are_not() {
        let mut bytes: Vec<u8> = (0..97u8).map(|i| i.wrapping_mul(31)).collect();
        let good = crc32(&bytes);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(one_bit_away(bytes.len(), crc32(&bytes), good), "bit {bit}");
            let other = (bit + 13) % (bytes.len() * 8);
            bytes[other / 8] ^= 1 << (other % 8);
            assert!(!one_bit_away(bytes.len(), crc32(&bytes), good), "bits {bit} and {other}");
            bytes[other / 8] ^= 1 << (other % 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
