//! Files of the local home in a scrub: all of their bytes are read, which the host may refuse, and their sizes
//! compared with what inodes say. They have no checksums.

use super::Scrub;
use crate::error::{Kind, Result};
use crate::progress::{Progress, go_on};
use crate::types::Ino;
use home::Wanted;

/// Bytes that are read at once. Between two reads whoever wants to write gets in.
const READ_BYTES: u64 = 1 << 20;

impl Scrub<'_> {
    /// Reads the files that the last page of records named.
    pub(super) async fn local_files(&mut self, progress: &dyn Progress) -> Result<()> {
        for ino in std::mem::take(&mut self.local) {
            let mut next = Some(0);
            while let Some(at) = next {
                go_on(progress)?;
                next = match self.local_piece(ino, at).await {
                    Ok(next) => next,
                    // It was removed meanwhile.
                    Err(error) if error.kind() == Kind::NotFound => None,
                    Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Io) => {
                        self.found("local-unreadable", ino, format!("inode {ino}: {error}"));
                        None
                    }
                    Err(error) => return Err(error),
                };
                progress.advance(self.record.bytes, None);
                self.keep_pace(progress).await?;
            }
        }
        Ok(())
    }

    /// Reads what is at an offset, and says where to go on.
    async fn local_piece(&mut self, ino: Ino, at: u64) -> Result<Option<u64>> {
        let Some(file) = self.session.open_local(ino).await? else {
            return Ok(None);
        };
        let seek = || file.backed.file.seek(at, Wanted::Data);
        if let Some(data) = file.backed.file_error(seek)? {
            let read = file.backed.read(data, READ_BYTES)?.len() as u64;
            self.record.bytes += read;
            if read > 0 {
                return Ok(Some(data + read));
            }
        }
        // While this has it nobody is lent it, so its size cannot change if it is not.
        if !file.is_lent() {
            let (blob, said) = (file.backed.blob, self.session.inode_now(ino).await?.size);
            let len = file.backed.file_error(|| file.backed.file.stat())?.len;
            if len != said {
                let what = format!("inode {ino}: its file {blob} has {len} bytes and not {said}");
                self.found("local-size", ino, what);
            }
        }
        Ok(None)
    }
}
