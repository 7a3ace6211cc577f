//! One record by itself: whether it is what was written.

use crate::blob::block;
use crate::op::xattr;
use crate::schema::codec::unseal;
use crate::schema::{
    BackingRecord, Entry, Inode, Job, MapEntry, Parsed, ScrubRecord, SessionRecord, VolumeRecord,
    decode_locks,
};
use crate::types::Ino;
use bytes::Bytes;

/// What is wrong with a record: the kind in the words of a check, and what.
pub(super) fn damage(
    parsed: &Parsed,
    key: &[u8],
    value: &[u8],
    block_bytes: usize,
) -> Option<(&'static str, String)> {
    let sound = match parsed {
        Parsed::Inline { .. } => {
            let decoded = block::decode(&Bytes::copy_from_slice(value), key, block_bytes);
            return decoded.err().map(|damage| ("inline-damaged", damage.to_string()));
        }
        // Blocks are read with their chunk.
        Parsed::Block(_) => return None,
        Parsed::Volume => VolumeRecord::decode(key, value).is_ok(),
        Parsed::Inode { ino } => Inode::decode(key, *ino, value).is_some(),
        Parsed::Lock { .. } => decode_locks(key, value).is_some(),
        Parsed::Xattr { .. } => xattr::decode(key, value).is_some(),
        Parsed::Entry { .. } => Entry::decode(key, value).is_some(),
        Parsed::Map { .. } => MapEntry::decode(key, value).is_some(),
        Parsed::Garbage { .. } => value == b"l" || value == b"n",
        Parsed::Session { .. } => SessionRecord::decode(key, value).is_some(),
        Parsed::Op { .. } => unseal(key, value).is_some(),
        Parsed::Job { .. } => Job::decode(key, value).is_some(),
        Parsed::Scrub => ScrubRecord::decode(key, value).is_some(),
        Parsed::Backing { .. } => BackingRecord::decode(key, value).is_some(),
        Parsed::Epoch
        | Parsed::Life
        | Parsed::NextInode
        | Parsed::Counter { .. }
        | Parsed::Lease { .. }
        | Parsed::Changed { .. }
        | Parsed::Subdirs { .. }
        | Parsed::Blocks { .. }
        | Parsed::Heartbeat { .. }
        | Parsed::Held { .. } => value.len() == 8,
        // Such a key has no value that could be right. A check removes it.
        Parsed::Conflict { .. } => true,
    };
    (!sound).then(|| ("damaged-record", "is not what was written".to_owned()))
}

/// The inode that a key belongs to, or the blob; 0 for none.
pub(super) fn owner(parsed: &Parsed) -> Ino {
    match parsed {
        Parsed::Garbage { ino }
        | Parsed::Entry { parent: ino, .. }
        | Parsed::Inline { blob: ino }
        | Parsed::Map { blob: ino, .. } => *ino,
        Parsed::Block(place) => place.blob,
        other => other.inode().unwrap_or(0),
    }
}
