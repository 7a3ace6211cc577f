//! Writing a table: blocks, then their index and filter, then a footer that says where those are.

use super::block::{Builder, Value, entry_bytes};
use super::{FOOTER_BYTES, Footer, TableInfo, block_seed, bloom, name_of};
use crate::error::io_error;
use base::{Disk, File};
use kv::{Key, Result};
use std::sync::Arc;

/// A table that was written: what it is, its file, and whether it has keys that are gone.
pub(crate) type Written = (TableInfo, Arc<dyn File>, bool);

/// A block is at most this long, unless one entry alone is longer: one size for almost all blocks
/// lets memory that held one hold the next.
const BLOCK_BYTES: usize = 4 << 10;
/// Bytes are handed to the disk in pieces of about this.
const WRITE_BYTES: usize = 512 << 10;

/// A table that is being written. Dropped before [`finish`](Self::finish), its file is removed.
#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    store: u64,
    id: u64,
    block: Builder,
    index: Builder,
    hashes: Vec<u64>,
    /// Not yet handed to the disk.
    buffer: Vec<u8>,
    written: u64,
    smallest: Option<Key>,
    hides: bool,
    finished: bool,
}

impl Writer {
    pub(crate) fn create(disk: &Arc<dyn Disk>, store: u64, id: u64) -> Result<Self> {
        let name = name_of(id);
        let file =
            disk.create(&name).map_err(|error| io_error(format!("cannot make {name}"), error))?;
        Ok(Self {
            disk: Arc::clone(disk),
            file,
            store,
            id,
            block: Builder::default(),
            index: Builder::default(),
            hashes: Vec::new(),
            buffer: Vec::new(),
            written: 0,
            smallest: None,
            hides: false,
            finished: false,
        })
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.offset() + self.block.len() as u64
    }

    fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends an entry; keys come in order.
    pub(crate) fn push(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        if self.smallest.is_none() {
            self.smallest = Some(Key::new(key));
        }
        let full = self.block.len() + entry_bytes(key, value) > BLOCK_BYTES;
        if full && !self.block.is_empty() {
            self.end_block()?;
        }
        self.hides |= value.is_none();
        self.block.push(key, value);
        self.hashes.push(bloom::hash(key));
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        let offset = self.offset();
        let last = Key::new(self.block.last_key());
        self.block.finish(block_seed(self.store, self.id, offset), &mut self.buffer);
        let len = (self.offset() - offset) as u32;
        let mut place = [0; 12];
        place[..8].copy_from_slice(&offset.to_le_bytes());
        place[8..].copy_from_slice(&len.to_le_bytes());
        self.index.push(&last, Some(&place));
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file
            .write_at(&self.buffer, self.written)
            .map_err(|error| io_error(format!("cannot write {}", name_of(self.id)), error))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the table durable, all but its name, and says what it is, and whether it has keys that
    /// are gone. A table without entries is none.
    pub(crate) fn finish(mut self) -> Result<Option<Written>> {
        let Some(smallest) = self.smallest.take() else {
            return Ok(None);
        };
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let largest = Key::new(self.index.last_key());
        let index_at = self.offset();
        self.index.finish(block_seed(self.store, self.id, index_at), &mut self.buffer);
        let filter_at = self.offset();
        self.buffer.extend_from_slice(&bloom::build(&self.hashes));
        let footer_at = self.offset();
        let filter_len = (footer_at - filter_at) as usize;
        let filter = &self.buffer[self.buffer.len() - filter_len..];
        let filter_hash = Footer::filter_hash(self.store, self.id, filter);
        let footer = Footer { index_at, filter_at, filter_hash };
        self.buffer.extend_from_slice(&footer.encode(self.store, self.id));
        debug_assert_eq!(self.offset(), footer_at + FOOTER_BYTES as u64);
        self.flush()?;
        self.file
            .sync()
            .map_err(|error| io_error(format!("cannot sync {}", name_of(self.id)), error))?;
        self.finished = true;
        let info = TableInfo {
            id: self.id,
            bytes: self.written,
            entries: self.hashes.len() as u64,
            smallest,
            largest,
        };
        Ok(Some((info, Arc::clone(&self.file), self.hides)))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails too, the next start of the store removes what no manifest names.
            let _ = self.disk.remove(&name_of(self.id));
        }
    }
}
