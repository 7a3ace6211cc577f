//! The bytes of a file in a dump: pages that are not zeros, then ranges that are and take space.

use super::reading::Reading;
use super::save::Dump;
use super::stream::kind;
use super::{PAGE_BYTES, WINDOW_BYTES, record};
use crate::blob::block::is_zero;
use crate::error::{Error, Kind, Result};
use crate::local::Backed;
use crate::schema::{Bits, Data, Form, Inode, MapEntry, Parsed};
use crate::types::{Ino, Seek};
use kv::Page;
use std::ops::Range;

impl Dump<'_> {
    pub(super) async fn file(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        if inode.form == Form::Local {
            let words = "bytes are in a local home, and there is none: dump the store that has it";
            return Err(Error::new(Kind::Unsupported, words));
        }
        if inode.form == Form::Inline {
            if inode.inline_len > 0 {
                self.window(ino, inode, 0).await?;
            }
            return Ok(());
        }
        if self.data(ino, inode).await? {
            self.reserved(inode).await?;
        }
        Ok(())
    }

    /// The bytes of a file of the local home, up to a size that was told already.
    pub(super) async fn backed(&mut self, size: u64, backed: &Backed) -> Result<()> {
        let mut at = 0;
        while at < size {
            match backed.seek(at, Seek::Data) {
                Ok(data) => at = data - data % PAGE_BYTES,
                Err(error) if error.kind() == Kind::NoDevice => break,
                Err(error) => return Err(error),
            }
            if at >= size {
                break;
            }
            let bytes = backed.read(at, WINDOW_BYTES.min(size - at))?;
            if bytes.is_empty() {
                break;
            }
            self.pages(at, &bytes)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Pages that are not zeros. Whether there is space without bytes.
    async fn data(&mut self, ino: Ino, inode: &Inode) -> Result<bool> {
        let sizes = self.sizes;
        let mut reserved = false;
        let mut next = self.reading.map(inode);
        while let Some(query) = next {
            let page = self.reading.range(&query).await?;
            for (chunk, data) in chunks(&self.reading, &page)? {
                let stored = stored(&data);
                reserved |= stored.count() < data.allocated.count();
                let base = chunk.saturating_mul(sizes.chunk_bytes);
                let mut done = None;
                for block in stored.iter() {
                    let at = base.saturating_add(u64::from(block) * sizes.block_bytes);
                    let window = at - at % WINDOW_BYTES;
                    if done != Some(window) && window < inode.size {
                        self.window(ino, inode, window).await?;
                        done = Some(window);
                    }
                }
            }
            next = if page.more { query.behind(&page) } else { None };
        }
        Ok(reserved)
    }

    /// The pages of one window that are not zeros.
    async fn window(&mut self, ino: Ino, inode: &Inode, at: u64) -> Result<()> {
        let bytes = self.reading.bytes(ino, inode, at, WINDOW_BYTES).await?;
        self.pages(at, &bytes)
    }

    fn pages(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        for run in runs(bytes) {
            let offset = record::encode_offset(at + run.start as u64);
            let piece = bytes.get(run).unwrap_or_default();
            self.out.put(kind::DATA, &[&offset, piece])?;
            self.counts.data_bytes += piece.len() as u64;
        }
        self.covered(bytes.len() as u64)
    }

    /// Ranges that take space and hold nothing, as long as they can be.
    async fn reserved(&mut self, inode: &Inode) -> Result<()> {
        let sizes = self.sizes;
        let mut run: Option<Range<u64>> = None;
        let mut next = self.reading.map(inode);
        while let Some(query) = next {
            let page = self.reading.range(&query).await?;
            for (chunk, data) in chunks(&self.reading, &page)? {
                let stored = stored(&data);
                let base = chunk.saturating_mul(sizes.chunk_bytes);
                for block in data.allocated.iter().filter(|block| !stored.has(*block)) {
                    let start = base.saturating_add(u64::from(block) * sizes.block_bytes);
                    let end = start.saturating_add(sizes.block_bytes);
                    run = match run {
                        Some(run) if run.end == start => Some(run.start..end),
                        before => {
                            self.put_reserved(before)?;
                            Some(start..end)
                        }
                    };
                }
            }
            next = if page.more { query.behind(&page) } else { None };
        }
        self.put_reserved(run)
    }

    fn put_reserved(&mut self, run: Option<Range<u64>>) -> Result<()> {
        let Some(run) = run else { return Ok(()) };
        self.counts.reserved_bytes += run.end - run.start;
        self.out.put(kind::RESERVED, &[&record::encode_range(run.start, run.end)])?;
        self.covered(run.end - run.start)
    }
}

/// The chunks of a page that hold something.
fn chunks(reading: &Reading<'_>, page: &Page) -> Result<Vec<(u64, Data)>> {
    let tx = reading.tx();
    let mut found = Vec::with_capacity(page.len());
    for (key, value) in page.iter() {
        match (tx.keys.parse(key), MapEntry::decode(key, value)) {
            (Some(Parsed::Map { chunk, .. }), Some(MapEntry::Data(data))) => {
                found.push((chunk, data));
            }
            (Some(Parsed::Map { .. }), Some(MapEntry::Zero)) => {}
            _ => return Err(tx.damaged(key, "is damaged")),
        }
    }
    Ok(found)
}

/// Blocks that are in some layer.
fn stored(data: &Data) -> Bits {
    let mut stored = Bits::new();
    for block in data.layers.iter().flat_map(|(_, bits)| bits.iter()) {
        stored.set(block);
    }
    stored
}

/// Runs of pages that are not zeros.
fn runs(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (index, page) in bytes.chunks(PAGE_BYTES as usize).enumerate() {
        if is_zero(page) {
            continue;
        }
        let start = index * PAGE_BYTES as usize;
        let end = start + page.len();
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_zeros_are_left_out() {
        let mut bytes = vec![0; 5000];
        assert_eq!(runs(&bytes), []);
        bytes[0] = 1;
        bytes[1500] = 1;
        bytes[4999] = 1;
        assert_eq!(runs(&bytes), [0..2048, 4096..5000]);
        assert_eq!(runs(&[]), []);
    }
}
