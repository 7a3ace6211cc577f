//! Several sorted sources as one. Where two have the same key, the earlier source wins.

use crate::overlay::{Cursor, Slot};
use crate::table::block::Value;
use kv::Result;

/// Entries in order, one way.
pub(crate) trait Source {
    /// The entry it stands on.
    fn peek(&self) -> Option<(&[u8], Value<'_>)>;

    /// Moves on by one.
    fn advance(&mut self) -> Result<()>;

    /// Moves on to the first entry that is not before `key` in the source's direction: not below
    /// it going forward, below it going backward.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
}

impl Source for Cursor<'_, Slot> {
    fn peek(&self) -> Option<(&[u8], Value<'_>)> {
        Cursor::peek(self).map(|item| (&*item.key, item.value.as_deref()))
    }

    fn advance(&mut self) -> Result<()> {
        Cursor::advance(self);
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        while Cursor::peek(self).is_some_and(|item| before(&item.key, key, self.is_reverse())) {
            Cursor::advance(self);
        }
        Ok(())
    }
}

/// Whether `key` comes before the place that a seek to `target` looks for.
pub(crate) fn before(key: &[u8], target: &[u8], reverse: bool) -> bool {
    if reverse { key >= target } else { key < target }
}

/// Sources laid over one another.
pub(crate) struct Merge<S> {
    sources: Vec<S>,
    reverse: bool,
    /// The source that has the next entry.
    best: Option<usize>,
}

impl<S: Source> Merge<S> {
    /// Merges `sources`, the newest first.
    pub(crate) fn new(sources: Vec<S>, reverse: bool) -> Self {
        let mut merge = Self { sources, reverse, best: None };
        merge.choose();
        merge
    }

    fn choose(&mut self) {
        let mut best: Option<(usize, &[u8])> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some((key, _)) = source.peek() else {
                continue;
            };
            let better =
                best.is_none_or(|(_, other)| if self.reverse { key > other } else { key < other });
            if better {
                best = Some((index, key));
            }
        }
        self.best = best.map(|(index, _)| index);
    }

    /// Moves the sources from number `rank` on to `key`; those before stay.
    pub(crate) fn seek_from(&mut self, rank: usize, key: &[u8]) -> Result<()> {
        for source in self.sources.iter_mut().skip(rank) {
            source.seek(key)?;
        }
        self.choose();
        Ok(())
    }

    /// Which source has the next entry.
    pub(crate) fn rank(&self) -> usize {
        self.best.unwrap_or(usize::MAX)
    }
}

impl<S: Source> Source for Merge<S> {
    fn peek(&self) -> Option<(&[u8], Value<'_>)> {
        self.sources[self.best?].peek()
    }

    fn advance(&mut self) -> Result<()> {
        if let [only] = &mut self.sources[..] {
            only.advance()?;
            self.best = only.peek().map(|_| 0);
            return Ok(());
        }
        let Some(best) = self.best else { return Ok(()) };
        // Those behind it that stand on the same key are hidden by it.
        let (head, tail) = self.sources.split_at_mut(best + 1);
        let current = &mut head[best];
        if let Some((key, _)) = current.peek() {
            for other in tail {
                if other.peek().is_some_and(|(other_key, _)| other_key == key) {
                    other.advance()?;
                }
            }
        }
        current.advance()?;
        self.choose();
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_from(0, key)
    }
}

impl Source for Box<dyn Source + Send + '_> {
    fn peek(&self) -> Option<(&[u8], Value<'_>)> {
        (**self).peek()
    }

    fn advance(&mut self) -> Result<()> {
        (**self).advance()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek(key)
    }
}
