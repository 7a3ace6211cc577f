//! One commit in the log: how it is written and how it is told from what is not one.
//!
//! ```text
//! magic u32 | payload length u32 | version u64 | synced u64 | log u64 | payload crc u32 |
//! header crc u32 | payload | zeros to a multiple of 8 | trailer u64
//! ```
//!
//! `synced` is the newest version known to survive a loss of power when the record was written: a
//! record that says so accuses every bad one before that version. The trailer is as good as random,
//! so a tear that loses the end of a record never looks like one flipped bit.
//!
//! A log may be written over one that is not needed any more. What is left of that is of another log, by its
//! headers; and so that a piece of it inside of a torn record does not look like one flipped bit either, the
//! payload is mixed with a number that depends on the log.

use crate::codec::{Reader, put_short};
use crate::overlay::{Overlay, Slot};
use base::checksum::{crc32, one_bit_away};
use bytes::Bytes;
use kv::{Key, KeyRange, Version};

/// "SMR2", as bytes in the file.
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"SMR2");
/// The same of records whose payload is not mixed, which were written before there were others.
const MAGIC_PLAIN: u32 = u32::from_le_bytes(*b"SMR1");
pub(crate) const HEADER_BYTES: usize = 40;
const TRAILER_BYTES: usize = 8;
/// Records begin at multiples of this.
pub(crate) const ALIGN: usize = 8;
/// What a record has beside its payload, at most.
pub(crate) const OVERHEAD_BYTES: usize = HEADER_BYTES + TRAILER_BYTES + ALIGN;
/// What a change has beside its keys and its value, at most.
pub(crate) const OP_BYTES: usize = 8;
/// No payload is longer: a length above this is not a length.
const PAYLOAD_BYTES_MAX: usize = 1 << 28;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const CLEAR: u8 = 3;

/// A change as the log has it: what it came to, not how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Set(Key, Slot),
    /// The same of a key that is changed again and again.
    Count(Key, Slot),
    Clear(KeyRange),
}

impl Change {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::Set(key, Some(value)) | Change::Count(key, Some(value)) => {
                out.push(PUT);
                put_short(out, key);
                out.extend_from_slice(&(value.len() as u32).to_le_bytes());
                out.extend_from_slice(value);
            }
            Change::Set(key, None) | Change::Count(key, None) => {
                out.push(DELETE);
                put_short(out, key);
            }
            Change::Clear(range) => {
                out.push(CLEAR);
                put_short(out, &range.start);
                put_short(out, &range.end);
            }
        }
    }

    /// The keys that it may change.
    pub(crate) fn range(&self) -> KeyRange {
        match self {
            Change::Set(key, _) | Change::Count(key, _) => KeyRange::point(key),
            Change::Clear(range) => range.clone(),
        }
    }

    pub(crate) fn apply(self, overlay: &mut Overlay, version: Version) {
        match self {
            Change::Set(key, value) => overlay.set(key, value, version),
            Change::Count(key, value) => overlay.set_often(key, value, version),
            Change::Clear(range) => overlay.clear(&range, version),
        }
    }
}

/// The changes of a payload; `None` when it is not one.
pub(crate) fn decode_changes(payload: &[u8]) -> Option<Vec<Change>> {
    let mut reader = Reader(payload);
    let mut changes = Vec::new();
    while !reader.0.is_empty() {
        changes.push(match reader.u8()? {
            PUT => {
                let key = Key::new(reader.short()?);
                let len = reader.u32()? as usize;
                Change::Set(key, Some(Bytes::copy_from_slice(reader.bytes(len)?)))
            }
            DELETE => Change::Set(Key::new(reader.short()?), None),
            CLEAR => Change::Clear(KeyRange::new(reader.short()?, reader.short()?)),
            _ => return None,
        });
    }
    Some(changes)
}

/// Who wrote a record, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    pub(crate) synced: Version,
    pub(crate) log: u64,
}

fn trailer(version: Version) -> u64 {
    // Neighbouring versions differ in half of their bits.
    version.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995_c6a4_a793
}

/// Starts a record at the end of `out`; the payload is appended behind it by the caller.
pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    start
}

/// Mixes a payload with the number of its log, or takes that out again.
fn mix(payload: &mut [u8], log: u64) {
    let word = log.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let (words, rest) = payload.as_chunks_mut();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ u64::from_ne_bytes(word)).to_ne_bytes();
    }
    for (byte, with) in rest.iter_mut().zip(word) {
        *byte ^= with;
    }
}

/// Whether bytes begin as a record does.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes()) || bytes.starts_with(&MAGIC_PLAIN.to_le_bytes())
}

/// Ends the record that [`begin`] started at `start`.
pub(crate) fn finish(out: &mut Vec<u8>, start: usize, header: Header) {
    mix(&mut out[start + HEADER_BYTES..], header.log);
    let payload = &out[start + HEADER_BYTES..];
    let (len, crc) = (payload.len() as u32, crc32(payload));
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[4..8].copy_from_slice(&len.to_le_bytes());
    bytes[8..16].copy_from_slice(&header.version.to_le_bytes());
    bytes[16..24].copy_from_slice(&header.synced.to_le_bytes());
    bytes[24..32].copy_from_slice(&header.log.to_le_bytes());
    bytes[32..36].copy_from_slice(&crc.to_le_bytes());
    let header_crc = crc32(&bytes[..36]);
    bytes[36..40].copy_from_slice(&header_crc.to_le_bytes());
    out[start..start + HEADER_BYTES].copy_from_slice(&bytes);
    out.resize(start + (out.len() - start).next_multiple_of(ALIGN), 0);
    out.extend_from_slice(&trailer(header.version).to_le_bytes());
}

