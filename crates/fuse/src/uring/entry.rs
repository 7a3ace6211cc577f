//! The buffers of one place in a queue: the kernel writes a request into them, and reads the reply out of them.

use crate::request::Op;
use crate::server::WRITE_BYTES_MAX;
use crate::wire::decode::{self, Envelope, Malformed};
use crate::wire::numbers::{IN_HEADER, OUT_HEADER};
use std::ops::Range;

/// `struct fuse_uring_req_header`: the header of a request or a reply, its numbers, and words of the ring.
const HEADER: usize = 288;
const NUMBERS: Range<usize> = 128..256;
const COMMIT_ID: Range<usize> = 264..272;
const PAYLOAD_LEN: Range<usize> = 272..276;
/// Names, data, and everything of a reply but its header: as much as one read or write brings.
const PAYLOAD: usize = WRITE_BYTES_MAX;

/// A place for one request. Whoever has it may use it: the kernel does not, until it is given back.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its number within its queue.
    pub(super) index: usize,
    header: Box<[u8; HEADER]>,
    payload: Box<[u8]>,
    /// Address and length of both, as the kernel is told once.
    parts: Box<[[u64; 2]; 2]>,
}

impl Entry {
    pub(super) fn new(index: usize) -> Self {
        let mut header = Box::new([0; HEADER]);
        // Zeros that nobody has written yet take no memory.
        let mut payload: Box<[u8]> = vec![0; PAYLOAD].into();
        let parts = [
            [header.as_mut_ptr() as u64, header.len() as u64],
            [payload.as_mut_ptr() as u64, payload.len() as u64],
        ];
        Self { index, header, payload, parts: Box::new(parts) }
    }

    /// Where the kernel finds the two buffers.
    pub(super) fn parts(&self) -> u64 {
        self.parts.as_ptr() as u64
    }

    fn u32(&self, at: Range<usize>) -> u32 {
        let bytes = self.header.get(at).and_then(|bytes| bytes.try_into().ok());
        u32::from_ne_bytes(bytes.unwrap_or_default())
    }

    /// The number under which the reply is awaited.
    pub(crate) fn commit_id(&self) -> u64 {
        let bytes = self.header.get(COMMIT_ID).and_then(|bytes| bytes.try_into().ok());
        u64::from_ne_bytes(bytes.unwrap_or_default())
    }

    /// Reads the header of the request.
    pub(crate) fn envelope(&self) -> Result<Envelope, Malformed> {
        let header = self.header.get(..IN_HEADER).ok_or(Malformed)?;
        decode::envelope_of(header, self.u32(0..4) as usize)
    }

    /// Reads the request.
    pub(crate) fn op(&self, envelope: &Envelope) -> Result<Op<'_>, Malformed> {
        let payload = self.payload.get(..self.u32(PAYLOAD_LEN) as usize).ok_or(Malformed)?;
        let numbers = (self.u32(0..4) as usize).checked_sub(IN_HEADER + payload.len());
        let room = self.header.get(NUMBERS).ok_or(Malformed)?;
        let numbers = room.get(..numbers.ok_or(Malformed)?).ok_or(Malformed)?;
        decode::op_in_two(numbers, payload, envelope)
    }

    /// What a write's data is part of.
    pub(crate) fn data(&self) -> &[u8] {
        &self.payload
    }

    /// Puts a reply in the place of the request: its `fixed` part and its payload. False when it does not
    /// fit.
    pub(crate) fn put(&mut self, fixed: &[u8], payload: &[u8]) -> bool {
        let (Some((header, fixed)), len) =
            (fixed.split_at_checked(OUT_HEADER), fixed.len() + payload.len() - OUT_HEADER)
        else {
            return false;
        };
        let Some((first, second)) =
            self.payload.get_mut(..len).and_then(|room| room.split_at_mut_checked(fixed.len()))
        else {
            return false;
        };
        first.copy_from_slice(fixed);
        second.copy_from_slice(payload);
        self.header[..OUT_HEADER].copy_from_slice(header);
        self.header[PAYLOAD_LEN].copy_from_slice(&(len as u32).to_ne_bytes());
        true
    }
}
