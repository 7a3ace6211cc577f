//! mknod: a file, pipe, socket or device without opening it.

use super::make::{New, make};
use crate::access;
use crate::error::{Error, Kind, Result};
use crate::session::{OpKind, Session};
use crate::types::{Attr, Caller, FileType, Ino, mode};

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Makes an inode of the type in `mode`.
    pub async fn mknod(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
        rdev: u32,
    ) -> Result<Attr> {
        // No type at all is a file's.
        let mode = if mode & mode::TYPE == 0 { mode | mode::FILE } else { mode };
        let device = match FileType::of_mode(mode) {
            Some(FileType::Character) => rdev != 0,
            Some(FileType::Block) => true,
            Some(FileType::File | FileType::Fifo | FileType::Socket) => false,
            Some(FileType::Directory) => {
                return Err(Error::new(Kind::NotPermitted, "directories are made by mkdir"));
            }
            Some(FileType::Symlink) | None => {
                return Err(Error::new(Kind::Invalid, "the mode has no type that can be made"));
            }
        };
        let new = &New { mode, rdev, reserved: self.0.reserve().await?, ..New::default() };
        self.change(KIND, |mut tx| async move {
            let (ino, inode) = make(&mut tx, caller, parent, name, new).await?;
            // After all that is wrong with the name, as the kernel does.
            if device {
                access::check_privileged(caller)?;
            }
            let attr = tx.attr_with(ino, &inode, Default::default())?;
            Ok((tx, attr))
        })
        .await
    }
}
