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
        // What Linux takes from the mode of mkdir: the set-id bits come from the parent.
        let mode = mode::DIRECTORY | mode & (0o777 | mode::STICKY);
        let new = &New { mode, reserved: self.0.reserve().await?, ..New::default() };
        let attr = match self.make_quickly(caller, parent, name, new)? {
            Some(attr) => attr,
            None => {
                self.change(KIND, |mut tx| async move {
                    let (ino, inode) = make(&mut tx, caller, parent, name, new).await?;
                    let attr = tx.attr_with(ino, &inode, Default::default())?;
                    Ok((tx, attr))
                })
                .await?
            }
        };
        if let Some(local) = &self.0.local {
            local.habits.is_in(attr.ino, parent);
        }
        Ok(attr)
    }
}
