//! Writing fixes, some in one transaction: what each fix is made of.

use super::edit::Edit;
use super::{Fix, bytes, inode, lost};
use crate::check::NUMBERS_END;
use crate::error::{Error, Result};
use crate::schema::{Counter, Entry, Parsed};
use crate::types::{FileType, Ino};
use crate::volume::{FIRST_INODE, Volume};
use kv::{Durability, ErrorKind, Failure, Query};

/// How far the next inode number is moved where nobody knows what it was: numbers of inodes that are gone
/// are not to be given out again.
const NUMBERS_SKIPPED: u64 = 1 << 16;

/// Writes some fixes. Tells of each whether it changed anything.
pub(super) async fn batch(volume: &Volume, fixes: &[(&'static str, Fix)]) -> Result<Vec<bool>> {
    match at_once(volume, fixes).await {
        Err(error) if fixes.len() > 1 && is_too_large(&error) => {
            let mut changed = Vec::with_capacity(fixes.len());
            for fix in fixes.chunks(1) {
                changed.extend(at_once(volume, fix).await?);
            }
            Ok(changed)
        }
        done => done,
    }
}

fn is_too_large(error: &Error) -> bool {
    error.store_error().is_some_and(|error| error.kind() == ErrorKind::TooLarge)
}

async fn at_once(volume: &Volume, fixes: &[(&'static str, Fix)]) -> Result<Vec<bool>> {
    let store = &volume.world.store;
    let done = store
        .transact_send(Durability::Process, |txn, attempt| async move {
            let mut edit = Edit::new(volume, txn).await?;
            let mut changed = Vec::with_capacity(fixes.len());
            for (_, fix) in fixes {
                // What an unknown commit has done is no change any more, and was one.
                edit.changed = attempt.maybe_committed;
                one(&mut edit, fix).await?;
                changed.push(edit.changed);
            }
            Ok::<_, Error>((edit.txn, changed))
        })
        .await?;
    Ok(done.value)
}

async fn one(edit: &mut Edit<'_>, fix: &Fix) -> Result<()> {
    match fix {
        Fix::Remove(key) => edit.delete(key).await,
        Fix::Volume => {
            let key = edit.keys.volume();
            edit.put(&key, edit.volume.record().encode(&key)).await
        }
        Fix::Epoch => {
            let key = edit.keys.epoch();
            edit.put(&key, 1_u64.to_le_bytes().to_vec()).await
        }
        Fix::NextInode { above } => next_inode(edit, *above).await,
        Fix::Counter(counter, sum) => total(edit, *counter, *sum).await,
        Fix::Directory { ino, parent } => lost::directory(edit, *ino, *parent).await,
        Fix::File { ino, rescue } => lost::file(edit, *ino, *rescue).await,
        Fix::Rescue(blob) => lost::rescue(edit, *blob).await,
        Fix::Reconnect(ino) => lost::reconnect(edit, *ino).await,
        Fix::Detach(ino) => lost::detach(edit, *ino).await,
        Fix::Names { ino, names } => {
            inode::change(edit, *ino, |inode| inode.nlink = *names).await?;
            let garbage = edit.keys.garbage(*ino);
            edit.delete(&garbage).await
        }
        Fix::Parent { ino, parent } => {
            inode::change(edit, *ino, |inode| inode.parent = *parent).await
        }
        Fix::Subdirs(ino) => subdirs(edit, *ino).await,
        Fix::Garbage(ino) => {
            let key = edit.keys.garbage(*ino);
            edit.put(&key, &b"l"[..]).await
        }
        Fix::Fields(ino) => inode::change(edit, *ino, inode::fit).await,
        Fix::Lists(ino) => inode::lists(edit, *ino).await,
        Fix::Attribute { ino, name } => inode::attribute(edit, *ino, name).await,
        Fix::Trim(ino) => inode::trim(edit, *ino).await,
        Fix::Inline(ino) => bytes::inline(edit, *ino).await,
        Fix::OwnBlob(ino) => bytes::own_blob(edit, *ino).await,
        Fix::LocalSize { ino, size } => inode::change(edit, *ino, |inode| inode.size = *size).await,
        Fix::Adopt(blob) => lost::adopt(edit, *blob).await,
        Fix::Entry(key, entry) => edit.put(key, entry.encode(key)).await,
        Fix::Map { blob, chunk, data } => bytes::map(edit, *blob, *chunk, data).await,
        Fix::Shape(key) => bytes::shape(edit, key).await,
        Fix::Size { ino, end } => {
            inode::change(edit, *ino, |inode| inode.size = inode.size.max(*end)).await
        }
        Fix::Space(ino) => bytes::space(edit, *ino).await,
        Fix::Block { place, needed: true } => bytes::rebuild(edit, *place).await,
        Fix::Block { place, needed: false } => bytes::unname(edit, *place).await,
        Fix::Parity(place) => bytes::parity(edit, *place).await,
    }
}

async fn next_inode(edit: &mut Edit<'_>, above: u64) -> Result<()> {
    let key = edit.keys.next_inode();
    let next = match edit.number(&key).await? {
        Some(next) if next < NUMBERS_END => next.max(above + 1),
        _ => above + NUMBERS_SKIPPED,
    };
    edit.put(&key, next.max(FIRST_INODE).to_le_bytes().to_vec()).await
}

/// Changes one shard so that the sum is right.
async fn total(edit: &mut Edit<'_>, counter: Counter, sum: u64) -> Result<()> {
    let first = edit.keys.counter(0, counter);
    let mut others = 0_u64;
    let page = edit.range(&Query::new(edit.keys.counters(counter))).await?;
    for (key, value) in page.iter().filter(|(key, _)| *key != &first[..]) {
        if let Some(Parsed::Counter { .. }) = edit.keys.parse(key) {
            others = others.wrapping_add(crate::tx::number(value));
        }
    }
    edit.put(&first, sum.wrapping_sub(others).to_le_bytes().to_vec()).await
}

/// Counts the directories in a directory.
pub(super) async fn subdirs(edit: &mut Edit<'_>, ino: Ino) -> Result<()> {
    let mut count = 0;
    let mut next = Some(Query::new(edit.keys.entries(ino)));
    while let Some(query) = next {
        let page = edit.range(&query).await?;
        let is_dir = |(key, value)| {
            Entry::decode(key, value).is_some_and(|entry| entry.file_type == FileType::Directory)
        };
        count += page.iter().filter(|(key, value)| is_dir((*key, *value))).count() as u64;
        next = if page.more { query.behind(&page) } else { None };
    }
    let key = edit.keys.subdirs(ino);
    edit.put_count(&key, count).await
}
