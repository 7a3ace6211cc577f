//! Requests about open files and their bytes.

use super::running::EXEC;
use super::{Handler, caller, gone, writer};
use crate::reply::{Errno, Reply};
use crate::request::{CopyRange, Header, Write};
use crate::wire::numbers::UNIQUE_RESEND;
use crate::wire::numbers::fopen;
use fs::{Fallocate, Handle, Ino, Kind, LockKind, OpenFlags, Seek, Way};
use rustix::fs::OFlags;

/// The modes of fallocate(2).
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;
/// The questions of lseek(2) that the kernel cannot answer itself.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// What open(2) was told.
fn open_flags(flags: u32) -> OpenFlags {
    let flags = OFlags::from_bits_retain(flags);
    let access = flags & OFlags::RWMODE;
    OpenFlags {
        read: access != OFlags::WRONLY,
        write: access == OFlags::WRONLY || access == OFlags::RDWR,
        append: flags.contains(OFlags::APPEND),
        truncate: flags.contains(OFlags::TRUNC),
        exclusive: flags.contains(OFlags::EXCL),
    }
}

impl Handler {
    /// On a private store the kernel's pages stay true after a close, and closing has nothing to
    /// write or to unlock. On a shared one opening a file drops them.
    fn fopen(&self, handle: Handle) -> (u32, u32) {
        match self.session.backing_id(handle) {
            // Its pages are those of the file below.
            Some(id) => (fopen::PASSTHROUGH | fopen::NOFLUSH, id),
            // A copy less, and the kernel does not ask for capabilities before the first write.
            None if self.session.is_direct(handle) => (fopen::DIRECT_IO | fopen::NOFLUSH, 0),
            None if self.policy.private => (fopen::KEEP_CACHE | fopen::NOFLUSH, 0),
            None => (0, 0),
        }
    }

    /// Says how the kernel is to use a file that was opened for a request; noted, where another process may follow.
    async fn opened(&self, header: Header, ino: Ino, handle: Handle) -> Result<(u32, u32), Errno> {
        let (flags, backing) = self.fopen(handle);
        if !self.opens.are_noted() {
            return Ok((flags, backing));
        }
        let way = match flags {
            flags if flags & fopen::PASSTHROUGH != 0 => Way::Kernel,
            flags if flags & fopen::DIRECT_IO != 0 => Way::Direct,
            _ => Way::Cached,
        };
        let request = header.unique & !UNIQUE_RESEND;
        if header.again
            && let Some(before) = self.opens.remove_unanswered(request)
            && let Err(error) = self.session.release_before(before).await
        {
            tracing::warn!(%error, ino, "a file that was opened for nobody could not be let go");
        }
        if !self.opens.add(handle.0, ino, request, way) {
            tracing::warn!("too many files are open for another daemon to know them all");
            self.session.release(handle).await?;
            return Err(Errno::EMFILE);
        }
        Ok((flags, backing))
    }

    pub(crate) async fn open(
        &self,
        header: Header,
        flags: u32,
        kill: bool,
    ) -> Result<Reply, Errno> {
        let runs = flags & EXEC != 0;
        let mut flags = open_flags(flags);
        flags.exclusive = false;
        if flags.truncate && !flags.write && !flags.append && self.running.has(header.ino) {
            return Err(Errno::ETXTBSY);
        }
        let caller = writer(header, kill);
        let opened = self.session.open_noting(&caller, header.ino, flags).await;
        let fs::Opened { handle, due, short } = opened.map_err(gone)?;
        if runs {
            self.running.begin(handle.0, header.ino);
        }
        let (mut flags, backing) = self.opened(header, header.ino, handle).await?;
        if due {
            // The first read comes here, and changes the access time.
            flags &= !fopen::KEEP_CACHE;
        } else if short
            && !header.again
            && flags & fopen::KEEP_CACHE != 0
            && self.fresh.take(header.ino)
        {
            self.give(handle).await;
        }
        Ok(Reply::Opened { handle: handle.0, flags, backing })
    }

    /// Gives the kernel the bytes of a short file that was just opened, so that it need not ask.
    async fn give(&self, handle: Handle) {
        match self.session.bytes_ahead(handle).await {
            Ok(Some(ahead)) => self.fresh.give(&ahead),
            Ok(None) => {}
            // Whoever reads is told.
            Err(error) => tracing::debug!(%error, "bytes could not be given ahead"),
        }
    }

    pub(crate) async fn create(
        &self,
        header: Header,
        name: &[u8],
        flags: u32,
        mode: u32,
        umask: u32,
    ) -> Result<Reply, Errno> {
        // The kernel has looked, and there was no such name. If there is one now, then nobody has
        // checked who may open it: the kernel is asked to look again.
        let asked = open_flags(flags);
        let flags = OpenFlags { exclusive: true, truncate: false, ..asked };
        let (session, caller) = (self.once(header), caller(header, umask));
        let made = match session.create_quickly(&caller, header.ino, name, mode, flags)? {
            Some(made) => Ok(made),
            None => session.create(&caller, header.ino, name, mode, flags).await,
        };
        let (attr, handle) = made.map_err(|error| match error.kind() {
            Kind::Exists if !asked.exclusive => Errno::ESTALE,
            _ => error.into(),
        })?;
        let ttl = self.policy.ttl;
        let (flags, backing) = self.opened(header, attr.ino, handle).await?;
        Ok(Reply::Created { attr, ttl, handle: handle.0, flags, backing })
    }

