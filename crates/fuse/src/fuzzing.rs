//! Doors for the fuzzers: what the kernel sends, and its table of mounts.
//!
//! Each function takes arbitrary bytes and must return: never with a panic, and never after allocating more
//! than the input can justify.

use crate::request::Op;
use crate::wire::decode;

/// Reads a request. Its first word is its length, which would keep a fuzzer out, so the input is also tried
/// with the right one; and what follows the numbers of a request is tried behind every kind.
pub fn request(bytes: &[u8]) {
    one(bytes);
    let mut right = bytes.to_vec();
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_ne_bytes();
    if let Some(first) = right.first_chunk_mut::<4>() {
        *first = len;
    }
    one(&right);
    if let Some(extensions) = right.get_mut(36..38) {
        extensions.fill(0);
    }
    one(&right);
}

fn one(bytes: &[u8]) {
    let Ok(envelope) = decode::envelope(bytes) else { return };
    let _ = decode::init(bytes, &envelope);
    if let Ok(Op::Forget { inodes }) = decode::op(bytes, &envelope) {
        assert!(decode::forgotten(inodes).count() <= bytes.len() / 16);
    }
}

/// Reads a table of mounts, as /proc has it.
pub fn mount_table(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Some(entry) = crate::mount::parse_line(line) {
            assert!(entry.mountpoint.as_os_str().len() <= line.len());
        }
    }
}
