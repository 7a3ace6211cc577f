//! Mending what an inode says of itself.

use super::edit::Edit;
use crate::access::{ACCESS_ACL, DEFAULT_ACL};
use crate::error::Result;
use crate::schema::{Form, Inode, Job};
use crate::types::{FileType, Ino};
use bytes::Bytes;
use kv::Query;

/// The permission bits of the group.
const GROUP: u32 = 0o070;

/// Changes an inode that is there.
pub(super) async fn change(
    edit: &mut Edit<'_>,
    ino: Ino,
    change: impl FnOnce(&mut Inode),
) -> Result<()> {
    if let Some(mut inode) = edit.inode(ino).await? {
        change(&mut inode);
        edit.put_inode(ino, &inode).await?;
    }
    Ok(())
}

/// Makes what an inode says fit together.
pub(super) fn fit(inode: &mut Inode) {
    let link = inode.file_type() == FileType::Symlink;
    if inode.is_dir() {
        inode.nlink = inode.nlink.min(1);
    }
    if !inode.is_file() {
        (inode.form, inode.inline_len) = (Form::Inline, 0);
    }
    if link {
        inode.size = inode.target.len() as u64;
    } else {
        inode.target = Bytes::new();
    }
    if inode.form != Form::Inline {
        inode.inline_len = 0;
    }
    inode.slot = 0;
}

/// Says which attributes there are.
pub(super) async fn lists(edit: &mut Edit<'_>, ino: Ino) -> Result<()> {
    let Some(mut inode) = edit.inode(ino).await? else { return Ok(()) };
    let (access, default) = (edit.keys.xattr(ino, ACCESS_ACL), edit.keys.xattr(ino, DEFAULT_ACL));
    inode.access_acl = edit.get(&access).await?.is_some();
    inode.default_acl = edit.get(&default).await?.is_some();
    let any = Query::new(edit.keys.xattrs(ino)).limit(1);
    inode.xattrs |= !edit.range(&any).await?.is_empty();
    edit.put_inode(ino, &inode).await
}

/// Removes a damaged attribute. Without its access list an inode must not be open to more than with it:
/// the group's bits were the list's mask, so they go too.
pub(super) async fn attribute(edit: &mut Edit<'_>, ino: Ino, name: &[u8]) -> Result<()> {
    let key = edit.keys.xattr(ino, name);
    if edit.get(&key).await?.is_none() {
        return Ok(());
    }
    edit.delete(&key).await?;
    if name == ACCESS_ACL {
        change(edit, ino, |inode| inode.mode &= !GROUP).await?;
    }
    lists(edit, ino).await
}

/// Puts back the job that removes what a truncation cut off. Where that would remove what the file has,
/// there is nothing to remove.
pub(super) async fn trim(edit: &mut Edit<'_>, ino: Ino) -> Result<()> {
    let Some(mut inode) = edit.inode(ino).await? else { return Ok(()) };
    if inode.trim == 0 {
        return Ok(());
    }
    let chunk_bytes = u64::from(edit.volume.record().chunk_bytes);
    if inode.trim_from.saturating_mul(chunk_bytes) < inode.size || inode.form != Form::Mapped {
        (inode.trim, inode.trim_from) = (0, 0);
        return edit.put_inode(ino, &inode).await;
    }
    let key = edit.keys.job(inode.trim);
    let found = edit.get(&key).await?.and_then(|record| Job::decode(&key, &record));
    let job = Job::Trim { ino, next: inode.trim_from };
    match found {
        None => edit.put(&key, job.encode(&key)).await,
        Some(Job::Trim { ino: of, next }) if of == ino => match next >= inode.trim_from {
            true => Ok(()),
            false => edit.put(&key, job.encode(&key)).await,
        },
        Some(_) => {
            let key = loop {
                inode.trim = (edit.volume.world.random.next_u64() >> 1).max(1);
                let key = edit.keys.job(inode.trim);
                if edit.get(&key).await?.is_none() {
                    break key;
                }
            };
            edit.put(&key, job.encode(&key)).await?;
            edit.put_inode(ino, &inode).await
        }
    }
}