/// What stands at one place of a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum At<'a> {
    /// A record and its length in the file.
    Record { header: Header, payload: Payload<'a>, len: usize },
    /// Nothing was written here, or a write that did not get through.
    Nothing,
    /// A record in which one bit is wrong: no tear looks like that.
    Flipped,
}

/// A payload as it stands in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payload<'a> {
    bytes: &'a [u8],
    /// The log that it is mixed with.
    mixed: Option<u64>,
}

impl Payload<'_> {
    /// As it was written.
    pub(crate) fn plain(&self) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        if let Some(log) = self.mixed {
            mix(&mut bytes, log);
        }
        bytes
    }
}

/// Reads what stands at the start of `bytes`, in log number `log`.
pub(crate) fn read(bytes: &[u8], log: u64) -> At<'_> {
    let Some(head) = bytes.get(..HEADER_BYTES) else {
        return At::Nothing;
    };
    if head.iter().all(|&byte| byte == 0) {
        return At::Nothing;
    }
    let Some(parsed) = parse_header(head) else {
        return At::Nothing;
    };
    let found = crc32(&head[..36]);
    if found != parsed.header_crc {
        // Of what an older log has left here, anything can stand where a header would. In one of this log that
        // has a wrong bit, at most that one is wrong.
        let wrong =
            (parsed.magic ^ MAGIC).count_ones().min((parsed.magic ^ MAGIC_PLAIN).count_ones())
                + (parsed.header.log ^ log).count_ones();
        let flipped = wrong <= 1 && one_bit_away(36, found, parsed.header_crc);
        return if flipped { At::Flipped } else { At::Nothing };
    }
    // A header that is whole but of another log or kind was never written here.
    let mixed = match parsed.magic {
        MAGIC => Some(log),
        MAGIC_PLAIN => None,
        _ => return At::Nothing,
    };
    if parsed.header.log != log || parsed.len > PAYLOAD_BYTES_MAX {
        return At::Nothing;
    }
    let Some(payload) = bytes.get(HEADER_BYTES..HEADER_BYTES + parsed.len) else {
        return At::Nothing;
    };
    let end = (HEADER_BYTES + parsed.len).next_multiple_of(ALIGN);
    let found = crc32(payload);
    if found == parsed.payload_crc {
        let payload = Payload { bytes: payload, mixed };
        return At::Record { header: parsed.header, payload, len: end + TRAILER_BYTES };
    }
    let whole = bytes
        .get(end..end + TRAILER_BYTES)
        .is_some_and(|bytes| bytes == trailer(parsed.header.version).to_le_bytes());
    if whole && one_bit_away(parsed.len, found, parsed.payload_crc) {
        At::Flipped
    } else {
        At::Nothing
    }
}

struct Parsed {
    magic: u32,
    len: usize,
    header: Header,
    payload_crc: u32,
    header_crc: u32,
}

fn parse_header(head: &[u8]) -> Option<Parsed> {
    let mut reader = Reader(head);
    let (magic, len) = (reader.u32()?, reader.u32()? as usize);
    let header = Header { version: reader.u64()?, synced: reader.u64()?, log: reader.u64()? };
    Some(Parsed { magic, len, header, payload_crc: reader.u32()?, header_crc: reader.u32()? })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn record(log: u64, version: Version, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let start = begin(&mut out);
        out.extend_from_slice(payload);
        finish(&mut out, start, Header { version, synced: 0, log });
        out
    }

    fn plain(bytes: &[u8], log: u64) -> Option<Vec<u8>> {
        match read(bytes, log) {
            At::Record { payload, .. } => Some(payload.plain()),
            At::Nothing | At::Flipped => None,
        }
    }

    #[test]
    fn what_is_written_is_read_in_its_own_log_alone() {
        for len in 0..40 {
            let payload = vec![7; len];
            let bytes = record(5, 9, &payload);
            assert_eq!(plain(&bytes, 5).unwrap(), payload);
            for other in [4, 6, 7, 1 << 40] {
                assert_eq!(read(&bytes, other), At::Nothing);
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_told_from_what_an_older_log_has_left() {
        let mut changed = vec![3; 4096];
        let older = record(4, 10, &changed);
        // The same but for one bit, in the same place of the next log.
        changed[2000] ^= 1;
        let newer = record(5, 20, &changed);
        assert_eq!(older.len(), newer.len());
        for bit in [0, 33, 100, HEADER_BYTES * 8 + 5, 9000] {
            let mut flipped = newer.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&flipped, 5), At::Flipped, "bit {bit}");
        }
        // Any run of sectors that did not get through is a tear.
        for from in (0..newer.len()).step_by(512) {
            for to in (from + 512..newer.len() + 512).step_by(512) {
                let mut torn = newer.clone();
                let lost = from..to.min(newer.len());
                torn[lost.clone()].copy_from_slice(&older[lost]);
                assert_eq!(read(&torn, 5), At::Nothing, "{from}..{to}");
            }
        }
    }

    #[test]
    fn records_from_before_payloads_were_mixed_are_read() {
        let mut bytes = record(5, 9, b"payload");
        mix(&mut bytes[HEADER_BYTES..HEADER_BYTES + 7], 5);
        bytes[..4].copy_from_slice(&MAGIC_PLAIN.to_le_bytes());
        let crc = crc32(&bytes[HEADER_BYTES..HEADER_BYTES + 7]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32(&bytes[..36]);
        bytes[36..40].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(plain(&bytes, 5).unwrap(), b"payload");
    }
}
