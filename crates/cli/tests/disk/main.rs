//! Mounts of the built program on disks that are full, and on stores that are damaged.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod full;
mod recover;

#[allow(dead_code, reason = "other proofs use the rest")]
#[path = "../it/ground.rs"]
mod ground;
#[allow(dead_code, reason = "other proofs use the rest")]
#[path = "../it/tool.rs"]
mod tool;

/// Bytes that no other number gives, and that do not compress.
fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
