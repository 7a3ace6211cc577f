//! Values of the same sizes as the core's.

use crate::core_bench::core_side::USER;
use crate::core_bench::work::SMALL_BYTES;
use fs::blob::block::OVERHEAD_BYTES;
use fs::schema::{Bits, Data, Entry, Form, Inode, MapEntry, SessionRecord};
use fs::{FileType, Time, mode};

/// A number as long as those that the inodes of a run have.
const SOME_INODE: u64 = 1 << 17;

/// Records to copy.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) session: Vec<u8>,
    pub(super) directory: Vec<u8>,
    /// A new file.
    pub(super) file: Vec<u8>,
    /// One that was renamed.
    pub(super) renamed: Vec<u8>,
    /// One with bytes in its inline record.
    pub(super) written: Vec<u8>,
    pub(super) mapped: Vec<u8>,
    /// A full chunk of a blob.
    pub(super) map: Vec<u8>,
    entry_bytes: usize,
}

impl Records {
    /// For chunks of so many blocks.
    pub(super) fn new(chunk_blocks: u32) -> Self {
        let (then, now) = (time(1), time(2));
        let file = Inode::new(SOME_INODE, mode::FILE | 0o644, USER, USER, then);
        let mut directory = Inode::new(SOME_INODE, mode::DIRECTORY | 0o755, USER, USER, then);
        directory.parent = SOME_INODE;
        let renamed = Inode { ctime: now, ..file.clone() };
        let small = SMALL_BYTES as u32;
        let written =
            Inode { mtime: now, size: small.into(), inline_len: small, ..renamed.clone() };
        let mapped = Inode {
            form: Form::Mapped,
            size: crate::core_bench::side::MAPPED_BYTES,
            inline_len: 0,
            ..written.clone()
        };
        let all = Bits::of(0..chunk_blocks);
        let map = MapEntry::Data(Data { allocated: all.clone(), layers: vec![(0, all)] });
        let session = SessionRecord {
            host: String::new(),
            pid: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: then,
        };
        let entry = Entry { ino: SOME_INODE, file_type: FileType::File };
        let encode = |inode: &Inode| inode.encode(b"", SOME_INODE);
        Self {
            session: session.encode(b""),
            directory: encode(&directory),
            file: encode(&file),
            renamed: encode(&renamed),
            written: encode(&written),
            mapped: encode(&mapped),
            map: map.encode(b""),
            entry_bytes: entry.encode(b"").len(),
        }
    }

    /// An entry, from which its inode can be read again.
    pub(super) fn entry(&self, ino: u64) -> Vec<u8> {
        let mut entry = vec![0; self.entry_bytes.max(8)];
        entry[..8].copy_from_slice(&ino.to_le_bytes());
        entry
    }
}

fn time(secs: i64) -> Time {
    Time { secs: 1_800_000_000 + secs, nanos: 123_456_789 }
}

/// The inode of an entry.
pub(super) fn target(entry: &[u8]) -> Option<u64> {
    entry.first_chunk().map(|ino| u64::from_le_bytes(*ino))
}

/// A block or an inline record, as long as the core's is when nothing can be compressed.
pub(super) fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(OVERHEAD_BYTES + bytes.len());
    stored.extend_from_slice(&[0; OVERHEAD_BYTES]);
    stored.extend_from_slice(bytes);
    stored
}
