//! The store at one version: layers of memory over tables.

use crate::levels::Levels;
use crate::merge::{Merge, Source};
use crate::overlay::{Found, Overlay, Segments};
use bytes::Bytes;
use kv::{Key, KeyRange, Page, Query, Result, Version};
use std::sync::Arc;

/// What a reader sees. Cheap to copy, and it never changes.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) version: Version,
    pub(crate) active: Overlay,
    /// The layer below, while it is not in the tables yet.
    pub(crate) frozen: Option<Arc<Overlay>>,
    pub(crate) levels: Arc<Levels>,
}

impl View {
    pub(crate) fn get(&self, key: &Key) -> Result<Option<Bytes>> {
        for layer in self.layers() {
            match layer.get(key) {
                Found::Value(value) => return Ok(Some(value.clone())),
                Found::Gone => return Ok(None),
                Found::Unknown => {}
            }
        }
        self.levels.get(key)
    }

    fn layers(&self) -> impl Iterator<Item = &Overlay> {
        [Some(&self.active), self.frozen.as_deref()].into_iter().flatten()
    }

    pub(crate) fn range(&self, query: &Query) -> Result<Page> {
        let mut page = Page::new();
        let mut merged = self.merged(&query.range, query.reverse, true)?;
        while let Some((key, value)) = merged.source.peek() {
            if let Some(hidden) = merged.hidden_by(key) {
                // Nothing below it counts until the range ends.
                merged.skip(&hidden, query.reverse)?;
                continue;
            }
            if let Some(value) = value {
                if query.is_full(&page) {
                    page.more = true;
                    break;
                }
                page.push(key, value);
            }
            merged.source.advance()?;
        }
        Ok(page)
    }

    /// The layers and tables over `range` as one source.
    pub(crate) fn merged<'a>(
        &'a self,
        range: &'a KeyRange,
        reverse: bool,
        keep: bool,
    ) -> Result<Layered<'a>> {
        let mut sources: Vec<Box<dyn Source + Send + 'a>> = Vec::new();
        let mut clears = Vec::new();
        for layer in self.layers() {
            let cursor = layer.cursor(range, reverse);
            // A layer without entries here can still hide those below.
            if cursor.peek().is_some() || !layer.cleared().is_empty() {
                sources.push(Box::new(cursor));
                clears.push(layer.cleared());
            }
        }
        for cursor in self.levels.cursors(range, reverse, keep)? {
            sources.push(Box::new(cursor));
        }
        Ok(Layered { source: Merge::new(sources, reverse), clears })
    }
}

/// Sources with what hides them.
pub(crate) struct Layered<'a> {
    pub(crate) source: Merge<Box<dyn Source + Send + 'a>>,
    /// The deleted ranges of the first sources, which hide what comes from later ones.
    clears: Vec<&'a Segments>,
}

impl Layered<'_> {
    /// The deleted range that hides the entry the source stands on.
    pub(crate) fn hidden_by(&self, key: &[u8]) -> Option<KeyRange> {
        let above = self.source.rank().min(self.clears.len());
        self.clears[..above].iter().find_map(|segments| segments.covering(key))
    }

    /// Leaves the entry that `hidden` hides, and what else of its source and below is hidden with it.
    pub(crate) fn skip(&mut self, hidden: &KeyRange, reverse: bool) -> Result<()> {
        let to: Key = if reverse { hidden.start.clone() } else { hidden.end.clone() };
        self.source.seek_from(self.source.rank(), &to)
    }
}
