//! Inodes with what is kept beside them, and garbage.

use super::crew::{Part, RANDOM_FROM};
use super::finding::{
    ACL_FLAG, BLOB_DROPPED, BLOB_SHARED, DAMAGED_RECORD, GARBAGE_WITH_LINKS, GARBAGE_WITHOUT_INODE,
    HELD_MISSING, INLINE_SIZE, INODE_FIELDS, INODE_NUMBER, INODE_WITHOUT_GARBAGE, LEASE_LEFTOVER,
    LOCK_LEFTOVER, ORPHAN_PART, ROOT_DIRECTORY, SIDE, TRIM, VOLUME_RECORD, XATTR_FLAG,
};
use super::scan::{Cursor, Scan};
use super::table::{Row, Slot, flag};
use crate::access::{ACCESS_ACL, DEFAULT_ACL};
use crate::acl::Acl;
use crate::error::Result;
use crate::op::xattr;
use crate::repair::Fix;
use crate::schema::{Form, Inode, Job, Parsed, decode_locks};
use crate::tx::inline_space;
use crate::types::{FileType, Ino, ROOT};
use crate::volume::FIRST_INODE;

/// The next number to give out is never so high: nobody makes so many inodes.
pub(crate) const NUMBERS_END: u64 = 1 << 62;

/// An inode, while what is beside it is read.
struct Current {
    ino: Ino,
    /// Missing when only something beside it is there, or when it is damaged.
    inode: Option<Inode>,
    damaged: bool,
    xattrs: bool,
    access_acl: bool,
    default_acl: bool,
    changed: bool,
    subdirs: Option<u64>,
    blocks: Option<u64>,
}

impl Current {
    fn new(ino: Ino) -> Self {
        Self {
            ino,
            inode: None,
            damaged: false,
            xattrs: false,
            access_acl: false,
            default_acl: false,
            changed: false,
            subdirs: None,
            blocks: None,
        }
    }

    fn is_missing(&self) -> bool {
        self.inode.is_none() && !self.damaged
    }
}

/// Reads the inodes of a part into rows.
pub(super) async fn inodes(scan: &mut Scan<'_>, part: Part) -> Result<()> {
    let mut cursor = Cursor::new(part.inodes(&scan.keys));
    let mut garbage = Cursor::new(part.garbage(&scan.keys));
    let mut at: Option<Current> = None;
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        let quick = match scan.keys.inode_key(key) {
            Some((ino, None)) => Some(Parsed::Inode { ino }),
            _ => None,
        };
        let Some(parsed) = quick.or_else(|| scan.keys.parse(key)) else {
            scan.unknown(key);
            cursor.advance();
            continue;
        };
        let Some(ino) = parsed.inode() else {
            cursor.advance();
            continue;
        };
        if at.as_ref().is_some_and(|current| current.ino != ino)
            && let Some(current) = at.take()
        {
            finish(scan, &mut garbage, current).await?;
        }
        let current = at.get_or_insert_with(|| Current::new(ino));
        if let Parsed::Inode { .. } = parsed {
            current.inode = Inode::decode(key, ino, value);
            if current.inode.is_none() {
                current.damaged = true;
                // Mended when it is known what names it, and what it holds.
                scan.damaged(key);
            }
        } else {
            beside(scan, current, parsed, key, value).await?;
        }
        cursor.advance();
    }
    if let Some(current) = at {
        finish(scan, &mut garbage, current).await?;
    }
    garbage_before(scan, &mut garbage, None, false).await?;
    Ok(())
}

/// What only shows when all inodes are known.
pub(super) fn all(scan: &mut Scan<'_>) -> Result<()> {
    let (rows, moved) =
        (std::mem::take(&mut scan.found.rows), std::mem::take(&mut scan.found.moved));
    let ground = scan.ground_mut()?;
    (ground.table.rows, ground.table.moved) = (rows, moved);
    ground.table.moved.sort_unstable();
    if scan.ground.table.find(ROOT).is_none() {
        let key = scan.keys.inode(ROOT);
        scan.found(ROOT_DIRECTORY, &key, "the root is missing");
        scan.mend(ROOT_DIRECTORY, |_| Fix::Directory { ino: ROOT, parent: Some(ROOT) });
    }
    let next = scan.ground.next_inode;
    if (NUMBERS_END..u64::MAX).contains(&next) {
        let key = scan.keys.next_inode();
        scan.found(INODE_NUMBER, &key, format!("is {next}, and nobody can have come so far"));
    }
    let dropped = scan.ground.dropped.iter().map(|(blob, _)| *blob);
    let dropped = dropped.filter(|blob| *blob < RANDOM_FROM).max().unwrap_or(0);
    let highest = scan.found.highest.max(dropped);
    if next >= NUMBERS_END || highest >= next {
        let kind = if next == u64::MAX { VOLUME_RECORD } else { INODE_NUMBER };
        scan.mend(kind, |_| Fix::NextInode { above: highest });
    }
    blobs(scan);
    Ok(())
}

