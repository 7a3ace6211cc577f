//! Frames: a kind, a length, a payload and a checksum that is chained through the whole stream, so that
//! no frame can be changed, left out, moved or taken from another dump.

use super::{Sink, Source};
use crate::error::{Error, Kind, Result, corrupt};
use base::checksum::hash64;
use bytes::Bytes;
use std::io;

/// What a dump begins with.
const MAGIC: &[u8; 8] = b"SEAMDUMP";
/// The version of the stream that this program writes, and the newest that it reads.
const VERSION: u64 = 1;
const PREAMBLE_BYTES: usize = 16;

/// The longest payload: a window of data, or a list of entries, and their fields.
const PAYLOAD_BYTES_MAX: usize = (1 << 20) + 4096;
/// Kind and length.
const HEAD_BYTES: usize = 5;
const SUM_BYTES: usize = 8;
/// Bytes that are written or read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// The kinds of frames. An unknown one from 0x80 on may be skipped; any other must be refused.
pub(super) mod kind {
    pub(in crate::dump) const VOLUME: u8 = 1;
    pub(in crate::dump) const INODE: u8 = 2;
    pub(in crate::dump) const XATTR: u8 = 3;
    pub(in crate::dump) const DATA: u8 = 4;
    pub(in crate::dump) const RESERVED: u8 = 5;
    pub(in crate::dump) const ENTRIES: u8 = 6;
    pub(in crate::dump) const END: u8 = 7;
    pub(in crate::dump) const MAY_SKIP: u8 = 0x80;
}

fn preamble() -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    let (magic, version) = bytes.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    version.copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

fn head_of(kind: u8, payload: usize) -> [u8; HEAD_BYTES] {
    let [l0, l1, l2, l3] = (payload as u32).to_le_bytes();
    [kind, l0, l1, l2, l3]
}

/// A stream that is being written.
pub(crate) struct Outgoing<'a> {
    out: &'a mut (dyn Sink + Send),
    buffer: Vec<u8>,
    written: u64,
    chain: u64,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(out: &'a mut (dyn Sink + Send)) -> Self {
        let preamble = preamble();
        Self { out, buffer: preamble.to_vec(), written: 0, chain: hash64(0, &preamble) }
    }

    /// Bytes of the stream so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Writes a frame whose payload is in pieces.
    pub(crate) fn put(&mut self, kind: u8, payload: &[&[u8]]) -> Result<()> {
        let len = payload.iter().map(|piece| piece.len()).sum();
        debug_assert!(len <= PAYLOAD_BYTES_MAX, "a frame has a bound");
        let head = head_of(kind, len);
        self.chain = hash64(self.chain, &head);
        self.buffer.extend_from_slice(&head);
        let at = self.buffer.len();
        for piece in payload {
            self.buffer.extend_from_slice(piece);
        }
        self.chain = hash64(self.chain, self.buffer.get(at..).unwrap_or_default());
        self.buffer.extend_from_slice(&self.chain.to_le_bytes());
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Gives the sink what it has not got yet.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.out.put(&self.buffer).map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::NoSpace,
                _ => Kind::Io,
            };
            Error::new(kind, format!("the dump cannot be written: {error}"))
        })?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// A frame that was read, and whose checksum is right.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) payload: Bytes,
    /// Where it begins in the stream.
    pub(super) at: u64,
}

/// The error for a stream that is not what was written.
pub(super) fn damaged(at: u64, how: &str) -> Error {
    corrupt(format!("the dump is damaged at byte {at}: {how}"))
}

/// A stream that is being read.
pub(super) struct Incoming<'a> {
    from: &'a mut (dyn Source + Send),
    buffer: Vec<u8>,
    /// What of the buffer was not taken yet.
    start: usize,
    end: usize,
    taken: u64,
    chain: u64,
}

impl<'a> Incoming<'a> {
    /// Reads what a dump begins with.
    pub(super) fn open(from: &'a mut (dyn Source + Send)) -> Result<Self> {
        let buffer = vec![0; BUFFER_BYTES];
        let mut stream = Self { from, buffer, start: 0, end: 0, taken: 0, chain: 0 };
        let mut found = [0; PREAMBLE_BYTES];
        let have = stream.fill(&mut found)?;
        let begins = MAGIC.iter().zip(&found).take(have).all(|(wanted, found)| wanted == found);
        if have == 0 || !begins {
            return Err(Error::new(Kind::Format, "this is no dump of a volume"));
        }
        if have < PREAMBLE_BYTES {
            return Err(cut_short(have as u64));
        }
        let version = found.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if version != VERSION {
            return Err(Error::new(
                Kind::Format,
                format!(
                    "the dump has version {version}, which this program does not know: use a newer one"
                ),
            ));
        }
        stream.chain = hash64(0, &found);
        Ok(stream)
    }

    /// Bytes of the stream that were taken.
    pub(super) fn bytes(&self) -> u64 {
        self.taken
    }

    /// The next frame. There always is one: a stream ends behind the frame that says so.
    pub(super) fn next(&mut self) -> Result<Frame> {
        let at = self.taken;
        let mut head = [0; HEAD_BYTES];
        self.exactly(&mut head)?;
        let [kind, l0, l1, l2, l3] = head;
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if len > PAYLOAD_BYTES_MAX {
            return Err(damaged(at, "a frame is longer than frames are"));
        }
        let mut payload = vec![0; len];
        self.exactly(&mut payload)?;
        let mut sum = [0; SUM_BYTES];
        self.exactly(&mut sum)?;
        self.chain = hash64(hash64(self.chain, &head), &payload);
        if u64::from_le_bytes(sum) != self.chain {
            return Err(damaged(at, "the checksum does not match the frame and its place"));
        }
        Ok(Frame { kind, payload: payload.into(), at })
    }

    /// Nothing may be left over.
    pub(super) fn end(&mut self) -> Result<()> {
        let at = self.taken;
        match self.fill(&mut [0])? {
            0 => Ok(()),
            _ => Err(damaged(at, "there is something behind its end")),
        }
    }

    fn exactly(&mut self, into: &mut [u8]) -> Result<()> {
        match self.fill(into)? == into.len() {
            true => Ok(()),
            false => Err(cut_short(self.taken)),
        }
    }

    /// Fills all of `into`, unless the stream ends before.
    fn fill(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            if self.start == self.end {
                (self.start, self.end) = (0, self.read()?);
            }
            let have = self.buffer.get(self.start..self.end).unwrap_or_default();
            let count = have.len().min(rest.len());
            let (Some(have), Some(rest)) = (have.get(..count), rest.get_mut(..count)) else {
                break;
            };
            if count == 0 {
                break;
            }
            rest.copy_from_slice(have);
            (self.start, done) = (self.start + count, done + count);
        }
        self.taken += done as u64;
        Ok(done)
    }

    fn read(&mut self) -> Result<usize> {
        loop {
            match self.from.get(&mut self.buffer) {
                Ok(count) => return Ok(count.min(self.buffer.len())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let at = self.taken;
                    return Err(Error::new(
                        Kind::Io,
                        format!("the dump cannot be read behind byte {at}: {error}"),
                    ));
                }
            }
        }
    }
}

fn cut_short(at: u64) -> Error {
    corrupt(format!("the dump is cut short: it ends at byte {at}, before its end"))
}
