//! Files that a rename has replaced, kept until the kernel knows them no more.
//!
//! Whoever looked a name up and opens it a moment later has the file that the name had then, also when
//! another one was put in its place between the two: so programs that replace files atomically expect.

use super::{Handler, caller};
use crate::reply::{Errno, Reply};
use crate::request::Header;
use base::sync::Mutex;
use fs::{FileType, Handle, OpenFlags};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most files that are kept so; beyond, a file goes when it is replaced.
const KEPT_MAX: usize = 65_536;

/// Open handles by inode.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    handles: Mutex<BTreeMap<u64, Handle>>,
    any: AtomicBool,
}

impl Kept {
    /// Whether there may be some.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Keeps a handle; gives it back when there are too many, or one of the same file.
    fn insert(&self, ino: u64, handle: Handle) -> Option<Handle> {
        let mut handles = self.handles.lock();
        if handles.len() >= KEPT_MAX || handles.contains_key(&ino) {
            return Some(handle);
        }
        handles.insert(ino, handle);
        self.any.store(true, Ordering::Release);
        None
    }

    fn remove(&self, ino: u64) -> Option<Handle> {
        let mut handles = self.handles.lock();
        let removed = handles.remove(&ino);
        if handles.is_empty() {
            self.any.store(false, Ordering::Release);
        }
        removed
    }
}

impl Handler {
    /// Opens the file that a rename is about to replace, if it has no other name.
    pub(super) async fn hold(
        &self,
        header: Header,
        parent: u64,
        name: &[u8],
    ) -> Option<(u64, Handle)> {
        if !self.policy.private || self.session.is_known_missing(parent, name) {
            return None;
        }
        let caller = caller(header, 0);
        let attr = self.session.lookup(&caller, parent, name).await.ok()?;
        if attr.file_type() != FileType::File || attr.nlink != 1 {
            return None;
        }
        let handle = self.session.open(&caller, attr.ino, OpenFlags::READ).await.ok()?;
        Some((attr.ino, handle))
    }

    /// Keeps it, when it was `replaced`.
    pub(super) async fn keep(&self, held: Option<(u64, Handle)>, replaced: bool) {
        let Some((ino, handle)) = held else {
            return;
        };
        let left = if replaced { self.kept.insert(ino, handle) } else { Some(handle) };
        if let Some(handle) = left {
            self.let_go(handle).await;
        }
    }

    async fn let_go(&self, handle: Handle) {
        if let Err(error) = self.session.release(handle).await {
            tracing::warn!(%error, "a file that was replaced could not be let go");
        }
    }

    /// Whether it matters what the kernel forgets.
    pub(crate) fn cares_for_forgets(&self) -> bool {
        self.kept.any() || self.session.waits_for_forgets()
    }

    /// The kernel knows these inodes no more.
    pub(crate) async fn forget(&self, inodes: &[u64]) -> Result<Reply, Errno> {
        for ino in inodes {
            if let Some(handle) = self.kept.remove(*ino) {
                self.let_go(handle).await;
            }
            if self.session.waits_for_forgets()
                && let Err(error) = self.session.forget(*ino).await
            {
                tracing::warn!(%error, ino, "a file without a name could not be let go");
            }
        }
        Ok(Reply::Silence)
    }

    /// It knows none any more.
    pub(crate) async fn forget_all(&self) {
        let handles = std::mem::take(&mut *self.kept.handles.lock());
        for handle in handles.into_values() {
            self.let_go(handle).await;
        }
        if let Err(error) = self.session.forget_all().await {
            tracing::warn!(%error, "files without a name are left for the next mount");
        }
    }
}
