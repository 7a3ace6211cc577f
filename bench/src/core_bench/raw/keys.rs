//! Keys of the same bytes as the core's, written by hand.

use crate::core_bench::action::{NAME_BYTES, Name};

/// The first volume's number in big-endian, with which its keys begin.
const VOLUME: [u8; 2] = [0, 1];

pub(super) const EPOCH: [u8; 4] = [VOLUME[0], VOLUME[1], b'M', b'e'];
pub(super) const INODES: [u8; 5] = [VOLUME[0], VOLUME[1], b's', b'i', 0];

/// The conflict keys of an inode's parts.
pub(super) const ACCESS: u8 = b'a';
pub(super) const DATA: u8 = b'd';

fn numbered<const N: usize>(family: u8, number: u64, rest: &[u8]) -> [u8; N] {
    let mut key = [0; N];
    key[..2].copy_from_slice(&VOLUME);
    key[2] = family;
    key[3..11].copy_from_slice(&number.to_be_bytes());
    key[11..].copy_from_slice(rest);
    key
}

pub(super) fn session(session: u64) -> [u8; 12] {
    numbered(b'p', session, &[0])
}

pub(super) fn inode(ino: u64) -> [u8; 11] {
    numbered(b'i', ino, &[])
}

pub(super) fn changed(ino: u64) -> [u8; 12] {
    numbered(b'i', ino, &[3])
}

pub(super) fn subdirs(ino: u64) -> [u8; 12] {
    numbered(b'i', ino, &[4])
}

pub(super) fn blocks(ino: u64) -> [u8; 12] {
    numbered(b'i', ino, &[5])
}

pub(super) fn part(ino: u64, part: u8) -> [u8; 13] {
    numbered(b'i', ino, &[0xfe, part])
}

pub(super) fn entries(directory: u64) -> [u8; 11] {
    numbered(b'd', directory, &[])
}

pub(super) fn entry(directory: u64, name: &Name) -> [u8; 11 + NAME_BYTES] {
    numbered(b'd', directory, name)
}

pub(super) fn inline(ino: u64) -> [u8; 11] {
    numbered(b'b', ino, &[])
}

pub(super) fn map(ino: u64, chunk: u64) -> [u8; 19] {
    numbered(b'f', ino, &chunk.to_be_bytes())
}

pub(super) fn block(ino: u64, chunk: u64, block: u16) -> [u8; 37] {
    let mut rest = [0; 26];
    rest[..8].copy_from_slice(&ino.to_be_bytes());
    rest[8..16].copy_from_slice(&chunk.to_be_bytes());
    rest[24..].copy_from_slice(&block.to_be_bytes());
    numbered(b'c', 0, &rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fs::schema::{BlockPlace, Keys, Parsed};

    #[test]
    fn the_core_has_the_same_keys() {
        let name = crate::core_bench::action::File::new(77, 3).name;
        let place = BlockPlace { slot: 0, blob: 300, chunk: 2, block: 9, generation: 0 };
        let pairs: [(&[u8], Parsed); 12] = [
            (&EPOCH, Parsed::Epoch),
            (&INODES, Parsed::Counter { counter: b'i', shard: 0 }),
            (&session(5), Parsed::Session { session: 5 }),
            (&inode(300), Parsed::Inode { ino: 300 }),
            (&changed(300), Parsed::Changed { ino: 300 }),
            (&subdirs(300), Parsed::Subdirs { ino: 300 }),
            (&blocks(300), Parsed::Blocks { ino: 300 }),
            (&part(300, ACCESS), Parsed::Conflict { ino: 300, part: b'a' }),
            (&entry(300, &name), Parsed::Entry { parent: 300, name: name.to_vec() }),
            (&inline(300), Parsed::Inline { blob: 300 }),
            (&map(300, 2), Parsed::Map { blob: 300, chunk: 2 }),
            (&block(300, 2, 9), Parsed::Block(place)),
        ];
        for (key, parsed) in pairs {
            assert_eq!(Keys::new(1).parse(key), Some(parsed));
        }
    }
}