    pub(crate) async fn tmpfile(
        &self,
        header: Header,
        flags: u32,
        mode: u32,
        umask: u32,
    ) -> Result<Reply, Errno> {
        let flags = OpenFlags { truncate: false, ..open_flags(flags) };
        let caller = caller(header, umask);
        let (attr, handle) = self.once(header).tmpfile(&caller, header.ino, mode, flags).await?;
        let ttl = self.policy.ttl;
        let (flags, backing) = self.opened(header, attr.ino, handle).await?;
        Ok(Reply::Created { attr, ttl, handle: handle.0, flags, backing })
    }

    pub(crate) async fn read(
        &self,
        header: Header,
        handle: u64,
        offset: u64,
        len: u32,
    ) -> Result<Reply, Errno> {
        let handle = self.file(header, handle).await?;
        Ok(Reply::Bytes(self.session.read(handle, offset, len as usize).await?))
    }

    /// `bytes` is the transport's buffer, in which `write` says where the data is.
    pub(crate) async fn write(
        &self,
        header: Header,
        write: &Write,
        bytes: &[u8],
    ) -> Result<Reply, Errno> {
        let data = bytes.get(write.data.clone()).ok_or(Errno::EIO)?;
        let caller = writer(header, write.kill);
        let handle = self.file(header, write.handle).await?;
        if let Some(done) = self.session.write_quickly(&caller, handle, write.offset, data)? {
            return Ok(Reply::Written(done as u32));
        }
        let mut done = 0;
        // The kernel takes fewer bytes for a failure of the disk, so all are written.
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let offset = write.offset.saturating_add(done as u64);
            match self.session.write(&caller, handle, offset, rest).await {
                Ok(0) => break,
                Ok(written) => done += written,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Reply::Written(done as u32))
    }

    pub(crate) async fn fallocate(
        &self,
        header: Header,
        handle: u64,
        offset: u64,
        len: u64,
        mode: u32,
    ) -> Result<Reply, Errno> {
        let keep_size = mode & KEEP_SIZE != 0;
        let what = match mode & !KEEP_SIZE {
            0 => Fallocate::Allocate { keep_size },
            PUNCH_HOLE if keep_size => Fallocate::PunchHole,
            ZERO_RANGE => Fallocate::ZeroRange { keep_size },
            _ => return Err(Errno::EOPNOTSUPP),
        };
        // The kernel takes the bits itself.
        let caller = writer(header, false);
        let handle = self.file(header, handle).await?;
        self.session.fallocate(&caller, handle, what, offset, len).await?;
        Ok(Reply::Done)
    }

    pub(crate) async fn lseek(
        &self,
        header: Header,
        handle: u64,
        offset: u64,
        whence: u32,
    ) -> Result<Reply, Errno> {
        let what = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return Err(Errno::EINVAL),
        };
        let handle = self.file(header, handle).await?;
        Ok(Reply::Offset(self.session.seek(handle, offset, what).await?))
    }

    pub(crate) async fn copy_range(&self, header: Header, what: CopyRange) -> Result<Reply, Errno> {
        if what.flags != 0 {
            return Err(Errno::EINVAL);
        }
        // The narrow answer has 32 bits.
        let len = if what.wide { what.len } else { what.len.min(1 << 31) };
        let caller = writer(header, false);
        let from = self.file(header, what.from).await?;
        let to = self.file(Header { ino: what.to_ino, ..header }, what.to).await?;
        let copied = self
            .session
            .copy_range(&caller, from, what.from_offset, to, what.to_offset, len)
            .await?;
        Ok(if what.wide { Reply::Copied(copied) } else { Reply::Written(copied as u32) })
    }

    /// Whether syncing the store is all that fsync of a file has to do.
    pub(crate) fn is_all_stored(&self, handle: u64) -> bool {
        !self.adopted.is_old(handle) && self.session.is_all_stored(Handle(handle))
    }

    pub(crate) async fn fsync(
        &self,
        header: Header,
        handle: u64,
        data_only: bool,
    ) -> Result<Reply, Errno> {
        let handle = self.file(header, handle).await?;
        match data_only {
            true => self.session.datasync(handle).await?,
            false => self.session.fsync(handle).await?,
        }
        Ok(Reply::Done)
    }

    pub(crate) async fn syncfs(&self) -> Result<Reply, Errno> {
        self.session.sync_all().await?;
        Ok(Reply::Done)
    }

    pub(crate) async fn flush(
        &self,
        header: Header,
        handle: u64,
        owner: u64,
    ) -> Result<Reply, Errno> {
        let handle = self.file(header, handle).await?;
        if !self.policy.private {
            // Closing any descriptor of a file frees the locks of its process.
            self.session.unlock_all(handle, owner).await?;
        }
        self.session.flush(handle).await?;
        Ok(Reply::Done)
    }

    pub(crate) async fn release(
        &self,
        handle: u64,
        owner: Option<u64>,
        flock: bool,
    ) -> Result<Reply, Errno> {
        self.running.end(handle);
        let before = self.opens.remove(handle);
        if let Some(handle) = self.file_to_close(handle) {
            self.close(handle, owner, flock).await?;
        }
        if let Some(ino) = before {
            self.session.release_before(ino).await?;
        }
        Ok(Reply::Done)
    }

    async fn close(&self, handle: Handle, owner: Option<u64>, flock: bool) -> Result<(), Errno> {
        if let (Some(owner), false) = (owner, self.policy.private) {
            let freed = match flock {
                true => self.session.flock(handle, owner, LockKind::Unlock, false).await,
                false => self.session.unlock_all(handle, owner).await,
            };
            if let Err(error) = freed {
                tracing::warn!(%error, "a lock could not be freed when its file was closed");
            }
        }
        Ok(self.session.release(handle).await?)
    }
}
