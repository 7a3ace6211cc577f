//! An action in other numbers: each side has its own for inodes and handles.

use super::action::Action;
use crate::types::{DirHandle, Handle, Ino};

impl Action {
    /// The same with every inode and handle replaced.
    pub fn translate(&self, to: &impl Translate) -> Self {
        use Action as A;
        let mut action = self.clone();
        match &mut action {
            A::Lookup { parent, .. }
            | A::Mknod { parent, .. }
            | A::Mkdir { parent, .. }
            | A::Symlink { parent, .. }
            | A::Unlink { parent, .. }
            | A::Rmdir { parent, .. }
            | A::Create { parent, .. }
            | A::Tmpfile { parent, .. } => *parent = to.ino(*parent),
            A::GetAttr { ino }
            | A::Access { ino, .. }
            | A::Readlink { ino }
            | A::Open { ino, .. }
            | A::Opendir { ino, .. }
            | A::GetXattr { ino, .. }
            | A::SetXattr { ino, .. }
            | A::ListXattr { ino, .. }
            | A::RemoveXattr { ino, .. } => *ino = to.ino(*ino),
            A::SetAttr { ino, handle, .. } => {
                *ino = to.ino(*ino);
                *handle = handle.map(|handle| to.handle(handle));
            }
            A::Link { ino, parent, .. } => {
                *ino = to.ino(*ino);
                *parent = to.ino(*parent);
            }
            A::Rename { parent, new_parent, .. } => {
                *parent = to.ino(*parent);
                *new_parent = to.ino(*new_parent);
            }
            A::Read { handle, .. }
            | A::Write { handle, .. }
            | A::Fallocate { handle, .. }
            | A::Seek { handle, .. }
            | A::Flush { handle }
            | A::Fsync { handle }
            | A::Datasync { handle }
            | A::Release { handle } => *handle = to.handle(*handle),
            A::CopyRange { from, to: target, .. } => {
                from.handle = to.handle(from.handle);
                target.handle = to.handle(target.handle);
            }
            A::Readdir { handle, .. }
            | A::ReaddirPage { handle, .. }
            | A::Fsyncdir { handle }
            | A::Releasedir { handle } => *handle = to.dir(*handle),
            A::StatFs | A::Maintain => {}
        }
        action
    }

    /// The inodes that it names.
    pub fn inos(&self) -> Vec<Ino> {
        let seen = Seen::default();
        self.translate(&seen);
        seen.0.into_inner()
    }
}

/// Other numbers for inodes and handles.
pub trait Translate {
    /// Of an inode.
    fn ino(&self, ino: Ino) -> Ino;
    /// Of an open file.
    fn handle(&self, handle: Handle) -> Handle;
    /// Of an open directory.
    fn dir(&self, handle: DirHandle) -> DirHandle;
}

/// Changes nothing and remembers the inodes.
#[derive(Default)]
struct Seen(std::cell::RefCell<Vec<Ino>>);

impl Translate for Seen {
    fn ino(&self, ino: Ino) -> Ino {
        self.0.borrow_mut().push(ino);
        ino
    }

    fn handle(&self, handle: Handle) -> Handle {
        handle
    }

    fn dir(&self, handle: DirHandle) -> DirHandle {
        handle
    }
}
