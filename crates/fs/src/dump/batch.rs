//! What a load writes in one transaction. Each item is applied to what is there, so that a transaction
//! whose outcome nobody was told can be run again.

use crate::access::{ACCESS_ACL, DEFAULT_ACL};
use crate::blob;
use crate::blob::stage::fitting_bytes;
use crate::error::Result;
use crate::op::xattr;
use crate::schema::{Entry, Form, Inode, VolumeRecord};
use crate::session::{OpKind, Session};
use crate::tx::Tx;
use crate::types::Ino;
use bytes::Bytes;
use kv::Read;

/// The most bytes of one transaction, where the engine would take more.
const BYTES_MAX: usize = 4 << 20;
/// The most items of one transaction.
const ITEMS_MAX: usize = 4096;
/// Operations and bytes of a transaction that are not items: counters, inodes that are written again.
const OTHER_OPS: usize = 40;
const OTHER_BYTES: usize = 32 << 10;
/// What an item takes besides its bytes, and a map entry at most.
const ITEM_BYTES: usize = 256;
const MAP_ENTRY_BYTES: usize = 4096;

/// One thing to write.
#[derive(Debug)]
pub(super) enum Item {
    Inode {
        ino: Ino,
        inode: Inode,
    },
    Xattr {
        ino: Ino,
        name: Bytes,
        value: Bytes,
    },
    Entry {
        dir: Ino,
        name: Bytes,
        entry: Entry,
    },
    /// How many directories are in a directory.
    Subdirs {
        dir: Ino,
        count: u64,
    },
    Write {
        ino: Ino,
        offset: u64,
        bytes: Bytes,
    },
    /// Space without bytes, in one chunk.
    Reserve {
        ino: Ino,
        start: u64,
        end: u64,
    },
}

/// Items that wait for their transaction.
#[derive(Debug)]
pub(super) struct Batch {
    items: Vec<Item>,
    bytes: usize,
    ops: usize,
    bytes_max: usize,
    ops_max: usize,
    /// The most bytes of a file that fit one transaction: a power of two, and whole blocks.
    pub(super) write_bytes_max: u64,
}

impl Batch {
    pub(super) fn new(session: &Session) -> Self {
        let bounds = session.0.volume.world.store.capabilities();
        Self {
            items: Vec::new(),
            bytes: 0,
            ops: 0,
            bytes_max: bounds.txn_bytes_max.saturating_sub(OTHER_BYTES).min(BYTES_MAX),
            ops_max: bounds.txn_ops_max.saturating_sub(OTHER_OPS).min(ITEMS_MAX),
            write_bytes_max: fitting_bytes(session),
        }
    }

    /// Adds an item; first writes those before it, when they would be too many with it.
    pub(super) async fn push(&mut self, session: &Session, item: Item) -> Result<()> {
        let (ops, bytes) = cost(&session.0.volume.record, &item);
        if self.bytes + bytes > self.bytes_max || self.ops + ops > self.ops_max {
            self.flush(session).await?;
        }
        self.bytes += bytes;
        self.ops += ops;
        self.items.push(item);
        Ok(())
    }

    /// Writes what waits.
    pub(super) async fn flush(&mut self, session: &Session) -> Result<()> {
        if self.items.is_empty() {
            return Ok(());
        }
        let items = &self.items;
        let change = |mut tx| async move {
            apply(&mut tx, items).await?;
            Ok((tx, ()))
        };
        session.change(OpKind::Idempotent, change).await?;
        self.items.clear();
        (self.bytes, self.ops) = (0, 0);
        Ok(())
    }
}

/// Operations and bytes that an item takes, at most.
fn cost(record: &VolumeRecord, item: &Item) -> (usize, usize) {
    match item {
        Item::Inode { inode, .. } => (2, inode.target.len() + ITEM_BYTES),
        Item::Xattr { name, value, .. } => (2, 2 * name.len() + value.len() + 2 * ITEM_BYTES),
        Item::Entry { name, .. } => (1, 2 * name.len() + ITEM_BYTES),
        Item::Subdirs { .. } => (1, ITEM_BYTES),
        Item::Reserve { .. } => (3, MAP_ENTRY_BYTES + ITEM_BYTES),
        Item::Write { bytes, .. } => {
            let block = record.block_bytes as usize;
            let blocks = bytes.len() / block + 2;
            let parity = match usize::from(record.parity_group) {
                0 => 0,
                group => blocks.div_ceil(group) + 1,
            };
            let values = (blocks + parity) * (block.min(bytes.len().next_multiple_of(block)) + 128);
            (blocks + parity + 4, values + MAP_ENTRY_BYTES + ITEM_BYTES)
        }
    }
}

/// An inode that is being changed, and is written when another one is.
type Open = Option<(Ino, Inode)>;

async fn apply(tx: &mut Tx, items: &[Item]) -> Result<()> {
    let mut open: Open = None;
    for item in items {
        match item {
            Item::Inode { ino, inode } => {
                close(tx, &mut open)?;
                let found = tx.find_inode(*ino, Read::Serializable).await?;
                if found.is_none() {
                    tx.count_inodes(1);
                }
                open = Some((*ino, found.unwrap_or_else(|| inode.clone())));
            }
            Item::Xattr { ino, name, value } => {
                let inode = opened(tx, &mut open, *ino).await?;
                inode.xattrs = true;
                inode.access_acl |= *name == ACCESS_ACL;
                inode.default_acl |= *name == DEFAULT_ACL;
                xattr::store(tx, *ino, name, value)?;
            }
            Item::Entry { dir, name, entry } => tx.put_entry(*dir, name, *entry)?,
            Item::Subdirs { dir, count } => {
                let key = tx.keys.subdirs(*dir);
                tx.put(&key, count.to_le_bytes().to_vec())?;
            }
            Item::Write { ino, offset, bytes } => {
                let inode = opened(tx, &mut open, *ino).await?;
                let size = inode.size;
                blob::write(tx, *ino, inode, *offset, bytes).await?;
                debug_assert_eq!(inode.size, size, "the size is that of the stream");
            }
            Item::Reserve { ino, start, end } => {
                let inode = opened(tx, &mut open, *ino).await?;
                blob::allocate(tx, *ino, inode, *start, *end).await?;
            }
        }
    }
    close(tx, &mut open)
}

/// The inode as it is in the store, or as this transaction has changed it.
async fn opened<'a>(tx: &mut Tx, open: &'a mut Open, ino: Ino) -> Result<&'a mut Inode> {
    if open.as_ref().is_none_or(|(of, _)| *of != ino) {
        close(tx, open)?;
        *open = Some((ino, tx.inode(ino).await?));
    }
    match open {
        Some((_, inode)) => Ok(inode),
        None => Err(crate::error::not_found("there is no such inode")),
    }
}

fn close(tx: &mut Tx, open: &mut Open) -> Result<()> {
    match open.take() {
        Some((ino, inode)) => tx.put_inode(ino, &inode, &[]),
        None => Ok(()),
    }
}

/// A new file has the form that its size asks for.
pub(super) fn form_of(record: &VolumeRecord, inode: &Inode) -> Form {
    match inode.is_file() && inode.size > record.inline_bytes_max.into() {
        true => Form::Mapped,
        false => Form::Inline,
    }
}
