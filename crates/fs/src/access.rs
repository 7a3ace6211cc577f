//! Who may do what.

use crate::acl::{Acl, mode_allows};
use crate::error::{Result, access_denied, not_permitted};
use crate::schema::Inode;
use crate::tx::Tx;
use crate::types::{Caller, Ino, mode};
use kv::Read;

/// Wanted of an inode, as in access(2).
pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 2;
pub(crate) const EXEC: u32 = 1;

/// The extended attributes that hold access control lists.
pub(crate) const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
pub(crate) const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// Refuses what the mode or the access control list of an inode does not allow.
pub(crate) async fn check(
    tx: &mut Tx,
    caller: &Caller,
    ino: Ino,
    inode: &Inode,
    want: u32,
) -> Result<()> {
    if !caller.checked_here || allows(tx, caller, ino, inode, want).await? {
        return Ok(());
    }
    Err(access_denied("the permissions of the inode do not allow this"))
}

async fn allows(tx: &mut Tx, caller: &Caller, ino: Ino, inode: &Inode, want: u32) -> Result<bool> {
    if caller.is_privileged() {
        // Everything but running what nobody may run.
        let runs = want & EXEC != 0 && !inode.is_dir();
        return Ok(!runs || inode.mode & 0o111 != 0);
    }
    // With all group bits off the mask is empty, and the mode alone says the same.
    if inode.access_acl
        && inode.mode & 0o070 != 0
        && caller.uid != inode.uid
        && let Some(acl) = load(tx, ino, ACCESS_ACL).await?
    {
        return Ok(acl.allows(inode.uid, inode.gid, caller, want));
    }
    Ok(mode_allows(inode.mode, inode.uid, inode.gid, caller, want))
}

/// An inode's access control list.
pub(crate) async fn load(tx: &mut Tx, ino: Ino, name: &[u8]) -> Result<Option<Acl>> {
    let key = tx.keys.xattr(ino, name);
    let Some(value) = crate::op::xattr::load(tx, &key, Read::Serializable).await? else {
        return Ok(None);
    };
    Acl::parse(&value).map_err(|_| tx.damaged(&key, "is no access control list"))
}

/// Refuses who is neither the owner nor privileged.
pub(crate) fn check_owner(caller: &Caller, inode: &Inode) -> Result<()> {
    if !caller.checked_here || caller.is_privileged() || caller.uid == inode.uid {
        return Ok(());
    }
    Err(not_permitted("only the owner may do this"))
}

/// Refuses what only the superuser may do.
pub(crate) fn check_privileged(caller: &Caller) -> Result<()> {
    if !caller.checked_here || caller.is_privileged() {
        return Ok(());
    }
    Err(not_permitted("only the superuser may do this"))
}

/// Refuses to take a name away from a directory whose sticky bit protects it.
pub(crate) fn check_sticky(caller: &Caller, parent: &Inode, child: &Inode) -> Result<()> {
    let free = !caller.checked_here
        || caller.is_privileged()
        || parent.mode & mode::STICKY == 0
        || caller.uid == child.uid
        || caller.uid == parent.uid;
    if free {
        return Ok(());
    }
    Err(not_permitted("the directory is sticky, and this belongs to somebody else"))
}

/// Takes the set-user bit, and the set-group bit where it means that.
pub(crate) fn take_bits(inode: &mut Inode) {
    inode.mode &= !mode::SETUID;
    if inode.mode & 0o010 != 0 {
        inode.mode &= !mode::SETGID;
    }
}

/// Whether a file has bits that writing to it takes.
pub(crate) fn has_bits(bits: u32) -> bool {
    bits & mode::SETUID != 0 || bits & (mode::SETGID | 0o010) == mode::SETGID | 0o010
}

/// The same of some writer: one who is not in the file's group takes the set-group bit also where nobody may run
/// it.
pub(crate) fn may_lose_bits(bits: u32) -> bool {
    bits & (mode::SETUID | mode::SETGID) != 0
}

/// Takes the set-user bit, and the set-group bit where the group may run it or is not the caller's,
/// from a file that an unprivileged caller changes. True when that changed something.
pub(crate) fn drop_privileges(inode: &mut Inode, caller: &Caller) -> bool {
    let before = inode.mode;
    if inode.is_file() && !caller.is_privileged() {
        inode.mode &= !mode::SETUID;
        if inode.mode & 0o010 != 0 || !caller.is_in_group(inode.gid) {
            inode.mode &= !mode::SETGID;
        }
    }
    before != inode.mode
}
