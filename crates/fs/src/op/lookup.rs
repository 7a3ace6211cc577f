//! lookup: what a name stands for.

use super::name;
use crate::access::{self, EXEC};
use crate::error::{Result, not_directory, not_found};
use crate::local::Local;
use crate::session::{OpKind, Session};
use crate::tx::Tx;
use crate::types::{Attr, Caller, Ino};
use kv::Read;

pub(super) const KIND: OpKind = OpKind::ReadOnly;

impl Session {
    /// Finds a name in a directory. `.` and `..` are names too.
    pub async fn lookup(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Attr> {
        if let Some(found) = self.lookup_quickly(caller, parent, name) {
            return found;
        }
        name::check(name)?;
        self.view(|mut tx| async move {
            let attr = lookup_in(&mut tx, caller, parent, name).await?;
            Ok((tx, attr))
        })
        .await
    }

    /// The same without a transaction, for a caller whom nobody has to check. `None` when anything is out of the
    /// ordinary.
    pub fn lookup_quickly(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
    ) -> Option<Result<Attr>> {
        let shared = &self.0;
        let trusted = !caller.checked_here || caller.is_privileged();
        let odd = name::is_dots(name) || name::check(name).is_err();
        if !shared.private || !trusted || odd || self.is_ended() {
            return None;
        }
        // What is read of a file that is settled meanwhile may be half of before and half of after.
        let settled = || shared.local.as_ref().map(Local::settled);
        let before = settled();
        let at = shared.newest()?;
        let key = shared.volume.keys.entry(parent, name);
        let Some(entry) = shared.look_entry(at, &key)? else {
            if !shared.known.is_dir(at, parent) {
                return None;
            }
            shared.known.learn_missing(at, key);
            return Some(Err(not_found("there is no such name")));
        };
        let inode = shared.look_inode(at, entry.ino).filter(|inode| !inode.has_sides())?;
        let attr = shared.attr_of(entry.ino, &inode, Default::default()).ok()?;
        (settled() == before).then_some(Ok(attr))
    }
}

async fn lookup_in(tx: &mut Tx, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Attr> {
    let mut found = None;
    // The parent's record need not be read when nobody has to be kept out and the name is there.
    let trusted = (!caller.checked_here || caller.is_privileged()) && !name::is_dots(name);
    if trusted {
        found = tx.entry(parent, name, Read::Snapshot).await?;
    }
    if found.is_none() {
        let dir = tx.inode_seen(parent).await?;
        if !dir.is_dir() {
            return Err(not_directory("the parent is no directory"));
        }
        access::check(tx, caller, parent, &dir, EXEC).await?;
        if name::is_dots(name) {
            let ino = if name == b"." { parent } else { dir.parent };
            let inode = tx.inode_seen(ino).await?;
            return tx.attr(ino, &inode).await;
        }
        if !trusted {
            found = tx.entry(parent, name, Read::Snapshot).await?;
        }
    }
    let entry = found.ok_or_else(|| not_found("there is no such name"))?;
    match tx.find_inode(entry.ino, Read::Snapshot).await? {
        Some(inode) => tx.attr(entry.ino, &inode).await,
        None => {
            let key = tx.keys.inode(entry.ino);
            Err(tx.damaged(&key, "is missing although it has a name"))
        }
    }
}