async fn beside(
    scan: &mut Scan<'_>,
    current: &mut Current,
    parsed: Parsed,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    if let Parsed::Conflict { .. } = parsed {
        scan.unknown(key);
        return Ok(());
    }
    if current.is_missing() {
        scan.useless(ORPHAN_PART, key, "the inode is not there");
    }
    match parsed {
        Parsed::Xattr { name, .. } => {
            current.xattrs = true;
            let list = name == ACCESS_ACL || name == DEFAULT_ACL;
            current.access_acl |= name == ACCESS_ACL;
            current.default_acl |= name == DEFAULT_ACL;
            let sound = xattr::decode(key, value)
                .is_some_and(|value| !list || matches!(Acl::parse(&value), Ok(Some(_))));
            if !sound {
                scan.damaged(key);
                let ino = current.ino;
                scan.mend(DAMAGED_RECORD, |_| Fix::Attribute { ino, name });
            }
        }
        Parsed::Changed { .. } => {
            scan.plain_or_goes(key, value);
            current.changed = true;
        }
        Parsed::Subdirs { .. } => current.subdirs = scan.plain_or_goes(key, value),
        Parsed::Blocks { .. } => current.blocks = scan.plain_or_goes(key, value),
        Parsed::Lease { ino, session } => {
            scan.plain_or_goes(key, value);
            holds(scan, LEASE_LEFTOVER, key, ino, session).await?;
        }
        Parsed::Lock { ino, session, .. } => {
            if decode_locks(key, value).is_none_or(|locks| locks.is_empty()) {
                scan.damaged_and_goes(key);
            }
            holds(scan, LOCK_LEFTOVER, key, ino, session).await?;
        }
        _ => {}
    }
    Ok(())
}

/// A lease or a lock: its session is known, and lists it.
async fn holds(
    scan: &mut Scan<'_>,
    leftover: &'static str,
    key: &[u8],
    ino: Ino,
    session: u64,
) -> Result<()> {
    if !scan.ground.is_known(session) {
        scan.useless(leftover, key, "the session is gone, and no job reaps it");
    } else if scan.get(&scan.keys.held(session, ino)).await?.is_none() {
        // A repair meets the dead only.
        scan.useless(HELD_MISSING, key, "is not on the list of what the session holds");
    }
    Ok(())
}

/// Notes garbage before an inode, and whether that one is garbage; `nameless` where it says so itself.
async fn garbage_before(
    scan: &mut Scan<'_>,
    garbage: &mut Cursor,
    ino: Option<Ino>,
    nameless: bool,
) -> Result<bool> {
    while garbage.fill(scan).await? {
        let Some((key, value)) = garbage.head() else { break };
        match scan.keys.parse(key) {
            Some(Parsed::Garbage { ino: here }) => {
                if ino.is_some_and(|ino| here > ino) {
                    return Ok(false);
                }
                if value != b"l" && value != b"n" {
                    scan.damaged(key);
                    if nameless && ino == Some(here) {
                        scan.mend(DAMAGED_RECORD, |_| Fix::Garbage(here));
                    }
                }
                if ino == Some(here) {
                    garbage.advance();
                    return Ok(true);
                }
                scan.useless(GARBAGE_WITHOUT_INODE, key, "the inode is not there");
            }
            _ => scan.unknown(key),
        }
        garbage.advance();
    }
    Ok(false)
}

