//! The kinds of work and the transactions of a filesystem's metadata that they are made of, written
//! once for all engines. Each checks what it reads: work on files that are not there would be fast
//! and mean nothing.

use super::records::{
    DIRECTORY_FILES, File, counter_key, directory_inode, dirent_target, dirents_prefix, inode_key,
    inode_record,
};
use super::subject::Subject;
use crate::error::{Error, Result};
use kv::Durability;
use std::str::FromStr;

/// The kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Each thread in directories of its own.
    Create,
    /// All threads in one directory.
    CreateTogether,
    CreateSynced,
    Lookup,
    Readdir,
    Rename,
    Unlink,
}

impl Work {
    pub(crate) const ALL: [Work; 7] = [
        Work::Create,
        Work::CreateTogether,
        Work::CreateSynced,
        Work::Lookup,
        Work::Readdir,
        Work::Rename,
        Work::Unlink,
    ];

    /// The word for it on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Work::Create => "create",
            Work::CreateTogether => "together",
            Work::CreateSynced => "synced",
            Work::Lookup => "lookup",
            Work::Readdir => "readdir",
            Work::Rename => "rename",
            Work::Unlink => "unlink",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Create => "create",
            Work::CreateTogether => "create in one directory",
            Work::CreateSynced => "create synced",
            Work::Lookup => "lookup",
            Work::Readdir => "readdir",
            Work::Rename => "rename",
            Work::Unlink => "unlink",
        }
    }

    pub(crate) fn durability(self) -> Durability {
        match self {
            Work::CreateSynced => Durability::Synced,
            _ => Durability::Process,
        }
    }
}

impl FromStr for Work {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        let known = Work::ALL.into_iter().find(|work| work.word() == word);
        known.ok_or_else(|| Error::new(format!("there is no work \"{word}\"")))
    }
}

/// One thread's hands: the buffer that values are copied to, and how often a transaction had to run
/// again.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    value: Vec<u8>,
    pub(crate) retries: u64,
    /// Stands for the time: a number that differs with each change.
    ctime: u64,
}

impl Worker {
    /// Makes a directory with `files` files in one transaction.
    pub(crate) fn load(&mut self, subject: &dyn Subject, directory: u64, files: u64) -> Result<()> {
        self.retries += subject.transact(&mut |txn| {
            let inode = directory_inode(directory);
            txn.put(&inode_key(inode), &inode_record(inode, 0))?;
            for index in 0..files {
                let file = File::new(directory, index);
                txn.put(&inode_key(file.inode()), &inode_record(file.inode(), 0))?;
                txn.put(&file.dirent_key(), &file.dirent())?;
                txn.put(&file.home_key(), &file.home())?;
                txn.put(&file.lease_key(), &file.lease())?;
            }
            txn.put(&counter_key(directory), &files.to_le_bytes())
        })?;
        Ok(())
    }

    /// Makes an empty directory.
    pub(crate) fn mkdir(&mut self, subject: &dyn Subject, directory: u64) -> Result<()> {
        self.load(subject, directory, 0)
    }

    pub(crate) fn create(&mut self, subject: &dyn Subject, file: File) -> Result<()> {
        self.ctime += 1;
        let (value, ctime) = (&mut self.value, self.ctime);
        self.retries += subject.transact(&mut |txn| {
            let parent = inode_key(directory_inode(file.directory));
            present(txn.get(&parent, value)?, "the parent", file)?;
            absent(txn.get(&file.dirent_key(), value)?, file)?;
            let inode = file.inode();
            txn.put(&inode_key(inode), &inode_record(inode, ctime))?;
            txn.put(&file.dirent_key(), &file.dirent())?;
            txn.put(&file.home_key(), &file.home())?;
            txn.put(&file.lease_key(), &file.lease())?;
            txn.add(&counter_key(file.directory), 1)
        })?;
        Ok(())
    }

    pub(crate) fn lookup(&mut self, subject: &dyn Subject, file: File) -> Result<()> {
        if self.find(subject, file)? { Ok(()) } else { present(false, "the entry", file) }
    }

    /// As a lookup, of a file that may not be there.
    pub(crate) fn find(&mut self, subject: &dyn Subject, file: File) -> Result<bool> {
        let value = &mut self.value;
        let mut found = false;
        subject.view(&mut |view| {
            found = view.get(&file.dirent_key(), value)?;
            if found {
                let inode = target(value, file)?;
                present(view.get(&inode_key(inode), value)?, "the inode", file)?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Lists a directory that has all its files.
    pub(crate) fn readdir(&mut self, subject: &dyn Subject, directory: u64) -> Result<()> {
        let mut entries = 0;
        subject.view(&mut |view| {
            let page = view.scan(&dirents_prefix(directory))?;
            entries = page.len();
            std::hint::black_box(page);
            Ok(())
        })?;
        if entries as u64 == DIRECTORY_FILES {
            return Ok(());
        }
        Err(Error::new(format!(
            "directory {directory} has {entries} entries, not {DIRECTORY_FILES}"
        )))
    }

    pub(crate) fn unlink(&mut self, subject: &dyn Subject, file: File) -> Result<()> {
        let value = &mut self.value;
        self.retries += subject.transact(&mut |txn| {
            present(txn.get(&file.dirent_key(), value)?, "the entry", file)?;
            let inode = inode_key(target(value, file)?);
            present(txn.get(&inode, value)?, "the inode", file)?;
            txn.delete(&file.dirent_key())?;
            txn.delete(&inode)?;
            txn.delete(&file.home_key())?;
            txn.delete(&file.lease_key())?;
            txn.add(&counter_key(file.directory), 1u64.wrapping_neg())
        })?;
        Ok(())
    }

    /// Renames a file within its directory and returns it under its new name.
    pub(crate) fn rename(&mut self, subject: &dyn Subject, file: File) -> Result<File> {
        self.ctime += 1;
        let (value, ctime) = (&mut self.value, self.ctime);
        let renamed = file.renamed();
        self.retries += subject.transact(&mut |txn| {
            absent(txn.get(&renamed.dirent_key(), value)?, renamed)?;
            present(txn.get(&file.dirent_key(), value)?, "the entry", file)?;
            let inode = target(value, file)?;
            txn.delete(&file.dirent_key())?;
            txn.put(&renamed.dirent_key(), value)?;
            txn.put(&inode_key(inode), &inode_record(inode, ctime))
        })?;
        Ok(renamed)
    }
}

fn target(dirent: &[u8], file: File) -> Result<u64> {
    match dirent_target(dirent) {
        Some(inode) if inode == file.inode() => Ok(inode),
        _ => Err(Error::new(format!("the entry of {file:?} is damaged"))),
    }
}

fn present(found: bool, what: &str, file: File) -> Result<()> {
    if found {
        return Ok(());
    }
    Err(Error::new(format!("{what} of {file:?} is not there")))
}

fn absent(found: bool, file: File) -> Result<()> {
    if found {
        return Err(Error::new(format!("{file:?} is there already")));
    }
    Ok(())
}
