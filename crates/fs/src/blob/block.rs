//! The stored form of one block of a file in the KV engine.
//!
//! ```text
//! version u8 | codec u8 | raw length u32 | hash64 u64 | payload        (little-endian)
//! ```
//! The raw length is that of the block without its trailing zeros. The hash is chained over the
//! block's key, the fields before the hash and the payload, so a moved block is a damaged block.

use super::Damage;
use base::checksum::hash64;
use bytes::Bytes;
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

/// What the stored form adds to a block at most.
pub const OVERHEAD_BYTES: usize = 14;

const VERSION: u8 = 1;
const ZSTD_LEVEL: i32 = 3;
/// Long enough that the loop over a stretch is vector code, short enough to stop early.
const STRETCH_BYTES: usize = 128;

/// How a payload is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

impl Codec {
    /// The byte that stands for it wherever it is stored.
    pub fn to_byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
        }
    }

    /// What a stored byte stands for.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::None,
            1 => Self::Lz4,
            2 => Self::Zstd,
            _ => return None,
        })
    }
}

/// Whether all bytes are zero. Such a block is not stored.
pub fn is_zero(data: &[u8]) -> bool {
    let (stretches, rest) = data.as_chunks();
    stretches.iter().all(stretch_is_zero) && rest.iter().all(|byte| *byte == 0)
}

/// The length without trailing zeros.
pub fn trimmed_len(data: &[u8]) -> usize {
    let (rest, stretches) = data.as_rchunks();
    let zero_stretches = stretches.iter().rev().take_while(|s| stretch_is_zero(s)).count();
    let kept = rest.len() + (stretches.len() - zero_stretches) * STRETCH_BYTES;
    // What is left to look at is the stretch in which the last byte is, or the rest.
    let zeros = data.iter().take(kept).rev().take_while(|byte| **byte == 0).count();
    kept - zeros
}

fn stretch_is_zero(stretch: &[u8; STRETCH_BYTES]) -> bool {
    let (words, _) = stretch.as_chunks();
    words.iter().fold(0, |all, word| all | u128::from_ne_bytes(*word)) == 0
}

/// The stored form of a block whose key is `place`. The block is not all zeros: those are not
/// stored. It is compressed when that saves an eighth or more.
pub fn encode(data: &[u8], codec: Codec, place: &[u8]) -> Vec<u8> {
    let raw = data.get(..trimmed_len(data)).unwrap_or(data);
    debug_assert!(!raw.is_empty(), "an all-zero block is not stored");
    debug_assert!(u32::try_from(raw.len()).is_ok(), "a block is far smaller than 4 GiB");
    let packed_len_max = raw.len() - raw.len().div_ceil(8);
    let packed = pack(raw, codec).filter(|packed| packed.len() <= packed_len_max);
    let (codec, payload) = match &packed {
        Some(packed) => (codec, packed.as_slice()),
        None => (Codec::None, raw),
    };
    let [l0, l1, l2, l3] = (raw.len() as u32).to_le_bytes();
    let fields = [VERSION, codec.to_byte(), l0, l1, l2, l3];
    let mut stored = Vec::with_capacity(OVERHEAD_BYTES + payload.len());
    stored.extend_from_slice(&fields);
    stored.extend_from_slice(&sum(place, &fields, payload).to_le_bytes());
    stored.extend_from_slice(payload);
    stored
}