/// Looks at an inode of which everything was read, and adds its row.
async fn finish(scan: &mut Scan<'_>, garbage: &mut Cursor, current: Current) -> Result<()> {
    let ino = current.ino;
    if current.is_missing() {
        return Ok(());
    }
    let nameless = current.inode.as_ref().is_some_and(|inode| inode.nlink == 0);
    let is_garbage = garbage_before(scan, garbage, Some(ino), nameless).await?;
    let Some(inode) = &current.inode else {
        let mut row = Row::damaged(ino);
        row.flags |= if is_garbage { flag::GARBAGE } else { 0 };
        scan.found.rows.push(Slot::from(row));
        scan.found.bytes_unsure = true;
        note_number(scan, ino);
        return Ok(());
    };
    let key = scan.keys.inode(ino);
    let key = &key[..];
    match (inode.nlink, is_garbage) {
        // Mended when its names are counted: there may be some.
        (0, false) => scan.found(INODE_WITHOUT_GARBAGE, key, "has no names"),
        (1.., true) => {
            scan.found(GARBAGE_WITH_LINKS, key, format!("has {} names", inode.nlink));
            scan.mend(GARBAGE_WITH_LINKS, |keys| Fix::Remove(keys.garbage(ino)));
        }
        _ => {}
    }
    attributes(scan, key, inode, &current);
    fields(scan, ino, key, inode);
    if ino == ROOT && !(inode.is_dir() && inode.parent == ROOT && inode.nlink == 1) {
        scan.found(ROOT_DIRECTORY, key, "is no directory that is in itself");
        scan.mend(ROOT_DIRECTORY, |_| Fix::Directory { ino: ROOT, parent: Some(ROOT) });
    }
    note_number(scan, ino);
    note_number(scan, inode.blob);
    for number in [ino, inode.blob] {
        if (FIRST_INODE..RANDOM_FROM).contains(&number) && number >= scan.ground.next_inode {
            let next = scan.ground.next_inode;
            let what = format!("uses {number}, and the next number to give out is {next}");
            scan.found(INODE_NUMBER, key, what);
            break;
        }
    }
    if inode.trim != 0 {
        let job = scan.job(inode.trim).await?;
        let right = matches!(job, Some(Job::Trim { ino: of, next })
            if of == ino && next >= inode.trim_from);
        if !right {
            scan.found(TRIM, key, format!("waits for job {}, which is no such one", inode.trim));
            scan.mend(TRIM, |_| Fix::Trim(ino));
        }
    }
    add_row(scan, ino, inode, &current, is_garbage);
    Ok(())
}

/// Remembers the highest number that was given out in sequence.
pub(super) fn note_number(scan: &mut Scan<'_>, number: u64) {
    if number < RANDOM_FROM {
        scan.found.highest = scan.found.highest.max(number);
    }
}

/// Flags and numbers beside the record.
fn attributes(scan: &mut Scan<'_>, key: &[u8], inode: &Inode, current: &Current) {
    let ino = current.ino;
    if current.xattrs && !inode.xattrs {
        scan.found(XATTR_FLAG, key, "has extended attributes, and says that it has none");
        scan.mend(XATTR_FLAG, |_| Fix::Lists(ino));
    }
    for (name, says, has) in [
        ("an access list", inode.access_acl, current.access_acl),
        ("a default list", inode.default_acl, current.default_acl),
    ] {
        if says != has {
            let word = if says { "says that it has" } else { "says that it does not have" };
            scan.found(ACL_FLAG, key, format!("{word} {name}"));
            scan.mend(ACL_FLAG, |_| Fix::Lists(ino));
        }
    }
    let mapped = inode.is_file() && inode.form == Form::Mapped;
    let sided = inode.is_dir() || mapped;
    let keys = scan.keys;
    for (what, there, allowed, at) in [
        ("when its contents changed", current.changed, sided, keys.changed(ino)),
        ("a count of directories", current.subdirs.is_some(), inode.is_dir(), keys.subdirs(ino)),
        ("a count of bytes", current.blocks.is_some(), mapped, keys.blocks(ino)),
    ] {
        if there && !allowed {
            scan.found(SIDE, key, format!("has {what} beside it"));
            scan.mend(SIDE, |_| Fix::Remove(at));
        }
    }
}

