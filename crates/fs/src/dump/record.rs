//! What is in the frames. Numbers and bytes are written as in the records of a volume; each record has
//! one form.

use crate::access::{ACCESS_ACL, DEFAULT_ACL};
use crate::blob::block::Codec;
use crate::schema::codec::{Reader, Writer};
use crate::schema::{Entry, Form, Inode, VolumeRecord};
use crate::types::{
    FILE_BYTES_MAX, FileType, Ino, LINKS_MAX, NAME_BYTES_MAX, ROOT, SYMLINK_BYTES_MAX, Time,
    XATTR_BYTES_MAX, mode,
};
use bytes::Bytes;

/// Features of streams that this program knows.
const KNOWN_FEATURES: u64 = 0;

/// The bytes of a record: the stream has its own checksums, and needs no seal.
fn unsealed(out: Writer) -> Vec<u8> {
    let mut bytes = out.seal(&[]);
    bytes.truncate(bytes.len().saturating_sub(4));
    bytes
}

fn put_time(out: &mut Writer, time: Time) {
    out.raw(&time.secs.to_le_bytes()).raw(&time.nanos.to_le_bytes());
}

fn get_time(from: &mut Reader<'_>) -> Option<Time> {
    let secs = i64::from_le_bytes(from.array()?);
    let nanos = u32::from_le_bytes(from.array()?);
    (nanos < 1_000_000_000).then_some(Time { secs, nanos })
}

/// The volume as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VolumeFrame {
    pub(super) features: u64,
    pub(super) uuid: u128,
    pub(super) chunk_bytes: u32,
    pub(super) codec: Codec,
    pub(super) parity_group: u8,
    pub(super) capacity_bytes: u64,
    pub(super) inodes_max: u64,
    pub(super) created: Time,
    /// Every inode has a number below it, and new ones get none below.
    pub(super) next_inode: u64,
}

impl VolumeFrame {
    pub(super) fn of(record: &VolumeRecord, next_inode: u64) -> Self {
        Self {
            features: KNOWN_FEATURES,
            uuid: record.uuid,
            chunk_bytes: record.chunk_bytes,
            codec: record.codec,
            parity_group: record.parity_group,
            capacity_bytes: record.capacity_bytes,
            inodes_max: record.inodes_max,
            created: record.created,
            next_inode,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.number(self.features).raw(&self.uuid.to_le_bytes());
        out.number(self.chunk_bytes.into()).byte(self.codec.to_byte()).byte(self.parity_group);
        out.number(self.capacity_bytes).number(self.inodes_max);
        put_time(&mut out, self.created);
        out.number(self.next_inode);
        unsealed(out)
    }

    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let mut from = Reader(payload);
        let frame = Self {
            features: from.number()?,
            uuid: u128::from_le_bytes(from.array()?),
            chunk_bytes: from.number_u32()?,
            codec: Codec::from_byte(from.byte()?)?,
            parity_group: from.byte()?,
            capacity_bytes: from.number()?,
            inodes_max: from.number()?,
            created: get_time(&mut from)?,
            next_inode: from.number()?,
        };
        from.end()?;
        let numbers = crate::volume::FIRST_INODE..=1 << 63;
        numbers.contains(&frame.next_inode).then_some(frame)
    }

    /// Whether it uses features that this program does not know: their frames may mean anything.
    pub(super) fn is_unknown(payload: &[u8]) -> bool {
        Reader(payload).number().is_some_and(|features| features & !KNOWN_FEATURES != 0)
    }
}

/// An inode with everything that callers see of it. Where its data is belongs to each volume.
pub(super) fn encode_inode(ino: Ino, inode: &Inode) -> Vec<u8> {
    let mut out = Writer::with_capacity(128 + inode.target.len());
    out.number(ino).number(inode.mode.into()).number(inode.nlink.into());
    out.number(inode.uid.into()).number(inode.gid.into()).number(inode.rdev.into());
    out.number(inode.size).number(inode.parent).number(inode.accessed_hour.into());
    for time in [inode.btime, inode.atime, inode.mtime, inode.ctime] {
        put_time(&mut out, time);
    }
    out.bytes(&inode.target);
    unsealed(out)
}

/// A new inode: without data, attributes and lists, which come behind it.
pub(super) fn decode_inode(payload: &[u8]) -> Option<(Ino, Inode)> {
    let mut from = Reader(payload);
    let ino = from.number()?;
    let mut inode = Inode::new(ino, from.number_u32()?, 0, 0, Time::default());
    inode.nlink = from.number_u32()?;
    inode.uid = from.number_u32()?;
    inode.gid = from.number_u32()?;
    inode.rdev = from.number_u32()?;
    inode.size = from.number()?;
    inode.parent = from.number()?;
    inode.accessed_hour = from.number_u32()?;
    inode.btime = get_time(&mut from)?;
    inode.atime = get_time(&mut from)?;
    inode.mtime = get_time(&mut from)?;
    inode.ctime = get_time(&mut from)?;
    inode.target = Bytes::copy_from_slice(from.bytes()?);
    from.end()?;
    is_sound(ino, &inode).then_some((ino, inode))
}

