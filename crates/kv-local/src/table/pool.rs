//! Memory for blocks, used again and again.
//!
//! Blocks are read by one thread and dropped from the cache by another, thousands of times a second.
//! An allocator that keeps memory by thread would hold several times what is in use; and a buffer
//! that was used before need not be cleared before it is read into.

use base::sync::Mutex;
use std::ops::Deref;
use std::sync::Arc;

/// Blocks up to this length come from the pool; almost all do.
pub(crate) const POOLED_BYTES: usize = 4 << 10;
/// Buffers that wait to be used again.
const FREE_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Mutex<Vec<Box<[u8]>>>,
}

/// Bytes that go back to their pool.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// None only while it is dropped.
    bytes: Option<Box<[u8]>>,
    len: usize,
    pool: Option<Arc<Pool>>,
}

impl Pool {
    /// A buffer of `len` bytes, whatever they hold.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        if len > POOLED_BYTES {
            return Buffer { bytes: Some(vec![0; len].into()), len, pool: None };
        }
        let used = self.free.lock_soon().pop();
        let bytes = used.unwrap_or_else(|| vec![0; POOLED_BYTES].into());
        Buffer { bytes: Some(bytes), len, pool: Some(Arc::clone(self)) }
    }
}

impl Buffer {
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            Some(bytes) => &mut bytes[..self.len],
            None => &mut [],
        }
    }

    /// Memory that it takes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.as_deref().map_or(0, <[u8]>::len)
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len(), bytes: Some(bytes.into()), pool: None }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Some(bytes) => &bytes[..self.len],
            None => &[],
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Some(pool), Some(bytes)) = (&self.pool, self.bytes.take()) {
            let mut free = pool.free.lock_soon();
            if free.len() < FREE_MAX {
                free.push(bytes);
            }
        }
    }
}
