//! Bytes of a short file for whoever was just told that it is open, before they are asked for.

use crate::error::Result;
use crate::session::{Doomed, Session};
use crate::types::{Handle, Ino};
use bytes::Bytes;

/// All bytes of a file. Nobody opens it or changes its size while this is there, and nobody but the one handle has it
/// open; so whoever asks next for its bytes asks after these were given away.
#[derive(Debug)]
pub struct Ahead {
    /// Whose they are.
    pub ino: Ino,
    /// From its first to its last.
    pub bytes: Bytes,
    _still: Doomed,
}

impl Session {
    /// The bytes of a [short](super::Opened::short) file that was opened to be read and whose handle nobody was told
    /// yet; `None` when anybody else may use it now.
    pub async fn bytes_ahead(&self, handle: Handle) -> Result<Option<Ahead>> {
        let file = self.0.handles.file(handle)?;
        // Others could change it.
        if !self.0.private || !file.flags.read {
            return Ok(None);
        }
        let ino = file.ino;
        let Some(still) = self.0.open.hold_still(ino) else {
            return Ok(None);
        };
        let max = u64::from(self.0.volume.record.inline_bytes_max);
        match self.read_stored(ino, 0, max).await {
            Ok(bytes) if !bytes.is_empty() => Ok(Some(Ahead { ino, bytes, _still: still })),
            Err(error) if !error.is_moved() => Err(error),
            _ => Ok(None),
        }
    }
}
