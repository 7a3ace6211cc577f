//! The bytes that are written: cheap to make, different in every page and version, and checked when read.

use super::error::Error;
use std::path::Path;
use std::sync::OnceLock;

pub(crate) const PAGE: usize = 4096;
pub(crate) const BLOCK: usize = 1 << 20;
pub(crate) const PAGES_A_BLOCK: usize = BLOCK / PAGE;
/// Head and tail of a page say which page it is, and how often it was written.
const STAMP: usize = 16;

/// Incompressible bytes, the same in every run.
fn noise() -> &'static [u8] {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    NOISE.get_or_init(|| {
        let mut draw = Draw::new(1);
        (0..BLOCK / 8).flat_map(|_| draw.next().to_le_bytes()).collect()
    })
}

/// A cheap generator: good enough to jump around in a file.
#[derive(Debug, Clone)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

fn stamp(page: u64, version: u32) -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    stamp[..8].copy_from_slice(&page.to_le_bytes());
    stamp[8..].copy_from_slice(&(u64::from(version) ^ 0x5ea0_0000_0000_0000).to_le_bytes());
    stamp
}

fn put_stamps(bytes: &mut [u8], page: u64, version: u32) {
    let stamp = stamp(page, version);
    bytes[..STAMP].copy_from_slice(&stamp);
    bytes[PAGE - STAMP..PAGE].copy_from_slice(&stamp);
}

fn body(page: u64) -> &'static [u8] {
    let start = page as usize % PAGES_A_BLOCK * PAGE;
    &noise()[start..start + PAGE]
}

/// Makes `bytes` the content of `page`.
pub(crate) fn fill_page(bytes: &mut [u8; PAGE], page: u64, version: u32) {
    bytes.copy_from_slice(body(page));
    put_stamps(bytes, page, version);
}

/// A block to write from. Only the stamps differ from block to block, so that making one costs little.
pub(crate) fn block() -> Vec<u8> {
    noise().to_vec()
}

/// Makes `bytes`, which came from [`block`], the content of the block that starts at `page`.
pub(crate) fn stamp_block(bytes: &mut [u8], page: u64, version: u32) {
    for (index, bytes) in bytes.chunks_exact_mut(PAGE).enumerate() {
        put_stamps(bytes, page + index as u64, version);
    }
}

/// How well read bytes are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// Head and tail of each page: cheap enough while the clock runs.
    Stamps,
    /// Every byte.
    Whole,
}

/// Fails unless `bytes` are the pages from `page` on, in these versions.
pub(crate) fn check(
    path: &Path,
    bytes: &[u8],
    page: u64,
    version: impl Fn(u64) -> u32,
    care: Care,
) -> Result<(), Error> {
    for (index, bytes) in bytes.chunks(PAGE).enumerate() {
        let page = page + index as u64;
        let stamp = stamp(page, version(page));
        let whole = bytes.len() == PAGE;
        let right = whole && bytes[..STAMP] == stamp && bytes[PAGE - STAMP..] == stamp;
        let inner = STAMP..PAGE - STAMP;
        if !right || (care == Care::Whole && bytes[inner.clone()] != body(page)[inner]) {
            let offset = page * PAGE as u64;
            return Err(Error::wrong(path, format!("wrong bytes were read at offset {offset}")));
        }
    }
    Ok(())
}
