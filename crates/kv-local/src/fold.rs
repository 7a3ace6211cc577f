//! From memory to disk: a frozen layer becomes a table of level 0, and tables are merged downwards.

use crate::error::corrupt;
use crate::levels::{Compaction, Levels, pick, write_tables};
use crate::log;
use crate::merge::{Merge, Source};
use crate::overlay::Overlay;
use crate::shared::Shared;
use crate::table::block::Value;
use crate::table::{Table, TableCursor};
use kv::{Error, ErrorKind, KeyRange, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Folding waits for a merge when level 0 has this many tables: reading would get slow.
pub(crate) const LEVEL0_TABLES_MAX: usize = 12;

impl Shared {
    /// Writes the frozen layer to a table. False when there is none.
    pub(crate) fn fold(&self) -> Result<bool> {
        // Two at once would fold one layer twice, and put the older table over newer ones.
        let _alone = self.folds.lock();
        let (frozen, levels) = {
            let visible = self.visible.lock();
            let Some(frozen) = visible.frozen.clone() else {
                return Ok(false);
            };
            (frozen, Arc::clone(&visible.levels))
        };
        if levels.level(0).len() >= LEVEL0_TABLES_MAX && !self.read_only {
            self.merge().map_err(stuck)?;
        }
        let tables = self.write_overlay(&frozen.overlay, &levels)?;
        let added: Vec<(usize, Arc<Table>)> = tables.into_iter().map(|table| (0, table)).collect();
        let first_log = frozen.next_log;
        self.edit(
            &added,
            &[],
            |manifest| {
                manifest.folded = frozen.version;
                manifest.first_log = first_log;
                // Its name is older than this manifest, and so becomes durable with it.
                manifest.known_log = first_log;
            },
            |visible| visible.recent = visible.frozen.take(),
        )?;
        self.syncs.raise(frozen.version);
        self.remove_logs_before(first_log);
        // Those that a sync still holds open would keep their room.
        self.syncs.forget_before(first_log);
        Ok(true)
    }

    /// Writes a layer as one table, with a mark for each key that its deleted ranges hide in
    /// `levels`.
    pub(crate) fn write_overlay(
        &self,
        overlay: &Overlay,
        levels: &Levels,
    ) -> Result<Vec<Arc<Table>>> {
        let all = KeyRange::all();
        let cursor: Box<dyn Source + Send> = Box::new(overlay.cursor(&all, false));
        let mut sources = vec![cursor];
        if !overlay.cleared().is_empty() {
            sources.push(Box::new(Hidden::new(levels, overlay.cleared().ranges())?));
        }
        let mut merged = Merge::new(sources, false);
        self.with_output(|output| write_tables(&mut merged, output, &[], true, u64::MAX))
    }

    fn remove_logs_before(&self, first: u64) {
        let wanted = self.reserve.is_whole() && !self.read_only;
        self.reserve.spare.keep(&*self.disk, first, wanted);
        // A log that cannot be removed now is removed by the next start: the manifest is past it.
        for name in self.disk.list().unwrap_or_default() {
            if log::number_of(&name).is_some_and(|number| number < first) {
                let _ = self.disk.remove(&name);
            }
        }
    }

    /// Merges tables once. False when the levels are in shape.
    pub(crate) fn merge(&self) -> Result<bool> {
        self.merge_by(|levels, turn| pick(levels, self.options.level_scale, turn))
    }

    /// Merges what `picked` says. False when it says nothing.
    pub(crate) fn merge_by(
        &self,
        picked: impl FnOnce(&Levels, u64) -> Result<Option<Compaction>>,
    ) -> Result<bool> {
        let mut merges = self.merges.lock();
        let levels = Arc::clone(&self.visible.lock().levels);
        let Some(compaction) = picked(&levels, *merges)? else {
            return Ok(false);
        };
        *merges += 1;
        // Not held: the tables that go give their room back when nobody has them open.
        drop(levels);
        let outputs = match compaction.moved() {
            Some(table) => vec![Arc::clone(table)],
            None => self.with_output(|output| compaction.run(output))?,
        };
        let added: Vec<(usize, Arc<Table>)> =
            outputs.into_iter().map(|table| (compaction.to, table)).collect();
        self.edit(&added, &compaction.inputs, |_| {}, |_| {})?;
        self.merges_done.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }
}

/// What to do when a merge that can wait no longer meets damage.
fn stuck(error: Error) -> Error {
    if error.kind() != ErrorKind::Corrupt {
        return error;
    }
    corrupt(format!(
        "{error}; no more can be written until it is mended: open it for recovery, which shows what \
         is left, and copy that into a new store"
    ))
}

/// The keys that tables hold in some ranges, all of them as gone.
struct Hidden<'a> {
    levels: &'a Levels,
    /// The ranges that are still to come, the next one last.
    rest: Vec<KeyRange>,
    current: Option<Merge<TableCursor>>,
}

impl<'a> Hidden<'a> {
    fn new(levels: &'a Levels, mut ranges: Vec<KeyRange>) -> Result<Self> {
        ranges.reverse();
        let mut hidden = Self { levels, rest: ranges, current: None };
        hidden.settle()?;
        Ok(hidden)
    }

    /// Moves on to an entry that is there.
    fn settle(&mut self) -> Result<()> {
        loop {
            if let Some(current) = &mut self.current {
                match current.peek() {
                    Some((_, Some(_))) => return Ok(()),
                    // Gone already: nothing to hide.
                    Some((_, None)) => {
                        current.advance()?;
                        continue;
                    }
                    None => self.current = None,
                }
            }
            let Some(range) = self.rest.pop() else {
                return Ok(());
            };
            self.current = Some(self.levels.scan(&range)?);
        }
    }
}

impl Source for Hidden<'_> {
    fn peek(&self) -> Option<(&[u8], Value<'_>)> {
        let (key, _) = self.current.as_ref()?.peek()?;
        Some((key, None))
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(current) = &mut self.current {
            current.advance()?;
        }
        self.settle()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        while self.peek().is_some_and(|(current, _)| current < key) {
            self.advance()?;
        }
        Ok(())
    }
}
