//! tmpfile: a file without a name. link can give it one.

use super::create::Held;
use super::make::{New, check_writable, new_inode, parent_dir};
use crate::error::Result;
use crate::session::{OpKind, Session};
use crate::types::{Attr, Caller, Handle, Ino, OpenFlags, mode};

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Makes and opens a file that goes with its last handle, unless it is linked before; one that is
    /// made exclusive cannot be linked.
    pub async fn tmpfile(
        &self,
        caller: &Caller,
        parent: Ino,
        mode: u32,
        flags: OpenFlags,
    ) -> Result<(Attr, Handle)> {
        let mode = mode::FILE | mode & mode::PERMISSIONS;
        let new = &New { mode, reserved: self.0.reserve().await?, ..New::default() };
        let held = Held::begin(self, new.reserved);
        let held_ref = &held;
        let loan = self.begin_loan(new.reserved, parent, flags);
        let loan_ref = loan.as_ref();
        let attr = self
            .change(KIND, |mut tx| async move {
                let dir = parent_dir(&mut tx, caller, parent).await?;
                check_writable(&mut tx, caller, parent, &dir).await?;
                let (ino, inode) = new_inode(&mut tx, caller, parent, &dir, new, 0).await?;
                tx.put_new_inode(ino, &inode)?;
                // Whoever dies with it open leaves it for the collection.
                let garbage = tx.keys.garbage(ino);
                let kind =
                    if flags.exclusive { super::remove::LOST } else { super::link::NAMELESS };
                tx.put(&garbage, kind)?;
                held_ref.lease(&mut tx, ino)?;
                if let Some(loan) = loan_ref {
                    loan.record(&mut tx)?;
                }
                let attr = tx.attr_with(ino, &inode, Default::default())?;
                Ok((tx, attr))
            })
            .await?;
        let ino = attr.ino;
        if self.0.private && !held.has(ino) {
            drop((held, loan));
            let (attr, handle) = self.open_made(caller, attr, flags).await?;
            self.0.open.doom(ino);
            return Ok((attr, handle));
        }
        let opened = self.made(attr, parent, held, loan, flags);
        if opened.is_err() {
            self.leave(ino).await?;
        }
        let (attr, handle) = opened?;
        // The last handle has to look.
        self.0.open.doom(attr.ino);
        Ok((attr, handle))
    }
}
