//! create: a file by its name, opened. One that is there already is opened, unless it must be new.

use super::make::{New, make_at, parent_dir};
use super::name;
use crate::error::{Error, Kind, Result, exists, is_directory};
use crate::session::{OpKind, OpenFile, Session};
use crate::tx::Tx;
use crate::types::{Attr, Caller, FileType, Handle, Ino, OpenFlags, mode};
use kv::Read;

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Opens the file of this name; makes it first when there is none.
    pub async fn create(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
        flags: OpenFlags,
    ) -> Result<(Attr, Handle)> {
        name::check(name)?;
        let mode = mode::FILE | mode & mode::PERMISSIONS;
        loop {
            let new = New { mode, reserved: self.0.reserve().await?, ..New::default() };
            let held = Held::begin(self, new.reserved);
            let (attr, made) =
                self.create_in(caller, parent, name, &new, flags, held.generation).await?;
            if made {
                return Ok((attr, held.into_handle(attr.ino, flags)?));
            }
            drop(held);
            match attr.file_type() {
                FileType::Symlink => {
                    return Err(Error::new(Kind::Loop, "this is a symbolic link"));
                }
                FileType::Directory => return Err(is_directory("this is a directory")),
                _ => {}
            }
            match self.open(caller, attr.ino, flags).await {
                Ok(handle) => return Ok((self.getattr(attr.ino).await?, handle)),
                // It went between the two: then the name is free, or means something else.
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn create_in(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        new: &New,
        flags: OpenFlags,
        generation: u64,
    ) -> Result<(Attr, bool)> {
        self.change(KIND, |mut tx| async move {
            let dir = parent_dir(&mut tx, caller, parent).await?;
            if name::is_dots(name) {
                return Err(is_directory("this is a directory"));
            }
            if let Some(found) = tx.entry(parent, name, Read::Serializable).await? {
                if flags.exclusive {
                    return Err(exists("the name is taken"));
                }
                let inode = tx.inode_seen(found.ino).await?;
                let attr = tx.attr(found.ino, &inode).await?;
                return Ok((tx, (attr, false)));
            }
            let (ino, inode) = make_at(&mut tx, caller, parent, &dir, name, new).await?;
            lease(&mut tx, ino, generation)?;
            let attr = tx.attr_with(ino, &inode, Default::default());
            Ok((tx, (attr, true)))
        })
        .await
    }
}

/// On a shared store the lease comes with the inode: nobody can remove it between the two.
pub(super) fn lease(tx: &mut Tx, ino: Ino, generation: u64) -> Result<()> {
    if !tx.session.private {
        let (lease, held) = (tx.keys.lease(ino, tx.session.id), tx.keys.held(tx.session.id, ino));
        tx.txn.max(&lease, generation)?;
        tx.txn.max(&held, generation)?;
    }
    Ok(())
}

/// An inode that is about to be made and opened. On a private store its number is known, and it
/// counts as open from now on.
pub(super) struct Held<'a> {
    session: &'a Session,
    pub(super) generation: u64,
    entered: Option<Ino>,
}

impl<'a> Held<'a> {
    pub(super) fn begin(session: &'a Session, reserved: Option<Ino>) -> Self {
        let generation = match reserved {
            Some(ino) => session.0.open.adopt(ino, 0, false),
            None => session.0.open.next_generation(),
        };
        Self { session, generation, entered: reserved }
    }

    pub(super) fn into_handle(mut self, ino: Ino, flags: OpenFlags) -> Result<Handle> {
        let shared = &self.session.0;
        let handle = shared.handles.add_file(OpenFile { ino, flags })?;
        if self.entered.take().is_none() {
            shared.open.adopt(ino, self.generation, true);
        }
        Ok(handle)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(ino) = self.entered {
            self.session.0.open.leave(ino);
        }
    }
}
