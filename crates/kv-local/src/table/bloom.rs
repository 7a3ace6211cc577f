//! A filter that knows most of the keys that a table does not have. All bits of a key lie in one
//! cache line.

use base::checksum::hash64;

const LINE_BYTES: usize = 64;
const BITS_PER_KEY: usize = 10;
const PROBES: u32 = 6;

/// The hash that the filter uses.
pub(crate) fn hash(key: &[u8]) -> u64 {
    hash64(0, key)
}

/// Builds a filter from the hashes of all keys.
pub(crate) fn build(hashes: &[u64]) -> Vec<u8> {
    let lines = (hashes.len() * BITS_PER_KEY).div_ceil(LINE_BYTES * 8).max(1);
    let mut filter = vec![0; lines * LINE_BYTES];
    for &hash in hashes {
        let line = line_of(hash, lines) * LINE_BYTES;
        for bit in bits(hash) {
            filter[line + bit / 8] |= 1 << (bit % 8);
        }
    }
    filter
}

/// False when the key is surely not there.
pub(crate) fn may_contain(filter: &[u8], hash: u64) -> bool {
    let lines = filter.len() / LINE_BYTES;
    if lines == 0 {
        return true;
    }
    let line = &filter[line_of(hash, lines) * LINE_BYTES..][..LINE_BYTES];
    bits(hash).all(|bit| line[bit / 8] & (1 << (bit % 8)) != 0)
}

fn line_of(hash: u64, lines: usize) -> usize {
    ((u128::from(hash) * lines as u128) >> 64) as usize
}

fn bits(hash: u64) -> impl Iterator<Item = usize> {
    // The line took the high bits; a multiplication makes fresh ones for the places in it.
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |probe| (mixed >> (9 * probe + 10)) as usize % (LINE_BYTES * 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_no_false_negative_and_few_false_positives() {
        let key = |number: u64| hash(&number.to_be_bytes());
        let hashes: Vec<u64> = (0..10_000).map(key).collect();
        let filter = build(&hashes);
        assert!(hashes.iter().all(|&hash| may_contain(&filter, hash)));
        let wrong = (10_000..110_000).filter(|&n| may_contain(&filter, key(n))).count();
        assert!(wrong < 2_500, "{wrong} of 100,000");
    }
}
