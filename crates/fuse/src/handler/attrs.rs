//! Requests about what is known of an inode: attributes, extended attributes, the volume.

use super::{Handler, caller, gone, writer};
use crate::reply::{Errno, Reply};
use crate::request::{Header, Setattr};
use bytes::Bytes;
use fs::{SetAttr, SetTime, StatFs, Time, XattrMode};

/// The flags of setxattr(2).
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

fn time((secs, nanos): (i64, u32)) -> Time {
    Time { secs, nanos }
}

impl Handler {
    pub(crate) async fn getattr(&self, header: Header) -> Result<Reply, Errno> {
        let attr = self.session.getattr(header.ino).await.map_err(gone)?;
        Ok(Reply::Attr { attr, ttl: self.policy.ttl.attr })
    }

    pub(crate) async fn statx(&self, header: Header) -> Result<Reply, Errno> {
        let attr = self.session.getattr(header.ino).await.map_err(gone)?;
        Ok(Reply::Statx { attr, ttl: self.policy.ttl.attr })
    }

    pub(crate) async fn setattr(&self, header: Header, what: Setattr) -> Result<Reply, Errno> {
        let to_set = |wanted: Option<Option<(i64, u32)>>| {
            wanted.map(|at| at.map_or(SetTime::Now, |at| SetTime::To(time(at))))
        };
        let set = SetAttr {
            mode: what.mode,
            uid: what.uid,
            gid: what.gid,
            size: what.size,
            atime: to_set(what.atime),
            mtime: to_set(what.mtime),
        };
        let caller = match set.size {
            Some(_) => writer(header, what.kill),
            None => caller(header, 0),
        };
        if let Some(attr) = self.session.setattr_quickly(&caller, header.ino, &set)? {
            return Ok(Reply::Attr { attr, ttl: self.policy.ttl.attr });
        }
        let handle = match what.handle {
            Some(handle) => Some(self.file(header, handle).await?),
            None => None,
        };
        let set = self.session.setattr(&caller, header.ino, &set, handle);
        let attr = set.await.map_err(gone)?;
        Ok(Reply::Attr { attr, ttl: self.policy.ttl.attr })
    }

    pub(crate) async fn access(&self, header: Header, mask: u32) -> Result<Reply, Errno> {
        let mut caller = caller(header, 0);
        caller.checked_here = true;
        self.session.access(&caller, header.ino, mask).await.map_err(gone)?;
        Ok(Reply::Done)
    }

    pub(crate) async fn statfs(&self) -> Result<Reply, Errno> {
        let mut stat = self.session.statfs().await?;
        if let Some(backing) = &self.backing
            && let Ok(disk) = rustix::fs::statvfs(backing)
        {
            bound(&mut stat, disk.f_bavail.saturating_mul(disk.f_frsize));
        }
        Ok(Reply::Statfs(stat))
    }

    pub(crate) async fn setxattr(
        &self,
        header: Header,
        name: &[u8],
        value: &[u8],
        flags: u32,
        kill_group: bool,
    ) -> Result<Reply, Errno> {
        let how = match flags {
            0 => XattrMode::Any,
            XATTR_CREATE => XattrMode::Create,
            XATTR_REPLACE => XattrMode::Replace,
            _ => return Err(Errno::EINVAL),
        };
        let mut caller = caller(header, 0);
        // Who sets the list is not in the file's group: the core sees the same when it looks.
        caller.checked_here = kill_group;
        self.once(header).setxattr(&caller, header.ino, name, value, how).await.map_err(gone)?;
        Ok(Reply::Done)
    }

    pub(crate) async fn getxattr(
        &self,
        header: Header,
        name: &[u8],
        len: u32,
    ) -> Result<Reply, Errno> {
        let value =
            self.session.getxattr(&caller(header, 0), header.ino, name).await.map_err(gone)?;
        sized(value, len)
    }

    pub(crate) async fn listxattr(&self, header: Header, len: u32) -> Result<Reply, Errno> {
        let names = self.session.listxattr(&caller(header, 0), header.ino).await.map_err(gone)?;
        let mut list = Vec::new();
        for name in names {
            list.extend_from_slice(&name);
            list.push(0);
        }
        sized(list.into(), len)
    }

    pub(crate) async fn removexattr(&self, header: Header, name: &[u8]) -> Result<Reply, Errno> {
        self.once(header).removexattr(&caller(header, 0), header.ino, name).await.map_err(gone)?;
        Ok(Reply::Done)
    }
}

/// There is no more space than the disk has.
fn bound(stat: &mut StatFs, free_bytes: u64) {
    let used = stat.blocks.saturating_sub(stat.blocks_free);
    let free = free_bytes / u64::from(stat.block_bytes).max(1);
    stat.blocks_free = stat.blocks_free.min(free);
    stat.blocks = used.saturating_add(stat.blocks_free);
}

/// The value, or how long it is for who gave no room.
fn sized(value: Bytes, room: u32) -> Result<Reply, Errno> {
    let len = u32::try_from(value.len()).map_err(|_| Errno::ERANGE)?;
    match room {
        0 => Ok(Reply::Len(len)),
        room if len <= room => Ok(Reply::Bytes(value)),
        _ => Err(Errno::ERANGE),
    }
}
