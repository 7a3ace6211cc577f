//! Walking through tables in either direction.

use super::block::{Block, Value};
use super::reader::{Cached, Directory, Table};
use crate::merge::{Source, before};
use kv::{KeyRange, Result};
use std::ops::Range;
use std::sync::Arc;

/// Walks the entries of a range through tables that follow one another.
pub(crate) struct TableCursor {
    /// Tables that are still to come, the next one last.
    rest: Vec<Arc<Table>>,
    range: KeyRange,
    reverse: bool,
    /// Whether blocks that are read should stay in the cache.
    keep: bool,
    at: Option<Position>,
}

struct Position {
    table: Arc<Table>,
    directory: Arc<Cached>,
    block_index: usize,
    block: Arc<Cached>,
    /// Index of the entry.
    entry: usize,
    /// The entries of the block that are not past the far end of the range.
    inside: Range<usize>,
}

impl TableCursor {
    /// The entries of `range` in `tables`, which are in order and do not overlap.
    pub(crate) fn new(
        tables: &[Arc<Table>],
        range: &KeyRange,
        reverse: bool,
        keep: bool,
    ) -> Result<Self> {
        let mut rest: Vec<Arc<Table>> =
            tables.iter().filter(|table| table.overlaps(range)).cloned().collect();
        if !reverse {
            rest.reverse();
        }
        let mut cursor = Self { rest, range: range.clone(), reverse, keep, at: None };
        let from = if reverse { range.end.clone() } else { range.start.clone() };
        cursor.open_next(&from)?;
        Ok(cursor)
    }

    /// Opens tables until one has an entry from `from` on.
    fn open_next(&mut self, from: &[u8]) -> Result<()> {
        self.at = None;
        while let Some(table) = self.rest.pop() {
            let directory = table.directory()?;
            self.at = self.locate(&table, directory, from)?;
            if self.at.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// The first entry of a table that is not before `from` in the direction of the walk.
    fn locate(
        &self,
        table: &Arc<Table>,
        cached: Arc<Cached>,
        from: &[u8],
    ) -> Result<Option<Position>> {
        let (reverse, keep) = (self.reverse, self.keep);
        let Some(directory) = directory_of(&cached) else {
            return Ok(None);
        };
        let blocks = directory.blocks();
        if blocks == 0 {
            return Ok(None);
        }
        let mut block_index = directory.block_for(from).min(blocks - 1);
        let mut block = table.block(directory, block_index, keep)?;
        let Some(first) = block_of(&block) else { return Ok(None) };
        let bound = first.lower_bound(from);
        let found = if reverse { bound.checked_sub(1) } else { Some(bound) };
        let entry = match found {
            Some(entry) if entry < first.count() => entry,
            // Backward: everything in this block is behind; the one before ends in front of `from`.
            None if block_index > 0 => {
                block_index -= 1;
                block = table.block(directory, block_index, keep)?;
                match block_of(&block).and_then(|block| block.count().checked_sub(1)) {
                    Some(last) => last,
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        let inside =
            block_of(&block).map_or(0..0, |block| Self::inside(&self.range, reverse, block));
        let table = Arc::clone(table);
        Ok(Some(Position { table, directory: cached, block_index, block, entry, inside }))
    }

    fn current(&self) -> Option<(&[u8], Value<'_>)> {
        let at = self.at.as_ref().filter(|at| at.inside.contains(&at.entry))?;
        let block = at.block()?;
        Some((block.key(at.entry), block.value(at.entry)))
    }

    /// Which entries of a block are not past the far end of the range.
    fn inside(range: &KeyRange, reverse: bool, block: &Block) -> Range<usize> {
        let count = block.count();
        match count.checked_sub(1) {
            None => 0..0,
            Some(_) if reverse && *block.key(0) < *range.start => {
                block.lower_bound(&range.start)..count
            }
            Some(last) if !reverse && *block.key(last) >= *range.end => {
                0..block.lower_bound(&range.end)
            }
            Some(_) => 0..count,
        }
    }
}

impl Position {
    fn block(&self) -> Option<&Block> {
        block_of(&self.block)
    }

    fn count(&self) -> usize {
        self.block().map_or(0, Block::count)
    }
}

fn block_of(cached: &Cached) -> Option<&Block> {
    match cached {
        Cached::Block(block) => Some(block),
        Cached::Directory(_) => None,
    }
}

fn directory_of(cached: &Cached) -> Option<&Directory> {
    match cached {
        Cached::Directory(directory) => Some(directory),
        Cached::Block(_) => None,
    }
}

impl Source for TableCursor {
    fn peek(&self) -> Option<(&[u8], Value<'_>)> {
        self.current()
    }

    fn advance(&mut self) -> Result<()> {
        let Some(at) = &mut self.at else {
            return Ok(());
        };
        if self.reverse {
            if at.entry > 0 {
                at.entry -= 1;
                return Ok(());
            }
        } else if at.entry + 1 < at.count() {
            at.entry += 1;
            return Ok(());
        }
        let next =
            if self.reverse { at.block_index.checked_sub(1) } else { Some(at.block_index + 1) };
        if let Some(next) = next
            && let Some(directory) = directory_of(&at.directory)
            && next < directory.blocks()
        {
            at.block = at.table.block(directory, next, self.keep)?;
            at.block_index = next;
            at.entry = if self.reverse { at.count().saturating_sub(1) } else { 0 };
            at.inside =
                at.block().map_or(0..0, |block| Self::inside(&self.range, self.reverse, block));
            return Ok(());
        }
        let from = if self.reverse { self.range.end.clone() } else { self.range.start.clone() };
        self.open_next(&from)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let reverse = self.reverse;
        match self.current() {
            Some((current, _)) if before(current, key, reverse) => {}
            _ => return Ok(()),
        }
        if let Some(at) = self.at.take() {
            self.at = self.locate(&at.table, at.directory, key)?;
        }
        if self.at.is_none() {
            self.open_next(key)?;
        }
        Ok(())
    }
}