/// The block without its trailing zeros, from its stored form. A block that is not compressed is a
/// part of `stored`; nothing here allocates more than `block_bytes`.
pub fn decode(stored: &Bytes, place: &[u8], block_bytes: usize) -> Result<Bytes, Damage> {
    let (header, payload) = stored.split_first_chunk::<OVERHEAD_BYTES>().ok_or(Damage::TooShort)?;
    let [version, codec, l0, l1, l2, l3, stored_sum @ ..] = *header;
    if version != VERSION {
        return Err(Damage::Version(version));
    }
    if sum(place, &[version, codec, l0, l1, l2, l3], payload) != u64::from_le_bytes(stored_sum) {
        return Err(Damage::Checksum);
    }
    let raw_len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if raw_len > block_bytes {
        return Err(Damage::Length { found: raw_len as u64, wanted: block_bytes as u64 });
    }
    let raw = match Codec::from_byte(codec).ok_or(Damage::Codec(codec))? {
        Codec::None => Some(stored.slice(OVERHEAD_BYTES..)),
        Codec::Lz4 => lz4_flex::block::decompress(payload, raw_len).ok().map(Bytes::from),
        Codec::Zstd => unpack_zstd(payload, raw_len).map(Bytes::from),
    };
    let raw = raw.ok_or(Damage::Compression)?;
    if raw.len() != raw_len {
        return Err(Damage::Length { found: raw.len() as u64, wanted: raw_len as u64 });
    }
    // Zeros at the end are not stored: one form for each block.
    if raw.last().is_none_or(|last| *last == 0) {
        let found = trimmed_len(&raw) as u64;
        return Err(Damage::Length { found, wanted: raw_len as u64 });
    }
    Ok(raw)
}

/// Whether a stored form can be decoded, and to how many bytes. What is not compressed is not copied.
pub(crate) fn verify(stored: &[u8], place: &[u8], block_bytes: usize) -> Result<usize, Damage> {
    let plain = stored.get(1) == Some(&Codec::None.to_byte());
    let (Some((header, payload)), true) = (stored.split_first_chunk::<OVERHEAD_BYTES>(), plain)
    else {
        return Ok(decode(&Bytes::copy_from_slice(stored), place, block_bytes)?.len());
    };
    let [version, codec, l0, l1, l2, l3, stored_sum @ ..] = *header;
    let raw_len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let sound = version == VERSION
        && sum(place, &[version, codec, l0, l1, l2, l3], payload) == u64::from_le_bytes(stored_sum)
        && raw_len <= block_bytes
        && payload.len() == raw_len
        && payload.last().is_some_and(|last| *last != 0);
    match sound {
        true => Ok(raw_len),
        // Decoding says what is wrong.
        false => Ok(decode(&Bytes::copy_from_slice(stored), place, block_bytes)?.len()),
    }
}

pub(crate) fn sum(place: &[u8], fields: &[u8], payload: &[u8]) -> u64 {
    hash64(hash64(hash64(0, place), fields), payload)
}

