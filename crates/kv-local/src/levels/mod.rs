//! The tables of a store. Level 0 has what was folded last, newest first, and may overlap; in each
//! level below, tables are in order and do not overlap, and every one is older than those above.

mod compact;
pub(crate) mod manifest;

use crate::merge::{Merge, Source};
use crate::table::{Table, TableCursor};
use bytes::Bytes;
use kv::{Key, KeyRange, Result};
use std::sync::Arc;

pub(crate) use compact::{Compaction, Output, pick, pick_gone, write_tables};
pub(crate) use manifest::{Manifest, StoreError};

/// How many levels there are. The last has no bound.
pub(crate) const LEVELS: usize = 7;

/// An immutable set of tables.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    tiers: [Vec<Arc<Table>>; LEVELS],
    /// The largest key of each table, beside one another: most searches end here.
    largest: [Vec<Key>; LEVELS],
}

impl Default for Levels {
    fn default() -> Self {
        Self {
            tiers: std::array::from_fn(|_| Vec::new()),
            largest: std::array::from_fn(|_| Vec::new()),
        }
    }
}

/// The tables of a level that share keys with `table`, perhaps.
pub(crate) fn touched<'a>(level: &'a [Arc<Table>], table: &Table) -> &'a [Arc<Table>] {
    let start = level.partition_point(|other| other.info.largest < table.info.smallest);
    let end = level.partition_point(|other| other.info.smallest <= table.info.largest);
    &level[start..end.max(start)]
}

impl Levels {
    pub(crate) fn level(&self, level: usize) -> &[Arc<Table>] {
        &self.tiers[level]
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.tiers
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// Puts `table` where it belongs in `level`.
    pub(crate) fn add(&mut self, level: usize, table: Arc<Table>) {
        let at = match level {
            0 => 0,
            _ => self.largest[level].partition_point(|other| *other < table.info.largest),
        };
        self.largest[level].insert(at, table.info.largest.clone());
        self.tiers[level].insert(at, table);
    }

    /// Takes tables out, wherever they are.
    pub(crate) fn remove(&mut self, ids: &[u64]) {
        for (tables, largest) in self.tiers.iter_mut().zip(&mut self.largest) {
            tables.retain(|table| !ids.contains(&table.info.id));
            *largest = tables.iter().map(|table| table.info.largest.clone()).collect();
        }
    }

    /// What the tables say of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let hash = crate::table::key_hash(key);
        for table in &self.tiers[0] {
            if *table.info.smallest <= *key
                && *key <= *table.info.largest
                && let Some(value) = table.get(key, hash)?
            {
                return Ok(value);
            }
        }
        for (tables, largest) in self.tiers.iter().zip(&self.largest).skip(1) {
            let at = largest.partition_point(|largest| **largest < *key);
            if let Some(table) = tables.get(at)
                && *table.info.smallest <= *key
                && let Some(value) = table.get(key, hash)?
            {
                return Ok(value);
            }
        }
        Ok(None)
    }

    /// Cursors over `range`, newest first, without those that have nothing there.
    pub(crate) fn cursors(
        &self,
        range: &KeyRange,
        reverse: bool,
        keep: bool,
    ) -> Result<Vec<TableCursor>> {
        let mut cursors = Vec::new();
        let mut add = |tables: &[Arc<Table>]| -> Result<()> {
            if tables.iter().any(|table| table.overlaps(range)) {
                let cursor = TableCursor::new(tables, range, reverse, keep)?;
                if cursor.peek().is_some() {
                    cursors.push(cursor);
                }
            }
            Ok(())
        };
        for table in &self.tiers[0] {
            add(std::slice::from_ref(table))?;
        }
        for tables in &self.tiers[1..] {
            let start = tables.partition_point(|table| table.info.largest < range.start);
            let end = tables.partition_point(|table| table.info.smallest < range.end);
            if start < end {
                add(&tables[start..end])?;
            }
        }
        Ok(cursors)
    }

    /// All entries of `range` as one source, keys that are gone included.
    pub(crate) fn scan(&self, range: &KeyRange) -> Result<Merge<TableCursor>> {
        Ok(Merge::new(self.cursors(range, false, false)?, false))
    }

    /// What the next merge writes, at most: level 0 goes into level 1 as a whole, and from there on
    /// one table at a time goes into what it touches.
    pub(crate) fn merge_bytes(&self) -> u64 {
        let sum = |tables: &[Arc<Table>]| tables.iter().map(|table| table.info.bytes).sum::<u64>();
        let first = sum(&self.tiers[0]) + sum(&self.tiers[1]);
        let below = self.tiers.windows(2).skip(1).flat_map(|pair| {
            pair[0].iter().map(|table| table.info.bytes + sum(touched(&pair[1], table)))
        });
        below.max().unwrap_or(0).max(first)
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.tables().map(|(_, table)| table.info.bytes).sum()
    }
}
