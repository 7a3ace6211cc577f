//! copy_range: bytes from one file to another without leaving the store, in steps.

use crate::access;
use crate::blob::{self, stage};
use crate::error::{Error, Result, bad_handle, invalid, is_directory};
use crate::local::is_elsewhere;
use crate::schema::{Form, Part};
use crate::session::{OpKind, Session};
use crate::types::{Caller, FILE_BYTES_MAX, Handle};
use kv::Read;

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

/// Bytes that one step copies, where a transaction has room for them.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes that one call copies; a longer one is answered with fewer.
const CALL_BYTES: u64 = 64 << 20;

impl Session {
    /// Copies `len` bytes, or as many as there are before the end of the source. Each step is whole;
    /// the answer says how many bytes were copied.
    pub async fn copy_range(
        &self,
        caller: &Caller,
        from: Handle,
        from_offset: u64,
        to: Handle,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let source = self.0.handles.file(from)?;
        let target = self.0.handles.file(to)?;
        let writes = target.flags.write || target.flags.append;
        if !source.flags.read || !writes || target.flags.append {
            return Err(bad_handle("the handles are not open for copying from one to the other"));
        }
        let size = self.getattr(source.ino).await?.size;
        // What lies behind the end of the source is not asked for.
        let len = len.min(CALL_BYTES).min(size.saturating_sub(from_offset));
        if len == 0 {
            return Ok(0);
        }
        let ends = from_offset.checked_add(len).zip(to_offset.checked_add(len));
        let Some((from_end, to_end)) = ends.filter(|(_, end)| *end <= FILE_BYTES_MAX) else {
            return Err(crate::error::too_big("a file has at most 2^63-1 bytes"));
        };
        if source.ino == target.ino && from_offset < to_end && to_offset < from_end {
            return Err(invalid("the ranges overlap"));
        }
        if let Some(to) = self.to_local(target.ino, Some(to_offset), len).await? {
            return self.copy_to_local(caller, source.ino, from_offset, &to, to_offset, len).await;
        }
        let step = STEP_BYTES.min(stage::fitting_bytes(self));
        let mut done = 0;
        while done < len {
            let piece = step.min(len - done);
            let (at, to_at) = (from_offset + done, to_offset + done);
            let (from_ino, to_ino) = (source.ino, target.ino);
            // Bytes of a file of the local home are not part of the transaction that writes them.
            let read = match self.local_file(from_ino).await {
                Some(file) => Some(file.backed.read(at, piece)?),
                None => None,
            };
            let read = &read;
            let copied = self
                .change_data(KIND, |mut tx| async move {
                    let inode = tx.inode_for(from_ino, Part::Data).await?;
                    if inode.is_dir() {
                        return Err(is_directory("this is a directory"));
                    }
                    if inode.form == Form::Inline {
                        tx.inode(from_ino).await?;
                    }
                    let bytes = match read {
                        Some(bytes) => bytes.clone(),
                        None if is_elsewhere(&tx.session, from_ino, &inode) => {
                            return Err(Error::moved());
                        }
                        None => {
                            let mode = Read::Serializable;
                            blob::read(&mut tx, &inode, at, piece, mode).await?.bytes
                        }
                    };
                    if bytes.is_empty() {
                        return Ok((tx, 0));
                    }
                    let mut out = tx.inode(to_ino).await?;
                    if self.is_moving_to(to_ino, &out, to_at + bytes.len() as u64) {
                        return Err(Error::moved());
                    }
                    blob::write(&mut tx, to_ino, &mut out, to_at, &bytes).await?;
                    let mut parts = vec![Part::Data];
                    if access::drop_privileges(&mut out, caller) {
                        parts.push(Part::Access);
                    }
                    (out.mtime, out.ctime) = (tx.now, tx.now);
                    tx.put_inode(to_ino, &out, &parts)?;
                    if out.form == Form::Mapped {
                        tx.touch(to_ino)?;
                    }
                    Ok((tx, bytes.len() as u64))
                })
                .await;
            match copied {
                Ok(0) => break,
                Ok(copied) => done += copied,
                // One of them has a file by now: the rest goes there, or comes from there.
                Err(error) if error.is_moved() => {
                    let (at, rest) = (from_offset + done, len - done);
                    match self.to_local(to_ino, Some(to_at), rest).await? {
                        Some(to) => {
                            let copied = self.copy_to_local(caller, from_ino, at, &to, to_at, rest);
                            return copied.await.map(|copied| done + copied);
                        }
                        None => drop(self.open_local(from_ino).await?),
                    }
                }
                // What was copied is copied; the error comes with the next call.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}
