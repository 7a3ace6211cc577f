//! rename: a name moves, replaces another, or two change places.

use super::make::{New, check_writable, new_inode, parent_dir};
use super::{name, remove};
use crate::access::{self, WRITE};
use crate::error::{
    Error, Kind, Result, exists, invalid, is_directory, not_directory, not_empty, not_found,
};
use crate::schema::{Entry, Inode, Part};
use crate::session::{OpKind, Session};
use crate::tx::Tx;
use crate::types::{Caller, FileType, Ino, ROOT, RenameFlags, mode};
use kv::Read;

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

/// One end of a rename.
#[derive(Clone, Copy)]
struct End<'a> {
    parent: Ino,
    name: &'a [u8],
}

impl Session {
    /// Moves a name.
    pub async fn rename(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        if flags.exchange && (flags.no_replace || flags.whiteout) {
            return Err(invalid("an exchange goes with no other flag"));
        }
        name::check(name)?;
        name::check(new_name)?;
        let from = End { parent, name };
        let to = End { parent: new_parent, name: new_name };
        if self.rename_quickly(caller, parent, name, new_parent, new_name, flags)?.is_some() {
            return Ok(());
        }
        if !flags.exchange && !flags.no_replace {
            self.keep_before_replacing((parent, name), (new_parent, new_name)).await?;
        }
        let whiteout = if flags.whiteout { self.0.reserve().await? } else { None };
        self.change(KIND, |mut tx| async move {
            if !flags.whiteout {
                // It takes nothing, and who makes room may have to move things.
                tx.frees_space();
            }
            rename_in(&mut tx, caller, from, to, flags, whiteout).await?;
            Ok((tx, ()))
        })
        .await
    }

