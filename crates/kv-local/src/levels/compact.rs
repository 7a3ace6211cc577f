//! Keeping the levels in shape: merging tables of one level into the next.

use super::{LEVELS, Levels, touched};
use crate::merge::{Merge, Source};
use crate::table::{Memory, Table, TableCursor, TableInfo, Writer};
use base::{Disk, File};
use kv::{Key, KeyRange, Result};
use std::sync::Arc;

/// Level 0 is merged down when it has this many tables.
const LEVEL0_TABLES: usize = 4;
/// What level 1 holds before it is merged down; each level below holds this many times more.
const LEVEL1_BYTES: u64 = 96 << 20;
const LEVEL_RATIO: u64 = 8;
/// A table is closed when it is this long.
const TABLE_BYTES: u64 = 8 << 20;

/// Tables to merge.
pub(crate) struct Compaction {
    pub(crate) to: usize,
    /// Newest first; each group is in order and does not overlap.
    groups: Vec<Vec<Arc<Table>>>,
    pub(crate) inputs: Vec<u64>,
    /// No table that is written may reach across one of these: a table that stays lies there.
    walls: Vec<Key>,
    /// Nothing lies below, so what is gone can be forgotten.
    bottom: bool,
}

fn bound_of(level: usize) -> u64 {
    LEVEL1_BYTES.saturating_mul(LEVEL_RATIO.saturating_pow(level as u32 - 1))
}

/// What should be merged next, if anything. `scale` divides the bounds, for tests. `turn` spreads
/// the work over the keys.
pub(crate) fn pick(levels: &Levels, scale: u64, turn: u64) -> Result<Option<Compaction>> {
    let level0 = levels.level(0);
    if level0.len() >= LEVEL0_TABLES {
        let groups = level0.iter().map(|table| vec![Arc::clone(table)]).collect();
        return Ok(Some(plan(levels, groups, 1)?));
    }
    for level in 1..LEVELS - 1 {
        let tables = levels.level(level);
        let bytes: u64 = tables.iter().map(|table| table.info.bytes).sum();
        if bytes > bound_of(level) / scale.max(1) && !tables.is_empty() {
            let picked = Arc::clone(&tables[(turn % tables.len() as u64) as usize]);
            return Ok(Some(plan(levels, vec![vec![picked]], level + 1)?));
        }
    }
    Ok(None)
}

/// What to merge so that keys that are gone give their space back; nothing when all of it is back
/// that this process knows of.
pub(crate) fn pick_gone(levels: &Levels) -> Result<Option<Compaction>> {
    let level0 = levels.level(0);
    if !level0.is_empty() {
        let groups = level0.iter().map(|table| vec![Arc::clone(table)]).collect();
        return Ok(Some(plan(levels, groups, 1)?));
    }
    for level in 1..LEVELS - 1 {
        let hides = |table: &&Arc<Table>| {
            table.hides
                && (level + 1..LEVELS).any(|to| !touched(levels.level(to), table).is_empty())
        };
        if let Some(table) = levels.level(level).iter().find(hides) {
            return Ok(Some(plan(levels, vec![vec![Arc::clone(table)]], level + 1)?));
        }
    }
    Ok(None)
}

/// Adds the tables of level `to` that the merge touches, and leaves alone those that it does not.
fn plan(levels: &Levels, mut groups: Vec<Vec<Arc<Table>>>, to: usize) -> Result<Compaction> {
    let mut touched = Vec::new();
    let mut walls = Vec::new();
    for table in levels.level(to) {
        let range =
            KeyRange { start: table.info.smallest.clone(), end: table.info.largest.successor() };
        let mut hit = false;
        for group in &groups {
            let cursor = TableCursor::new(group, &range, false, false)?;
            hit |= cursor.peek().is_some();
        }
        if hit {
            touched.push(Arc::clone(table));
        } else {
            walls.push(table.info.smallest.clone());
        }
    }
    groups.push(touched);
    let inputs = groups.iter().flatten().map(|table| table.info.id).collect();
    let bottom = (to + 1..LEVELS).all(|level| levels.level(level).is_empty());
    Ok(Compaction { to, groups, inputs, walls, bottom })
}

impl Compaction {
    /// One table that nothing needs to be merged with can just change its level, unless a table of
    /// the new level lies in a gap between its keys: then it has to be cut there.
    pub(crate) fn moved(&self) -> Option<&Arc<Table>> {
        let mut tables = self.groups.iter().flatten();
        let only = tables.next()?;
        let inside = |wall: &Key| only.info.smallest < *wall && *wall <= only.info.largest;
        let fits = !self.walls.iter().any(inside);
        (tables.next().is_none() && !self.bottom && fits).then_some(only)
    }

    /// Writes the merged tables.
    pub(crate) fn run(&self, output: &mut Output<'_>) -> Result<Vec<Arc<Table>>> {
        let all = KeyRange::all();
        let mut cursors = Vec::new();
        for group in &self.groups {
            cursors.push(TableCursor::new(group, &all, false, false)?);
        }
        let mut merged = Merge::new(cursors, false);
        write_tables(&mut merged, output, &self.walls, !self.bottom, TABLE_BYTES)
    }
}

/// Where new tables go.
pub(crate) struct Output<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) store: u64,
    pub(crate) memory: &'a Memory,
    pub(crate) next_id: &'a mut dyn FnMut() -> u64,
    /// Asked now and then: true stops the work, because the store is closing.
    pub(crate) stop: &'a dyn Fn() -> bool,
}

/// Writes a source as tables of about `table_bytes`. Keys that are gone are kept only when `gone`.
pub(crate) fn write_tables(
    source: &mut dyn Source,
    output: &mut Output<'_>,
    walls: &[Key],
    gone: bool,
    table_bytes: u64,
) -> Result<Vec<Arc<Table>>> {
    let mut written = Written { disk: Arc::clone(output.disk), tables: Vec::new() };
    let mut writer: Option<Writer> = None;
    let mut wall = 0;
    let mut steps = 0u32;
    while let Some((key, value)) = source.peek() {
        while wall < walls.len() && *walls[wall] <= *key {
            wall += 1;
            if let Some(full) = writer.take() {
                written.add(full)?;
            }
        }
        if value.is_some() || gone {
            let open = match &mut writer {
                Some(open) => open,
                None => {
                    writer.insert(Writer::create(output.disk, output.store, (output.next_id)())?)
                }
            };
            open.push(key, value)?;
            if open.len() >= table_bytes
                && let Some(full) = writer.take()
            {
                written.add(full)?;
            }
        }
        source.advance()?;
        steps += 1;
        if steps.is_multiple_of(1024) && (output.stop)() {
            return Err(kv::Error::new(kv::ErrorKind::Closed, "the store is closing"));
        }
    }
    if let Some(last) = writer {
        written.add(last)?;
    }
    let finished = std::mem::take(&mut written.tables);
    Ok(finished
        .into_iter()
        .map(|(info, file, hides)| {
            Arc::new(Table::new(info, file, hides, output.store, output.memory))
        })
        .collect())
}

/// Tables that are whole but belong to nothing yet: removed if the rest fails.
struct Written {
    disk: Arc<dyn Disk>,
    tables: Vec<(TableInfo, Arc<dyn File>, bool)>,
}

impl Written {
    fn add(&mut self, writer: Writer) -> Result<()> {
        self.tables.extend(writer.finish()?);
        Ok(())
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for (info, ..) in &self.tables {
            let _ = self.disk.remove(&crate::table::name_of(info.id));
        }
    }
}
