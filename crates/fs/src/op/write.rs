//! write: bytes of a file, at an offset or at its end.

use crate::blob::{self, stage};
use crate::error::{Error, Result, bad_handle, too_big};
use crate::schema::{Form, Part};
use crate::session::{OpKind, Session};
use crate::types::{Caller, FILE_BYTES_MAX, Handle, Ino};
use crate::{access, local};

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Writes `bytes` at `offset`, or at the end when the handle appends. Returns how many were
    /// written: all, unless they are more than one call writes or than a file can have.
    pub async fn write(
        &self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        bytes: &[u8],
    ) -> Result<usize> {
        if let Some(written) = self.write_quickly(caller, handle, offset, bytes)? {
            return Ok(written);
        }
        let file = self.0.handles.file(handle)?;
        if !file.flags.write && !file.flags.append {
            return Err(bad_handle("the handle is not open for writing"));
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        if self.0.open.take_capable(file.ino) {
            // The kernel has done it for those who write through its cache, and for no other.
            self.drop_capabilities(file.ino).await?;
        }
        let offset = (!file.flags.append).then_some(offset);
        if offset.is_some_and(|offset| offset >= FILE_BYTES_MAX) {
            return Err(too_big("a file has at most 2^63-1 bytes"));
        }
        let room = FILE_BYTES_MAX - offset.unwrap_or(0);
        let len = room.min(stage::bytes_max(self)).min(bytes.len() as u64);
        let bytes = bytes.get(..len as usize).unwrap_or(bytes);
        loop {
            if let Some(local) = self.to_local(file.ino, offset, len).await? {
                let written = self.write_local(&local, caller, offset, bytes).await?;
                return Ok(written as usize);
            }
            let written = if stage::fits(self, len) {
                self.write_once(file.ino, offset, bytes, caller).await
            } else {
                self.write_staged(file.ino, offset, bytes, caller).await
            };
            match written {
                // It has a file by now, or what is written at its end is too much for its record.
                Err(error) if error.is_moved() => {
                    self.lend(file.ino, false).await?;
                }
                written => return Ok(written? as usize),
            }
        }
    }

    /// The same the short way, of a file that is inline and stays so; `None` when nothing was done, and it has to be
    /// done the other way.
    pub fn write_quickly(
        &self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        bytes: &[u8],
    ) -> Result<Option<usize>> {
        let writing = || {
            let shared = &*self.0;
            let file = shared.handles.file(handle).ok()?;
            let ino = file.ino;
            let writes = file.flags.write || file.flags.append;
            let max = u64::from(shared.volume.record.inline_bytes_max);
            let len = bytes.len() as u64;
            if !writes || bytes.is_empty() || len > max || shared.open.may_be_capable(ino) {
                return None;
            }
            let mut quick = self.quick(caller).filter(|quick| !quick.has_capacity())?;
            let mut inode = quick.inode(ino)?;
            let offset = if file.flags.append { inode.size } else { offset };
            let end = offset.checked_add(len)?.max(inode.size);
            // Looked for behind the version that is looked at: who moves its bytes from here on commits, and then
            // this does not.
            if inode.form != Form::Inline
                || end > max
                || access::drop_privileges(&mut inode, caller)
                || local::is_away(shared, ino)
            {
                return None;
            }
            if offset == 0 && len >= inode.size {
                quick.put_inline(&mut inode, bytes);
            } else {
                let whole = blob::patched(&quick.inline(&inode)?, offset as usize, bytes);
                quick.put_inline(&mut inode, &whole);
            }
            (inode.size, inode.mtime, inode.ctime) = (end, quick.now, quick.now);
            quick.put_data(ino, &inode);
            Some(quick)
        };
        let Some(quick) = writing() else {
            return Ok(None);
        };
        Ok(quick.commit(&(bytes.len() as u64))?.map(|()| bytes.len()))
    }

    /// Writes in one transaction.
    pub(crate) async fn write_once(
        &self,
        ino: Ino,
        offset: Option<u64>,
        bytes: &[u8],
        caller: &Caller,
    ) -> Result<u64> {
        self.change_data(KIND, |mut tx| async move {
            let mut inode = match offset {
                Some(_) => tx.inode_for(ino, Part::Data).await?,
                None => tx.inode(ino).await?,
            };
            let len = bytes.len() as u64;
            if self.is_moving_to(ino, &inode, offset.unwrap_or(inode.size).saturating_add(len)) {
                return Err(Error::moved());
            }
            let mut parts = vec![Part::Data];
            if access::drop_privileges(&mut inode.clone(), caller) {
                parts.push(Part::Access);
            }
            // When neither the size nor the form nor the mode changes, only blocks do, and two who
            // write different blocks do not conflict.
            let within = offset.is_some_and(|offset| offset + len <= inode.size)
                && inode.form == Form::Mapped
                && parts.len() == 1;
            if !within && offset.is_some() {
                tx.depend_on_inode(ino)?;
            }
            let at = offset.unwrap_or(inode.size);
            let room = FILE_BYTES_MAX - at.min(FILE_BYTES_MAX);
            if room == 0 {
                return Err(too_big("a file has at most 2^63-1 bytes"));
            }
            let bytes = bytes.get(..len.min(room) as usize).unwrap_or(bytes);
            blob::write(&mut tx, ino, &mut inode, at, bytes).await?;
            if !within {
                if parts.len() > 1 {
                    access::drop_privileges(&mut inode, caller);
                }
                (inode.mtime, inode.ctime) = (tx.now, tx.now);
                tx.put_inode(ino, &inode, &parts)?;
            }
            if inode.form == Form::Mapped {
                tx.touch(ino)?;
            }
            Ok((tx, bytes.len() as u64))
        })
        .await
    }
}
