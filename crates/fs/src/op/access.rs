//! access: whether a caller may read, write or run an inode.

use crate::access;
use crate::error::Result;
use crate::session::{OpKind, Session};
use crate::types::{Caller, Ino};

pub(super) const KIND: OpKind = OpKind::ReadOnly;

impl Session {
    /// Refuses unless `caller` may do what the bits of `want` say: 4 read, 2 write, 1 run or search.
    pub async fn access(&self, caller: &Caller, ino: Ino, want: u32) -> Result<()> {
        self.view(|mut tx| async move {
            let inode = tx.inode_seen(ino).await?;
            access::check(&mut tx, caller, ino, &inode, want & 7).await?;
            Ok((tx, ()))
        })
        .await
    }
}
