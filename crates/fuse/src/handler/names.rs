//! Requests that look up, make, move and remove names.

use super::{Handler, caller, gone};
use crate::reply::{Errno, Reply};
use crate::request::Header;
use fs::{Attr, Kind, RenameFlags};

/// The flags of renameat2(2).
const NO_REPLACE: u32 = 1;
const EXCHANGE: u32 = 2;
const WHITEOUT: u32 = 4;

impl Handler {
    fn entry(&self, attr: Attr) -> Reply {
        self.fresh.told(&attr);
        Reply::Entry { attr, ttl: self.policy.ttl }
    }

    pub(crate) async fn lookup(&self, header: Header, name: &[u8]) -> Result<Reply, Errno> {
        let caller = caller(header, 0);
        let found = match self.session.lookup_quickly(&caller, header.ino, name) {
            Some(found) => found,
            None => self.session.lookup(&caller, header.ino, name).await,
        };
        match found {
            Ok(attr) => Ok(self.entry(attr)),
            Err(error) if error.kind() == Kind::NotFound && !self.policy.negative_ttl.is_zero() => {
                Ok(Reply::NoEntry { ttl: self.policy.negative_ttl })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn readlink(&self, header: Header) -> Result<Reply, Errno> {
        Ok(Reply::Bytes(self.session.readlink(header.ino).await.map_err(gone)?))
    }

    pub(crate) async fn symlink(
        &self,
        header: Header,
        name: &[u8],
        target: &[u8],
    ) -> Result<Reply, Errno> {
        let caller = caller(header, 0);
        let session = self.once(header);
        let made = match session.symlink_quickly(&caller, header.ino, name, target)? {
            Some(made) => made,
            None => session.symlink(&caller, header.ino, name, target).await?,
        };
        Ok(self.entry(made))
    }

    pub(crate) async fn mknod(
        &self,
        header: Header,
        name: &[u8],
        mode: u32,
        rdev: u32,
        umask: u32,
    ) -> Result<Reply, Errno> {
        let caller = caller(header, umask);
        Ok(self.entry(self.once(header).mknod(&caller, header.ino, name, mode, rdev).await?))
    }

    pub(crate) async fn mkdir(
        &self,
        header: Header,
        name: &[u8],
        mode: u32,
        umask: u32,
    ) -> Result<Reply, Errno> {
        let caller = caller(header, umask);
        let session = self.once(header);
        let made = match session.mkdir_quickly(&caller, header.ino, name, mode)? {
            Some(made) => made,
            None => session.mkdir(&caller, header.ino, name, mode).await?,
        };
        Ok(self.entry(made))
    }

    pub(crate) async fn unlink(&self, header: Header, name: &[u8]) -> Result<Reply, Errno> {
        let (session, caller) = (self.once(header), caller(header, 0));
        if session.unlink_quickly(&caller, header.ino, name)?.is_none() {
            session.unlink(&caller, header.ino, name).await?;
        }
        Ok(Reply::Done)
    }

    pub(crate) async fn rmdir(&self, header: Header, name: &[u8]) -> Result<Reply, Errno> {
        let (session, caller) = (self.once(header), caller(header, 0));
        if session.rmdir_quickly(&caller, header.ino, name)?.is_none() {
            session.rmdir(&caller, header.ino, name).await?;
        }
        Ok(Reply::Done)
    }

    pub(crate) async fn link(&self, header: Header, ino: u64, name: &[u8]) -> Result<Reply, Errno> {
        let (session, caller) = (self.once(header), caller(header, 0));
        let linked = match session.link_quickly(&caller, ino, header.ino, name)? {
            Some(linked) => linked,
            None => session.link(&caller, ino, header.ino, name).await?,
        };
        Ok(self.entry(linked))
    }

    pub(crate) async fn rename(
        &self,
        header: Header,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        flags: u32,
    ) -> Result<Reply, Errno> {
        if flags & !(NO_REPLACE | EXCHANGE | WHITEOUT) != 0 {
            return Err(Errno::EINVAL);
        }
        let flags = RenameFlags {
            no_replace: flags & NO_REPLACE != 0,
            exchange: flags & EXCHANGE != 0,
            whiteout: flags & WHITEOUT != 0,
        };
        let caller = caller(header, 0);
        if self.session.is_known_missing(new_parent, new_name) {
            let session = self.once(header);
            let done =
                session.rename_quickly(&caller, header.ino, name, new_parent, new_name, flags)?;
            if done.is_some() {
                return Ok(Reply::Done);
            }
        }
        let held = match flags.no_replace || flags.exchange {
            true => None,
            // If it was done before, then the name has the new file already.
            false if header.again => None,
            false => self.hold(header, new_parent, new_name).await,
        };
        let (from, to) = ((header.ino, name), (new_parent, new_name));
        let done = self.once(header).rename(&caller, from.0, from.1, to.0, to.1, flags).await;
        self.keep(held, done.is_ok()).await;
        done?;
        Ok(Reply::Done)
    }
}