thread_local! {
    // A context is far more expensive to make than a block is to compress.
    static PACK: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACK: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// What is looked at of a block to see whether it is noise: so many pieces, as far from each other as can be.
const SAMPLES: usize = 8;
const SAMPLE_BYTES: usize = 64;
/// Different bytes among those. Noise has 221 on average, and as few as this one time in fifty; with an eighth that is
/// not noise, which is what must be saved for a block to be compressed, it is the average.
const NOISE_BYTES: u32 = 212;

/// Whether matches are not worth looking for, by a sample: compressed before, encrypted, drawn by lot.
fn is_noise(raw: &[u8]) -> bool {
    let step = raw.len() / SAMPLES;
    if step < SAMPLE_BYTES {
        return false;
    }
    let mut seen = [0_u64; 4];
    for piece in raw.chunks_exact(step).take(SAMPLES) {
        for byte in piece.iter().take(SAMPLE_BYTES) {
            seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }
    seen.iter().map(|bits| bits.count_ones()).sum::<u32>() >= NOISE_BYTES
}

/// `None` when it is not to be compressed or the compressor gives up: it is stored plain then.
fn pack(raw: &[u8], codec: Codec) -> Option<Vec<u8>> {
    match codec {
        Codec::None => None,
        // It finds nothing but matches; the other one also counts bytes.
        Codec::Lz4 if is_noise(raw) => None,
        Codec::Lz4 => Some(lz4_flex::block::compress(raw)),
        Codec::Zstd => PACK.with_borrow_mut(|context| {
            let context = match context {
                Some(context) => context,
                None => context.insert(Compressor::new(ZSTD_LEVEL).ok()?),
            };
            context.compress(raw).ok()
        }),
    }
}

/// At most `raw_len_max` bytes; `None` when there would be more, or the payload is no frame.
fn unpack_zstd(payload: &[u8], raw_len_max: usize) -> Option<Vec<u8>> {
    UNPACK.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(Decompressor::new().ok()?),
        };
        context.decompress(payload, raw_len_max).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};

    const BLOCK_BYTES: usize = 4096;
    const CODECS: [Codec; 3] = [Codec::None, Codec::Lz4, Codec::Zstd];

    #[test]
    fn noise_is_told_from_what_can_be_compressed() {
        let random = SeededRandom::new(7);
        for len in [512, 4096, 10_000, 65_536] {
            let mut told = 0;
            for _ in 0..200 {
                let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                told += u32::from(is_noise(&bytes));
                // Half of all values, as in text, code and what is written in letters.
                bytes.iter_mut().for_each(|byte| *byte &= 0x7f);
                assert!(!is_noise(&bytes), "{len} bytes of some values");
            }
            assert!(told > 180, "{told} of 200 blocks of {len} bytes of noise");
        }
        let few = b"what is written in words has few values".repeat(100);
        assert!(!is_noise(&few) && encode(&few, Codec::Lz4, b"place").len() < few.len() / 4);
        assert!(!is_noise(&[0, 255].repeat(4000)));
    }

    /// A block that is not all zeros: noise, runs and zeros in some mixture.
    fn some_block(random: &SeededRandom) -> Vec<u8> {
        let mut data = vec![0; 1 + random.below(BLOCK_BYTES as u64) as usize];
        let mut at = 0;
        while at < data.len() {
            let end = data.len().min(at + 1 + random.below(600) as usize);
            let fill = random.next_u64() as u8;
            match random.below(3) {
                0 => data[at..end].fill(fill),
                1 => data[at..end].fill_with(|| random.next_u64() as u8),
                _ => {}
            }
            at = end;
        }
        let at = random.below(data.len() as u64) as usize;
        data[at] |= 1;
        data
    }

    /// The stored form of whatever `fields` and `payload` say, with a checksum that is right.
    fn sealed(codec: u8, raw_len: u32, payload: &[u8], place: &[u8]) -> Bytes {
        let mut fields = vec![VERSION, codec];
        fields.extend_from_slice(&raw_len.to_le_bytes());
        let sum = sum(place, &fields, payload).to_le_bytes();
        Bytes::from([&fields, &sum[..], payload].concat())
    }

    #[test]
    fn zeros_are_found_at_every_length() {
        for len in 0..4 * STRETCH_BYTES {
            let mut data = vec![0; len];
            assert!(is_zero(&data), "{len}");
            assert_eq!(trimmed_len(&data), 0, "{len}");
            for at in 0..len {
                data[at] = 0x80;
                assert!(!is_zero(&data), "{at} of {len}");
                assert_eq!(trimmed_len(&data), at + 1, "{at} of {len}");
                data[at] = 0;
            }
        }
    }

    #[test]
    fn codecs_and_their_bytes_agree() {
        for byte in 0..=u8::MAX {
            assert!(Codec::from_byte(byte).is_none_or(|codec| codec.to_byte() == byte));
        }
        assert!(CODECS.iter().all(|codec| Codec::from_byte(codec.to_byte()) == Some(*codec)));
    }

    #[test]
    fn what_goes_in_comes_out() {
        for seed in 0..300 {
            println!("seed {seed}");
            let random = SeededRandom::new(seed);
            let data = some_block(&random);
            let place = random.next_u64().to_be_bytes();
            let trimmed = &data[..trimmed_len(&data)];
            for codec in CODECS {
                let stored = Bytes::from(encode(&data, codec, &place));
                assert!(stored.len() <= trimmed.len() + OVERHEAD_BYTES);
                assert_eq!(decode(&stored, &place, BLOCK_BYTES).unwrap(), trimmed, "{codec:?}");
                assert_eq!(decode(&stored, b"elsewhere", BLOCK_BYTES), Err(Damage::Checksum));
            }
        }
    }

    #[test]
    fn only_what_saves_an_eighth_is_compressed() {
        println!("seed 1");
        let random = SeededRandom::new(1);
        let noise: Vec<u8> = (0..BLOCK_BYTES).map(|_| random.next_u64() as u8 | 1).collect();
        let text = b"the same line again\n".repeat(200);
        for codec in [Codec::Lz4, Codec::Zstd] {
            let stored = encode(&noise, codec, b"k");
            assert_eq!((stored[1], stored.len()), (0, BLOCK_BYTES + OVERHEAD_BYTES), "{codec:?}");
            let stored = encode(&text, codec, b"k");
            assert_eq!(stored[1], codec.to_byte());
            assert!(stored.len() < text.len() / 8, "{codec:?}");
            // Nothing can be saved of so little.
            assert_eq!(encode(b"x\0\0", codec, b"k").len(), 1 + OVERHEAD_BYTES);
        }
    }

    #[test]
    fn a_plain_block_is_not_copied() {
        let stored = Bytes::from(encode(&[7; 1000], Codec::None, b"k"));
        let data = decode(&stored, b"k", BLOCK_BYTES).unwrap();
        assert_eq!(data.as_ptr(), stored[OVERHEAD_BYTES..].as_ptr());
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        for codec in CODECS {
            let good = encode(&b"abc abc abd ".repeat(9), codec, b"k");
            for len in 0..good.len() {
                let cut = Bytes::copy_from_slice(&good[..len]);
                assert!(decode(&cut, b"k", BLOCK_BYTES).is_err(), "{codec:?} {len}");
            }
            for bit in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&bad.into(), b"k", BLOCK_BYTES).is_err(), "{codec:?} {bit}");
            }
        }
    }

    #[test]
    fn headers_that_lie_under_a_right_checksum_are_damage() {
        let over = Damage::Length { found: 4097, wanted: 4096 };
        for codec in CODECS {
            let stored = sealed(codec.to_byte(), 4097, b"abc", b"k");
            assert_eq!(decode(&stored, b"k", BLOCK_BYTES), Err(over));
        }
        let short = Damage::Length { found: 3, wanted: 4 };
        assert_eq!(decode(&sealed(0, 4, b"abc", b"k"), b"k", BLOCK_BYTES), Err(short));
        assert_eq!(decode(&sealed(3, 3, b"abc", b"k"), b"k", BLOCK_BYTES), Err(Damage::Codec(3)));
        let mut stored = sealed(0, 3, b"abc", b"k").to_vec();
        stored[0] = 2;
        assert_eq!(decode(&stored.into(), b"k", BLOCK_BYTES), Err(Damage::Version(2)));
        let text = b"the same line again\n".repeat(20);
        for codec in [Codec::Lz4, Codec::Zstd] {
            let packed = pack(&text, codec).unwrap();
            for raw_len in [0, 1, text.len() - 1, text.len() + 1, BLOCK_BYTES] {
                let stored = sealed(codec.to_byte(), raw_len as u32, &packed, b"k");
                let wanted = match raw_len > text.len() {
                    true => Damage::Length { found: text.len() as u64, wanted: raw_len as u64 },
                    false => Damage::Compression,
                };
                let found = decode(&stored, b"k", BLOCK_BYTES);
                assert_eq!(found, Err(wanted), "{codec:?} {raw_len}");
            }
        }
    }

    #[test]
    fn no_payload_makes_the_decoders_fail_otherwise_than_by_saying_so() {
        for seed in 0..2000 {
            println!("seed {seed}");
            let random = SeededRandom::new(seed);
            let data = some_block(&random);
            for codec in [Codec::Lz4, Codec::Zstd] {
                let Some(mut payload) = pack(&data, codec) else {
                    assert!(codec == Codec::Lz4 && is_noise(&data));
                    continue;
                };
                for _ in 0..1 + random.below(4) {
                    let at = random.below(payload.len() as u64) as usize;
                    payload[at] = random.next_u64() as u8;
                }
                payload.truncate(1 + random.below(2 * payload.len() as u64) as usize);
                let stored = sealed(codec.to_byte(), data.len() as u32, &payload, b"k");
                let found = decode(&stored, b"k", BLOCK_BYTES);
                assert!(found.is_err() || found.is_ok_and(|found| found.len() == data.len()));
            }
            let noise: Vec<u8> = (0..random.below(40)).map(|_| random.next_u64() as u8).collect();
            assert!(decode(&noise.into(), b"k", BLOCK_BYTES).is_err());
        }
    }
}
