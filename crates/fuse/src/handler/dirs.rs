//! Requests about open directories.

use super::{Handler, caller, gone};
use crate::reply::{Errno, Listed, Reply};
use crate::request::Header;
use crate::wire::encode::Listing;
use crate::wire::numbers::fopen;
use fs::DirEntry;

impl Handler {
    pub(crate) async fn opendir(&self, header: Header) -> Result<Reply, Errno> {
        let handle = self.session.opendir(&caller(header, 0), header.ino).await.map_err(gone)?;
        let private = self.policy.private;
        let flags = if private { fopen::CACHE_DIR | fopen::KEEP_CACHE } else { 0 };
        Ok(Reply::Opened { handle: handle.0, flags, backing: 0 })
    }

    pub(crate) async fn readdir(
        &self,
        header: Header,
        handle: u64,
        cookie: u64,
        len: u32,
    ) -> Result<Reply, Errno> {
        let handle = self.dir(header, handle).await?;
        let limit = Listing::entries(len, false);
        let mut listing = Listing::new(len);
        let each =
            |entry: DirEntry<&[u8]>| listing.push(&Listed { entry, attr: None }, self.policy.ttl);
        self.session.readdir_each(handle, cookie, limit, each).await?;
        Ok(Reply::Listing(listing.into_bytes()))
    }

    pub(crate) async fn readdirplus(
        &self,
        header: Header,
        handle: u64,
        cookie: u64,
        len: u32,
    ) -> Result<Reply, Errno> {
        let handle = self.dir(header, handle).await?;
        let limit = Listing::entries(len, true);
        let entries = self.session.readdirplus(handle, cookie, limit).await?;
        let mut listing = Listing::new(len);
        for (entry, attr) in &entries {
            if !listing.push(&Listed { entry: entry.by_ref(), attr: Some(attr) }, self.policy.ttl) {
                break;
            }
            self.fresh.told(attr);
        }
        Ok(Reply::Listing(listing.into_bytes()))
    }

    pub(crate) async fn fsyncdir(&self, header: Header, handle: u64) -> Result<Reply, Errno> {
        let handle = self.dir(header, handle).await?;
        self.session.fsyncdir(handle).await?;
        Ok(Reply::Done)
    }

    pub(crate) async fn releasedir(&self, handle: u64) -> Result<Reply, Errno> {
        if let Some(handle) = self.dir_to_close(handle) {
            self.session.releasedir(handle).await?;
        }
        Ok(Reply::Done)
    }
}
