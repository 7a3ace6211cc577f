//! Short files of which the kernel has no bytes yet, since it was only just told of them: whoever opens one to read it is
//! given its bytes with the answer, and need not ask for them (docs/adr/0035).

use crate::device::Device;
use crate::wire::encode;
use fs::{Ahead, Attr, FileType};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many inodes are remembered. One that is forgotten is read as it is asked for.
const SLOTS: usize = 1 << 14;

/// Inodes that the kernel was told of and that were not opened since.
#[derive(Debug)]
pub(crate) struct Fresh {
    /// `None` where others may change files.
    device: Option<Arc<Device>>,
    slots: Box<[AtomicU64]>,
}

impl Fresh {
    pub(crate) fn new(device: Option<&Arc<Device>>) -> Self {
        let count = if device.is_some() { SLOTS } else { 0 };
        let slots = std::iter::repeat_with(AtomicU64::default).take(count).collect();
        Self { device: device.cloned(), slots }
    }

    fn slot(&self, ino: u64) -> Option<&AtomicU64> {
        self.slots.get((ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize)
    }

    /// The kernel is being told of an inode by its name: then it had forgotten it, most of the time.
    pub(super) fn told(&self, attr: &Attr) {
        if attr.size > 0
            && attr.file_type() == FileType::File
            && let Some(slot) = self.slot(attr.ino)
        {
            slot.store(attr.ino, Ordering::Relaxed);
        }
    }

    /// Whether it was told since this was last asked.
    pub(super) fn take(&self, ino: u64) -> bool {
        let (set, cleared) = (Ordering::Relaxed, Ordering::Relaxed);
        self.slot(ino).is_some_and(|slot| slot.compare_exchange(ino, 0, set, cleared).is_ok())
    }

    /// Puts bytes into its cache.
    pub(super) fn give(&self, ahead: &Ahead) {
        let (Some(device), Ok(len)) = (&self.device, u32::try_from(ahead.bytes.len())) else {
            return;
        };
        let sent =
            device.send(encode::store(ahead.ino, len).finish(ahead.bytes.len()), &ahead.bytes);
        if let Err(error) = sent {
            // It asks for them then.
            tracing::debug!(%error, "the kernel took no bytes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_remembered_where_others_may_change_files() {
        let fresh = Fresh::new(None);
        assert!(fresh.slot(5).is_none());
        assert!(!fresh.take(5));
    }
}