    /// The same the short way, where nothing is replaced and no directory moves to another; `None` when nothing was
    /// done, and it has to be done the other way.
    pub fn rename_quickly(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<Option<()>> {
        name::check(name)?;
        name::check(new_name)?;
        let from = End { parent, name };
        let to = End { parent: new_parent, name: new_name };
        let moving = || {
            if flags.exchange || flags.whiteout {
                return None;
            }
            let mut quick = self.quick(caller)?;
            let across = from.parent != to.parent;
            if name::is_dots(from.name) || name::is_dots(to.name) {
                return None;
            }
            quick.dir(from.parent)?;
            if across {
                quick.dir(to.parent)?;
            }
            if quick.entry(to.parent, to.name)?.is_some() {
                return None;
            }
            let source = quick.entry(from.parent, from.name)??;
            let mut inode = quick.inode(source.ino).filter(|inode| !across || !inode.is_dir())?;
            inode.ctime = quick.now;
            quick.frees_space();
            quick.delete_entry(from.parent, from.name);
            quick.put_entry(to.parent, to.name, source);
            quick.put_inode(source.ino, &inode);
            quick.touch_dir(from.parent, 0);
            if across {
                quick.touch_dir(to.parent, 0);
            }
            Some(quick)
        };
        moving().map_or(Ok(None), |quick| quick.commit(&()))
    }
}

async fn rename_in(
    tx: &mut Tx,
    caller: &Caller,
    from: End<'_>,
    to: End<'_>,
    flags: RenameFlags,
    whiteout: Option<u64>,
) -> Result<()> {
    let from_dir = parent_dir(tx, caller, from.parent).await?;
    let to_dir = if to.parent == from.parent {
        from_dir.clone()
    } else {
        parent_dir(tx, caller, to.parent).await?
    };
    if name::is_dots(from.name) || name::is_dots(to.name) {
        return Err(Error::new(Kind::Busy, ". and .. cannot be renamed"));
    }
    let Some(source) = tx.entry(from.parent, from.name, Read::Serializable).await? else {
        return Err(not_found("there is no such name"));
    };
    let target = tx.entry(to.parent, to.name, Read::Serializable).await?;
    if flags.no_replace && target.is_some() {
        return Err(exists("the new name is taken"));
    }
    if flags.exchange && target.is_none() {
        return Err(not_found("there is nothing to exchange with"));
    }
    check_no_cycle(tx, from, to, source, target, flags).await?;
    if target.is_some_and(|target| target.ino == source.ino) {
        return Ok(());
    }
    let source_inode = tx.inode(source.ino).await?;
    check_writable(tx, caller, from.parent, &from_dir).await?;
    access::check_sticky(caller, &from_dir, &source_inode)?;
    let across = from.parent != to.parent;
    let target_inode = match target {
        None => {
            check_writable(tx, caller, to.parent, &to_dir).await?;
            None
        }
        Some(target) => {
            let inode = tx.inode(target.ino).await?;
            check_writable(tx, caller, to.parent, &to_dir).await?;
            access::check_sticky(caller, &to_dir, &inode)?;
            Some(inode)
        }
    };
    if !flags.exchange
        && let Some(target) = &target_inode
    {
        match (source_inode.is_dir(), target.is_dir()) {
            (true, false) => return Err(not_directory("a directory replaces only a directory")),
            (false, true) => return Err(is_directory("only a directory replaces a directory")),
            _ => {}
        }
    }
    // A directory that moves has its .. changed.
    if across && source_inode.is_dir() {
        access::check(tx, caller, source.ino, &source_inode, WRITE).await?;
    }
    if flags.exchange
        && across
        && let (Some(target), Some(inode)) = (target, &target_inode)
        && inode.is_dir()
    {
        access::check(tx, caller, target.ino, inode, WRITE).await?;
    }
    match (target, target_inode) {
        (Some(target), Some(inode)) if flags.exchange => {
            exchange(tx, from, to, (source, source_inode), (target, inode))
        }
        (target, inode) => {
            let target = target.zip(inode);
            replace(tx, from, to, (source, source_inode), target).await?;
            if flags.whiteout {
                put_whiteout(tx, caller, from, &from_dir, whiteout).await?;
            }
            Ok(())
        }
    }
}

/// Moves the source over the target, if there is one.
async fn replace(
    tx: &mut Tx,
    from: End<'_>,
    to: End<'_>,
    (source, source_inode): (Entry, Inode),
    target: Option<(Entry, Inode)>,
) -> Result<()> {
    let mut to_subdirs = 0;
    if let Some((target, inode)) = target {
        if inode.is_dir() {
            let entries = tx.keys.entries(target.ino);
            if tx.any(entries, Read::Serializable).await? {
                return Err(not_empty("the directory to replace has entries"));
            }
            to_subdirs -= 1;
        }
        remove::drop_link(tx, target.ino, inode).await?;
    }
    let moved = i64::from(source_inode.is_dir());
    tx.delete_entry(from.parent, from.name)?;
    tx.put_entry(to.parent, to.name, source)?;
    put_moved(tx, source.ino, source_inode, to.parent)?;
    if from.parent == to.parent {
        tx.touch_dir(from.parent, to_subdirs)
    } else {
        tx.touch_dir(from.parent, -moved)?;
        tx.touch_dir(to.parent, moved + to_subdirs)
    }
}

fn exchange(
    tx: &mut Tx,
    from: End<'_>,
    to: End<'_>,
    (source, source_inode): (Entry, Inode),
    (target, target_inode): (Entry, Inode),
) -> Result<()> {
    let gained = i64::from(source_inode.is_dir()) - i64::from(target_inode.is_dir());
    tx.put_entry(to.parent, to.name, source)?;
    tx.put_entry(from.parent, from.name, target)?;
    put_moved(tx, source.ino, source_inode, to.parent)?;
    put_moved(tx, target.ino, target_inode, from.parent)?;
    if from.parent == to.parent {
        tx.touch_dir(from.parent, 0)
    } else {
        tx.touch_dir(from.parent, -gained)?;
        tx.touch_dir(to.parent, gained)
    }
}

fn put_moved(tx: &mut Tx, ino: Ino, mut inode: Inode, parent: Ino) -> Result<()> {
    inode.ctime = tx.now;
    if inode.is_dir() && inode.parent != parent {
        inode.parent = parent;
        return tx.put_inode(ino, &inode, &[Part::Parent]);
    }
    tx.put_inode(ino, &inode, &[])
}

async fn put_whiteout(
    tx: &mut Tx,
    caller: &Caller,
    at: End<'_>,
    dir: &Inode,
    reserved: Option<u64>,
) -> Result<()> {
    let new = New { mode: mode::CHARACTER, reserved, ..New::default() };
    let (ino, mut inode) = new_inode(tx, caller, at.parent, dir, &new, 1).await?;
    inode.mode = mode::CHARACTER;
    tx.put_new_inode(ino, &inode)?;
    tx.put_entry(at.parent, at.name, Entry { ino, file_type: FileType::Character })
}

/// A directory must not become its own ancestor. Every parent that is looked at on the way up is part
/// of what the transaction depends on, so two renames that together would make a cycle conflict.
async fn check_no_cycle(
    tx: &mut Tx,
    from: End<'_>,
    to: End<'_>,
    source: Entry,
    target: Option<Entry>,
    flags: RenameFlags,
) -> Result<()> {
    if from.parent == to.parent {
        return Ok(());
    }
    let dir = FileType::Directory;
    if source.file_type == dir && is_above(tx, source.ino, to.parent).await? {
        return Err(invalid("a directory cannot move into itself"));
    }
    if let Some(target) = target
        && target.file_type == dir
        && is_above(tx, target.ino, from.parent).await?
    {
        return Err(if flags.exchange {
            invalid("a directory cannot move into itself")
        } else {
            not_empty("the directory to replace has entries")
        });
    }
    Ok(())
}

/// Whether `above` is `ino` or one of its ancestors.
async fn is_above(tx: &mut Tx, above: Ino, mut ino: Ino) -> Result<bool> {
    // More steps than any path has: a cycle that should not be there must not hang us.
    for _ in 0..1 << 20 {
        if ino == above {
            return Ok(true);
        }
        if ino == ROOT || ino == 0 {
            return Ok(false);
        }
        ino = tx.inode_for(ino, Part::Parent).await?.parent;
    }
    let key = tx.keys.inode(ino);
    Err(tx.damaged(&key, "is its own ancestor"))
}
