//! The paths of what is damaged: looked for once, at the end, and only if something is.

use super::Scrub;
use crate::error::{Kind, Result};
use crate::schema::{Entry, Family, Inode, Parsed};
use crate::types::{Ino, ROOT};
use kv::{KeyRange, Query, Read};
use std::collections::BTreeMap;

/// The longest path that is told, and the deepest.
const PATH_BYTES_MAX: usize = 1024;
const DEPTH_MAX: usize = 256;

impl Scrub<'_> {
    /// Gives every finding the inode and a path.
    pub(super) async fn find_paths(&mut self) -> Result<()> {
        let mut owners: BTreeMap<Ino, Ino> = self
            .record
            .findings
            .iter()
            .filter(|finding| finding.ino != 0 && finding.path.is_empty())
            .map(|finding| (finding.ino, finding.ino))
            .collect();
        if owners.is_empty() {
            return Ok(());
        }
        self.owners_of_blobs(&mut owners).await?;
        let mut names: BTreeMap<Ino, Option<(Ino, Vec<u8>)>> =
            owners.values().map(|ino| (*ino, None)).collect();
        let range = self.keys.family_range(Family::Entry);
        let keys = self.keys;
        self.each(range, |key, value| {
            if let Some(entry) = Entry::decode(key, value)
                && let Some(name @ None) = names.get_mut(&entry.ino)
                && let Some(Parsed::Entry { parent, name: found }) = keys.parse(key)
            {
                *name = Some((parent, found));
            }
        })
        .await?;
        let mut paths = BTreeMap::new();
        for (ino, name) in names {
            let path = match (ino, name) {
                (ROOT, _) => Some(b"/".to_vec()),
                (_, Some((parent, name))) => self.path(parent, name).await?,
                _ => None,
            };
            paths.insert(ino, path.unwrap_or_default());
        }
        for finding in &mut self.record.findings {
            if let Some(ino) = owners.get(&finding.ino) {
                finding.ino = *ino;
                finding.path = paths.get(ino).cloned().unwrap_or_default();
            }
        }
        Ok(())
    }

    /// A blob has mostly the number of its inode; of others the inode is looked for.
    async fn owners_of_blobs(&mut self, owners: &mut BTreeMap<Ino, Ino>) -> Result<()> {
        let keys = self.keys;
        let range = keys.family_range(Family::Inode);
        let mut moved = Vec::new();
        let wanted: Vec<Ino> = owners.keys().copied().collect();
        self.each(range, |key, value| {
            if let Some(Parsed::Inode { ino }) = keys.parse(key)
                && let Some(inode) = Inode::decode(key, ino, value)
                && inode.blob != ino
                && wanted.contains(&inode.blob)
            {
                moved.push((inode.blob, ino));
            }
        })
        .await?;
        owners.extend(moved);
        Ok(())
    }

    /// All of a range that can be read, on a snapshot for each page.
    async fn each(&self, range: KeyRange, mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut next = Some(Query::new(range));
        while let Some(query) = next {
            let mut txn = self.session.0.volume.world.store.begin().await?;
            let page = match txn.range(&query, Read::Snapshot).await {
                Ok(page) => page,
                // Some names cannot be told then.
                Err(error) if error.kind() == kv::ErrorKind::Corrupt => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            page.iter().for_each(|(key, value)| each(key, value));
            next = if page.more { query.behind(&page) } else { None };
        }
        Ok(())
    }

    /// The path of a name, up through the parents of directories and their names there.
    async fn path(&self, mut parent: Ino, name: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let mut path = [b"/", &name[..]].concat();
        for _ in 0..DEPTH_MAX {
            if parent == ROOT || path.len() > PATH_BYTES_MAX {
                break;
            }
            let here = parent;
            let found = self.session.view(|mut tx| async move {
                let up = tx.inode(here).await?.parent;
                let mut next = Some(Query::new(tx.keys.entries(up)));
                while let Some(query) = next {
                    let page = tx.range(&query, Read::Snapshot).await?;
                    for (key, value) in page.iter() {
                        if Entry::decode(key, value).is_some_and(|entry| entry.ino == here)
                            && let Some(Parsed::Entry { name, .. }) = tx.keys.parse(key)
                        {
                            return Ok((tx, Some((up, name))));
                        }
                    }
                    next = if page.more { query.behind(&page) } else { None };
                }
                Ok((tx, None))
            });
            match found.await {
                Ok(Some((up, name))) => {
                    path = [b"/", &name[..], &path].concat();
                    parent = up;
                }
                Ok(None) => return Ok(None),
                Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::NotFound) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        path.truncate(PATH_BYTES_MAX);
        Ok(Some(path))
    }
}
