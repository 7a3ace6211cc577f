//! mkdir: a new directory.

use super::make::{New, make};
use crate::error::Result;
use crate::session::{OpKind, Session};
use crate::types::{Attr, Caller, Ino, mode};

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Makes a directory.
    pub async fn mkdir(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
    ) -> Result<Attr> {
        if let Some(attr) = self.mkdir_quickly(caller, parent, name, mode)? {
            return Ok(attr);
        }
        let new =
            &New { mode: type_and(mode), reserved: self.0.reserve().await?, ..New::default() };
        let attr = self
            .change(KIND, |mut tx| async move {
                let (ino, inode) = make(&mut tx, caller, parent, name, new).await?;
                let attr = tx.attr_with(ino, &inode, Default::default())?;
                Ok((tx, attr))
            })
            .await?;
        self.was_made_in(attr.ino, parent);
        Ok(attr)
    }

    /// The same the short way; `None` when nothing was done, and it has to be done the other way.
    pub fn mkdir_quickly(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
    ) -> Result<Option<Attr>> {
        let new = New { mode: type_and(mode), reserved: self.0.reserve_now(), ..New::default() };
        let made = self.make_quickly(caller, parent, name, &new)?;
        if let Some(attr) = made {
            self.was_made_in(attr.ino, parent);
        }
        Ok(made)
    }

    fn was_made_in(&self, ino: Ino, parent: Ino) {
        if let Some(local) = &self.0.local {
            local.habits.is_in(ino, parent);
        }
    }
}

/// What Linux takes from the mode of mkdir: the set-id bits come from the parent.
fn type_and(mode: u32) -> u32 {
    mode::DIRECTORY | mode & (0o777 | mode::STICKY)
}
