//! Inodes that a client may have open since before this session: it was served by a process that died,
//! and with it went what was known of open files. Whatever has no name stays until the client says that
//! it has forgotten it.

use super::Session;
use crate::error::Result;
use crate::types::Ino;

impl Session {
    /// Whether the client must say what it forgets.
    pub fn waits_for_forgets(&self) -> bool {
        self.0.options.takes_over
    }

    /// The client has an inode no more.
    pub async fn forget(&self, ino: Ino) -> Result<()> {
        match self.0.open.forget(ino) {
            Some(last) => self.leave_last(ino, last).await,
            None => Ok(()),
        }
    }

    /// The client has none any more.
    pub async fn forget_all(&self) -> Result<()> {
        for ino in self.0.open.held() {
            self.forget(ino).await?;
        }
        Ok(())
    }

    /// Holds everything that has no name.
    pub(super) async fn hold_nameless(&self) -> Result<()> {
        self.0.open.take_over();
        let mut after = 0;
        loop {
            let found = self.nameless_from(after).await?;
            let Some(last) = found.last() else {
                return Ok(());
            };
            after = last + 1;
            for ino in found {
                self.0.open.hold(ino);
            }
        }
    }
}
