//! What is known of one inode: its attributes, where its bytes are, and who uses it.

use super::stored;
use crate::error::Result;
use crate::schema::{Form, Inode, Parsed, SessionRecord, decode_locks};
use crate::session::Session;
use crate::tx::Tx;
use crate::types::{Attr, FileType, Ino};
use bytes::Bytes;
use kv::{Query, Read};

/// Where the bytes of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataForm {
    /// It has none, being no file.
    None,
    /// In one record beside the inode.
    Inline,
    /// In chunks of blocks, by a map.
    Mapped,
    /// In a file of the local home.
    Local,
}

/// A stretch of a file that takes space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Its first byte.
    pub start: u64,
    /// The first byte behind it. It can lie behind the end of the file.
    pub end: u64,
    /// Bytes that are stored for it: after compression, without parity; 0 for space that is only taken.
    pub stored_bytes: u64,
}

/// Who has a file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseInfo {
    /// The session.
    pub session: u64,
    /// The machine that it said it is on; empty when its record is gone.
    pub host: String,
    /// Its process there.
    pub pid: u32,
}

/// What is known of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// What callers are told.
    pub attr: Attr,
    /// Where its bytes are.
    pub form: DataForm,
    /// The blob with its bytes, of a file.
    pub blob: Option<u64>,
    /// The home of its bytes.
    pub home: &'static str,
    /// Chunks that have something.
    pub chunks: u64,
    /// Blocks that take space.
    pub blocks: u64,
    /// Bytes that are stored for it: after compression, with parity.
    pub stored_bytes: u64,
    /// The stretches that take space, in order, as many as [`Info::EXTENTS_MAX`].
    pub extents: Vec<Extent>,
    /// Whether there are more of them.
    pub extents_cut: bool,
    /// Extended attributes: names, and bytes of their values.
    pub xattrs: Vec<(Bytes, u64)>,
    /// The target of a symbolic link.
    pub target: Option<Bytes>,
    /// Sessions that have it open, as far as the store knows: on a private store it does not.
    pub leases: Vec<LeaseInfo>,
    /// Ranges that are locked in the store.
    pub locks: u64,
}

impl Info {
    /// The most stretches that are told of.
    pub const EXTENTS_MAX: usize = 1024;
}

impl Session {
    /// What is known of an inode, at one instant. This reads all that is stored of its bytes.
    pub async fn info(&self, ino: Ino) -> Result<Info> {
        self.view(|mut tx| async move {
            let inode = tx.inode_seen(ino).await?;
            let is_file = inode.is_file();
            let lent = tx.session.local.as_ref().and_then(|local| local.lent_blob(ino));
            let mut inode = inode;
            if let Some(blob) = lent {
                // Not what the record says, but what will be.
                (inode.form, inode.blob, inode.inline_len) = (Form::Local, blob, 0);
            }
            let mut info = Info {
                attr: tx.attr(ino, &inode).await?,
                form: match inode.form {
                    _ if !is_file => DataForm::None,
                    Form::Inline => DataForm::Inline,
                    Form::Mapped => DataForm::Mapped,
                    Form::Local => DataForm::Local,
                },
                blob: is_file.then_some(inode.blob),
                home: if inode.form == Form::Local { "local" } else { "store" },
                chunks: 0,
                blocks: 0,
                stored_bytes: 0,
                extents: Vec::new(),
                extents_cut: false,
                xattrs: xattrs(&mut tx, ino, &inode).await?,
                target: (inode.file_type() == FileType::Symlink).then(|| inode.target.clone()),
                leases: leases(&mut tx, ino).await?,
                locks: locks(&mut tx, ino).await?,
            };
            if is_file {
                stored::measure(&mut tx, &inode, &mut info).await?;
            }
            Ok((tx, info))
        })
        .await
    }
}

async fn xattrs(tx: &mut Tx, ino: Ino, inode: &Inode) -> Result<Vec<(Bytes, u64)>> {
    let mut found = Vec::new();
    let mut next = inode.xattrs.then(|| Query::new(tx.keys.xattrs(ino)));
    while let Some(query) = next {
        let page = tx.range(&query, Read::Snapshot).await?;
        for (key, value) in page.iter() {
            let value = crate::op::xattr::decode(key, value);
            let (Some(Parsed::Xattr { name, .. }), Some(value)) = (tx.keys.parse(key), value)
            else {
                return Err(tx.damaged(key, "is damaged"));
            };
            found.push((Bytes::from(name), value.len() as u64));
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    Ok(found)
}

async fn leases(tx: &mut Tx, ino: Ino) -> Result<Vec<LeaseInfo>> {
    let mut found = Vec::new();
    let mut next = Some(Query::new(tx.keys.leases(ino)));
    while let Some(query) = next {
        let page = tx.range(&query, Read::Snapshot).await?;
        for (key, _) in page.iter() {
            let Some(Parsed::Lease { session, .. }) = tx.keys.parse(key) else {
                return Err(tx.damaged(key, "is no key of a lease"));
            };
            let session_key = tx.keys.session(session);
            let record = tx.get(&session_key, Read::Snapshot).await?;
            let record = record.and_then(|record| SessionRecord::decode(&session_key, &record));
            let (host, pid) =
                record.map_or_else(Default::default, |record| (record.host, record.pid));
            found.push(LeaseInfo { session, host, pid });
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    Ok(found)
}

async fn locks(tx: &mut Tx, ino: Ino) -> Result<u64> {
    let mut count = 0;
    let mut next = Some(Query::new(tx.keys.locks(ino)));
    while let Some(query) = next {
        let page = tx.range(&query, Read::Snapshot).await?;
        for (key, value) in page.iter() {
            match decode_locks(key, value) {
                Some(locks) => count += locks.len() as u64,
                None => return Err(tx.damaged(key, "is damaged")),
            }
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    Ok(count)
}
