//! The transactions of names and attributes.

use super::records::target;
use super::{Raw, absent, keys, present};
use crate::core_bench::action::{DIRECTORY_FILES, File, Name};
use crate::core_bench::work::Who;
use crate::error::{Error, Result};
use fs::ROOT;
use kv::{KeyRange, Query, Read, Txn};
use std::hint::black_box;

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
}

/// The parent of a name that changes: its record, and that it stays what it is.
async fn parent(txn: &mut Txn, directory: u64) -> Result<()> {
    txn.read_conflict(&KeyRange::point(&keys::part(directory, keys::ACCESS)))?;
    present(txn.get(&keys::inode(directory), Read::Snapshot).await?)?;
    Ok(())
}

/// What is kept beside a directory's record.
async fn sides(txn: &mut Txn, directory: u64) -> Result<()> {
    let sides: [&[u8]; 2] = [&keys::changed(directory), &keys::subdirs(directory)];
    black_box(txn.get_many(&sides, Read::Snapshot).await?);
    Ok(())
}

impl Raw {
    pub(super) fn make(&self, directory: u64, name: &Name, kind: Kind) -> Result<u64> {
        let ino = self.fresh();
        self.change(|mut txn| async move {
            parent(&mut txn, directory).await?;
            let entry = keys::entry(directory, name);
            absent(txn.get(&entry, Read::Serializable).await?)?;
            let record = match kind {
                Kind::File => &self.records.file,
                Kind::Directory => &self.records.directory,
            };
            txn.put(&keys::inode(ino), record.clone())?;
            txn.put(&entry, self.records.entry(ino))?;
            txn.max(&keys::changed(directory), self.now())?;
            if kind == Kind::Directory {
                txn.add(&keys::subdirs(directory), 1)?;
            }
            txn.add(&keys::INODES, 1)?;
            Ok((txn, ino))
        })
    }

    pub(super) fn lookup(&self, file: &File, who: Who) -> Result<()> {
        let directory = self.places.directory(file.directory());
        self.view(|mut txn| async move {
            if who == Who::User {
                present(txn.get(&keys::inode(directory), Read::Snapshot).await?)?;
            }
            let entry = keys::entry(directory, &file.name);
            let entry = present(txn.get(&entry, Read::Snapshot).await?)?;
            let ino = present(target(&entry))?;
            black_box(present(txn.get(&keys::inode(ino), Read::Snapshot).await?)?);
            Ok((txn, ()))
        })
    }

    pub(super) fn missing(&self, file: &File) -> Result<()> {
        let directory = self.places.directory(file.directory());
        self.view(|mut txn| async move {
            let entry = keys::entry(directory, &file.name);
            absent(txn.get(&entry, Read::Snapshot).await?)?;
            present(txn.get(&keys::inode(directory), Read::Snapshot).await?)?;
            Ok((txn, ()))
        })
    }

    pub(super) fn getattr(&self, number: u64) -> Result<()> {
        let ino = self.places.file(number);
        self.view(|mut txn| async move {
            black_box(present(txn.get(&keys::inode(ino), Read::Snapshot).await?)?);
            Ok((txn, ()))
        })
    }

    pub(super) fn unlink(&self, file: &File) -> Result<()> {
        let directory = self.places.directory(file.directory());
        self.change(|mut txn| async move {
            parent(&mut txn, directory).await?;
            let entry = keys::entry(directory, &file.name);
            let found = present(txn.get(&entry, Read::Serializable).await?)?;
            let inode = keys::inode(present(target(&found))?);
            present(txn.get(&inode, Read::Serializable).await?)?;
            txn.delete(&entry)?;
            txn.max(&keys::changed(directory), self.now())?;
            txn.delete(&inode)?;
            txn.add(&keys::INODES, 1u64.wrapping_neg())?;
            Ok((txn, ()))
        })
    }

    pub(super) fn rename(&self, file: &File, to: &Name) -> Result<()> {
        let directory = self.places.directory(file.directory());
        self.change(|mut txn| async move {
            parent(&mut txn, directory).await?;
            let (from, to) = (keys::entry(directory, &file.name), keys::entry(directory, to));
            let found = present(txn.get(&from, Read::Serializable).await?)?;
            absent(txn.get(&to, Read::Serializable).await?)?;
            let ino = present(target(&found))?;
            let inode = keys::inode(ino);
            present(txn.get(&inode, Read::Serializable).await?)?;
            txn.delete(&from)?;
            txn.put(&to, self.records.entry(ino))?;
            txn.put(&inode, self.records.renamed.clone())?;
            txn.max(&keys::changed(directory), self.now())?;
            Ok((txn, ()))
        })
    }

    /// A directory whose files were made right after it. As the core does: one transaction to open
    /// it, one for its names, one for its inodes.
    pub(super) fn list(&self, number: u64) -> Result<()> {
        let directory = self.places.directory(number);
        let last = self.places.file((number + 1) * DIRECTORY_FILES - 1);
        self.view(|mut txn| async move {
            present(txn.get(&keys::inode(directory), Read::Snapshot).await?)?;
            Ok((txn, ()))
        })?;
        let names = Query::new(KeyRange::prefix(&keys::entries(directory)));
        let names = &names;
        let entries = self.view(|mut txn| async move {
            present(txn.get(&keys::inode(directory), Read::Snapshot).await?)?;
            let page = black_box(txn.range(names, Read::Snapshot).await?);
            sides(&mut txn, directory).await?;
            Ok((txn, page.len() as u64))
        })?;
        let end = KeyRange::prefix(&keys::inode(last)).end;
        let inodes = Query::new(KeyRange { start: kv::Key::new(&keys::inode(directory)), end });
        let inodes = &inodes;
        let found = self.view(|mut txn| async move {
            present(txn.get(&keys::inode(ROOT), Read::Snapshot).await?)?;
            sides(&mut txn, ROOT).await?;
            let page = black_box(txn.range(inodes, Read::Snapshot).await?);
            Ok((txn, page.len() as u64))
        })?;
        if entries == DIRECTORY_FILES && found > DIRECTORY_FILES {
            return Ok(());
        }
        Err(Error::new(format!("directory {number} has {entries} entries, {found} records")))
    }
}
