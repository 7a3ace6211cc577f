//! statfs: how full the volume is.

use crate::error::Result;
use crate::schema::Counter;
use crate::session::{OpKind, Session};
use crate::tx::{Tx, number};
use crate::types::{NAME_BYTES_MAX, StatFs};
use kv::{Query, Read};

pub(super) const KIND: OpKind = OpKind::ReadOnly;

/// The unit of counts.
const UNIT: u64 = 4096;
/// What a volume without a bound says that it has: an exbibyte, and as many inodes as numbers of 48
/// bits. Programs compute with these, so they are not the largest numbers there are.
const UNBOUNDED_BYTES: u64 = 1 << 60;
const UNBOUNDED_INODES: u64 = 1 << 48;

impl Session {
    /// How full the volume is.
    pub async fn statfs(&self) -> Result<StatFs> {
        let record = &self.0.volume.record;
        let capacity = bound_or(record.capacity_bytes, UNBOUNDED_BYTES);
        let files = bound_or(record.inodes_max, UNBOUNDED_INODES);
        self.view(|mut tx| async move {
            let used = tx.total(Counter::Bytes).await?;
            let inodes = tx.total(Counter::Inodes).await?;
            let stat = StatFs {
                block_bytes: UNIT as u32,
                blocks: capacity / UNIT,
                blocks_free: capacity.saturating_sub(used) / UNIT,
                files,
                files_free: files.saturating_sub(inodes),
                name_bytes_max: NAME_BYTES_MAX as u32,
            };
            Ok((tx, stat))
        })
        .await
    }

    /// Bytes that data takes, and inodes, exactly.
    pub async fn usage(&self) -> Result<(u64, u64)> {
        self.view(|mut tx| async move {
            let bytes = tx.total(Counter::Bytes).await?;
            let inodes = tx.total(Counter::Inodes).await?;
            Ok((tx, (bytes, inodes)))
        })
        .await
    }
}

fn bound_or(bound: u64, otherwise: u64) -> u64 {
    if bound == 0 { otherwise } else { bound }
}

impl Tx {
    /// A counter of the volume: the sum of its parts, which may each have wrapped below zero.
    pub(crate) async fn total(&mut self, counter: Counter) -> Result<u64> {
        let query = Query::new(self.keys.counters(counter));
        let page = self.range(&query, Read::Snapshot).await?;
        let total = page.iter().fold(0u64, |sum, (_, value)| sum.wrapping_add(number(value)));
        // Never negative, unless something is wrong that fsck will find.
        Ok(if total > i64::MAX as u64 { 0 } else { total })
    }
}
