//! The engines, one file each.

pub(crate) mod fjall;
pub(crate) mod lmdb;
pub(crate) mod local;
pub(crate) mod redb;

/// What an engine without an atomic add writes back after it has read `old`.
fn add_to(old: Option<&[u8]>, by: u64) -> [u8; 8] {
    let old = old.and_then(|old| old.try_into().ok());
    old.map_or(0, u64::from_le_bytes).wrapping_add(by).to_le_bytes()
}
