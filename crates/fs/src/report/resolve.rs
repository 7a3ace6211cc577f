//! From a path to an inode.

use crate::error::{Result, not_directory, not_found};
use crate::session::Session;
use crate::types::{Ino, ROOT};
use kv::Read;

impl Session {
    /// Follows a path from the root, without following symbolic links: one at its end is what it
    /// stands for, and one on its way is no directory. Empty parts and `.` say nothing, and `..` is
    /// the directory above. Permissions are not asked for.
    pub async fn resolve(&self, path: &[u8]) -> Result<Ino> {
        self.view(|mut tx| async move {
            let mut at = ROOT;
            let parts = path.split(|byte| *byte == b'/');
            for part in parts.filter(|part| !part.is_empty() && *part != b".") {
                let inode = tx.inode_seen(at).await?;
                if !inode.is_dir() {
                    let part = part.escape_ascii();
                    return Err(not_directory(format!("what \"{part}\" should be in is none")));
                }
                at = match part {
                    b".." => inode.parent,
                    name => match tx.entry(at, name, Read::Snapshot).await? {
                        Some(entry) => entry.ino,
                        None => {
                            let name = name.escape_ascii();
                            return Err(not_found(format!("there is no \"{name}\"")));
                        }
                    },
                };
            }
            // A slash at the end asks for a directory.
            if path.ends_with(b"/") && !tx.inode_seen(at).await?.is_dir() {
                return Err(not_directory("the path ends in a slash, and this is no directory"));
            }
            Ok((tx, at))
        })
        .await
    }
}