fn is_sound(ino: Ino, inode: &Inode) -> bool {
    let Some(file_type) = FileType::of_mode(inode.mode) else { return false };
    let dir = file_type == FileType::Directory;
    let size = match file_type {
        FileType::File => inode.size <= FILE_BYTES_MAX,
        FileType::Symlink => inode.size == inode.target.len() as u64,
        _ => inode.size == 0,
    };
    let target = match file_type {
        FileType::Symlink => (1..=SYMLINK_BYTES_MAX).contains(&inode.target.len()),
        _ => inode.target.is_empty(),
    };
    let parent = match dir {
        true => inode.parent != 0 && (inode.parent == ino) == (ino == ROOT),
        false => inode.parent == 0 && ino != ROOT,
    };
    let links = if dir { inode.nlink == 1 } else { (1..=LINKS_MAX).contains(&inode.nlink) };
    let known = inode.mode & !(mode::TYPE | mode::PERMISSIONS) == 0;
    ino != 0 && size && target && parent && links && known && inode.form == Form::Inline
}

/// An extended attribute of the inode before it.
pub(super) fn encode_xattr(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Writer::with_capacity(name.len() + value.len() + 16);
    out.bytes(name).bytes(value);
    unsealed(out)
}

/// Name and value.
pub(super) fn decode_xattr(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut from = Reader(payload);
    let (name, value) = (from.bytes()?, from.bytes()?);
    from.end()?;
    let in_space = |space: &&[u8]| name.len() > space.len() && name.starts_with(space);
    let known = [&b"user."[..], b"trusted.", b"security."].iter().any(in_space)
        || [ACCESS_ACL, DEFAULT_ACL].contains(&name);
    let sound = known && name.len() <= NAME_BYTES_MAX && !name.contains(&0);
    (sound && value.len() <= XATTR_BYTES_MAX).then_some((name, value))
}

/// Where data begins; its bytes follow.
pub(super) fn encode_offset(offset: u64) -> Vec<u8> {
    let mut out = Writer::default();
    out.number(offset);
    unsealed(out)
}

/// Where data begins, and how many bytes of the payload say so.
pub(super) fn decode_offset(payload: &[u8]) -> Option<(u64, usize)> {
    let mut from = Reader(payload);
    let offset = from.number()?;
    Some((offset, payload.len() - from.0.len()))
}

/// A range of zeros that take space.
pub(super) fn encode_range(start: u64, end: u64) -> Vec<u8> {
    let mut out = Writer::default();
    out.number(start).number(end - start);
    unsealed(out)
}

/// Start and end.
pub(super) fn decode_range(payload: &[u8]) -> Option<(u64, u64)> {
    let mut from = Reader(payload);
    let (start, len) = (from.number()?, from.number()?);
    from.end()?;
    let end = start.checked_add(len)?;
    (len > 0 && end <= 1 << 63).then_some((start, end))
}

/// Adds an entry to a list.
pub(super) fn push_entry(list: &mut Vec<u8>, name: &[u8], entry: Entry) {
    let mut out = Writer::with_capacity(name.len() + 16);
    out.bytes(name).byte((entry.file_type.mode() >> 12) as u8).number(entry.ino);
    list.extend_from_slice(&unsealed(out));
}

/// The entries of a list, until one is not sound.
pub(super) fn entries(payload: &Bytes) -> impl Iterator<Item = Option<(Bytes, Entry)>> {
    let mut rest = payload.clone();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = decode_entry(&rest);
        rest = match &next {
            Some((_, _, len)) => rest.slice(*len..),
            None => Bytes::new(),
        };
        Some(next.map(|(name, entry, _)| (name, entry)))
    })
}

fn decode_entry(list: &Bytes) -> Option<(Bytes, Entry, usize)> {
    let mut from = Reader(list);
    let name = list.slice_ref(from.bytes()?);
    let byte = from.byte()?;
    let file_type = FileType::of_mode(u32::from(byte) << 12)?;
    let ino = from.number()?;
    let sound = is_name(&name) && byte < 16 && ino > ROOT;
    sound.then(|| (name, Entry { ino, file_type }, list.len() - from.0.len()))
}

/// Whether an entry can have this name.
fn is_name(name: &[u8]) -> bool {
    let len = (1..=NAME_BYTES_MAX).contains(&name.len());
    len && name != b"." && name != b".." && !name.iter().any(|byte| [0, b'/'].contains(byte))
}

/// What a dump holds, at its end.
pub(super) fn encode_counts(counts: &[u64]) -> Vec<u8> {
    let mut out = Writer::default();
    for count in counts {
        out.number(*count);
    }
    unsealed(out)
}

/// The counts that a dump says it holds.
pub(super) fn decode_counts(payload: &[u8]) -> Option<[u64; 5]> {
    let mut from = Reader(payload);
    let mut counts = [0; 5];
    for count in &mut counts {
        *count = from.number()?;
    }
    from.end()?;
    Some(counts)
}