/// What the record says, by itself.
fn fields(scan: &mut Scan<'_>, ino: Ino, key: &[u8], inode: &Inode) {
    let link = inode.file_type() == FileType::Symlink;
    let wrong = if inode.is_dir() && inode.nlink > 1 {
        Some("is a directory with several names")
    } else if !inode.is_file() && (inode.form != Form::Inline || inode.inline_len > 0) {
        Some("is no file, and has bytes")
    } else if link && (inode.target.is_empty() || inode.size != inode.target.len() as u64) {
        Some("is a symbolic link without a target, or with another size")
    } else if !link && !inode.target.is_empty() {
        Some("has a target, and is no symbolic link")
    } else if inode.slot != 0 {
        Some("has its bytes in a home that there is not")
    } else if inode.form != Form::Inline && inode.inline_len > 0 {
        Some("has inline bytes, and others")
    } else {
        None
    };
    if let Some(wrong) = wrong {
        scan.found(INODE_FIELDS, key, wrong);
        if !is_pointless(inode) {
            scan.mend(INODE_FIELDS, |_| Fix::Fields(ino));
        }
    }
    let max = scan.volume().record().inline_bytes_max;
    if inode.inline_len > max || u64::from(inode.inline_len) > inode.size {
        let (len, size) = (inode.inline_len, inode.size);
        let what = format!("has {len} inline bytes, of a size of {size} and at most {max}");
        scan.found(INLINE_SIZE, key, what);
        scan.mend(INLINE_SIZE, |_| Fix::Inline(ino));
    }
}

/// A symbolic link that leads nowhere: there is nothing to keep of it.
fn is_pointless(inode: &Inode) -> bool {
    inode.file_type() == FileType::Symlink && inode.target.is_empty()
}

fn add_row(scan: &mut Scan<'_>, ino: Ino, inode: &Inode, current: &Current, is_garbage: bool) {
    let mut row = Row::new(ino, inode.file_type());
    if scan.mends() && is_pointless(inode) {
        row = Row::damaged(ino);
    }
    row.flags |= if is_garbage { flag::GARBAGE } else { 0 };
    row.left = inode.nlink;
    if inode.nlink == 0 {
        row.flags |= flag::NAMELESS;
    }
    scan.found.report.bytes += inline_space(inode.inline_len) as u64 + inode.taken;
    if inode.is_dir() {
        row.value = inode.parent;
        row.left = u32::try_from(current.subdirs.unwrap_or(0)).unwrap_or(u32::MAX);
    } else if inode.is_file() {
        if inode.blob != ino {
            row.flags |= flag::MOVED;
            scan.found.moved.push((inode.blob, ino));
        }
        if inode.form == Form::Mapped {
            row.flags |= flag::MAPPED;
            row.value = current.blocks.unwrap_or(0);
        } else if inode.form == Form::Local {
            row.flags |= flag::LOCAL;
        } else if inode.inline_len > 0 {
            row.flags |= flag::INLINE;
            row.value = inode.inline_len.into();
        }
    }
    scan.found.rows.push(Slot::from(row));
}

/// Each blob has one inode, and none that a job removes.
fn blobs(scan: &mut Scan<'_>) {
    let ground = std::sync::Arc::clone(&scan.ground);
    let moved = &ground.table.moved;
    for (at, (blob, ino)) in moved.iter().enumerate() {
        let own = ground.table.find(*blob).and_then(|at| ground.table.row(at));
        let own =
            own.is_some_and(|row| !row.has(flag::MOVED) && row.file_type() == Some(FileType::File));
        let before = at.checked_sub(1).and_then(|at| moved.get(at));
        if own || before.is_some_and(|(other, _)| other == blob) {
            let key = scan.keys.inode(*ino);
            scan.found(BLOB_SHARED, &key, format!("another inode has blob {blob} too"));
            scan.mend(BLOB_SHARED, |_| Fix::OwnBlob(*ino));
        }
    }
    for (blob, job) in &ground.dropped {
        let owner = ground.table.owner(*blob).and_then(|at| ground.table.row(at));
        if let Some(row) = owner.filter(|row| row.has(flag::MAPPED | flag::INLINE)) {
            let key = scan.keys.inode(row.ino);
            scan.found(BLOB_DROPPED, &key, format!("a job is to remove its blob {blob}"));
            scan.mend(BLOB_DROPPED, |keys| Fix::Remove(keys.job(*job)));
        }
    }
}
