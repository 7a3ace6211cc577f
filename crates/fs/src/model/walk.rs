//! Listings that take many steps, while the directory changes under them. What was there all the
//! time comes once; what came or went may come or not.

use super::action::Answer;
use super::agree::Ids;
use super::translate::Translate;
use super::tree::{Answered, Model};
use crate::Kind;
use crate::types::{DirHandle, Ino};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The listings under way, one for each open directory.
#[derive(Debug, Default)]
pub(super) struct Walks(BTreeMap<DirHandle, Walk>);

#[derive(Debug)]
struct Walk {
    cookie: u64,
    /// There since the walk began.
    stable: BTreeMap<Bytes, Ino>,
    /// There at some moment since then.
    ever: BTreeSet<(Bytes, Ino)>,
    /// What has come.
    returned: BTreeSet<Bytes>,
}

impl Walks {
    /// Where the listing of this directory goes on.
    pub(super) fn cookie(&mut self, handle: DirHandle, model: &Model) -> u64 {
        let walk = self.0.entry(handle).or_insert_with(|| {
            let now = names(handle, model);
            Walk {
                cookie: 0,
                ever: now.iter().map(|(name, &ino)| (name.clone(), ino)).collect(),
                stable: now,
                returned: BTreeSet::new(),
            }
        });
        walk.cookie
    }

    /// A listing from the start ends the one that was under way: its cookies count no more.
    pub(super) fn rewound(&mut self, handle: DirHandle) {
        self.0.remove(&handle);
    }

    /// Something may have changed.
    pub(super) fn changed(&mut self, model: &Model) {
        self.0.retain(|handle, _| model.dirs.contains_key(&handle.0));
        for (handle, walk) in &mut self.0 {
            let now = names(*handle, model);
            walk.stable.retain(|name, ino| now.get(name) == Some(ino));
            walk.ever.extend(now);
        }
    }

    /// Judges the next page.
    pub(super) fn page(
        &mut self,
        handle: DirHandle,
        model: &Model,
        ids: &Ids,
        told: &Answered<Answer>,
    ) -> Result<(), String> {
        let Some(walk) = self.0.get_mut(&handle) else {
            return Err("no such walk".to_owned());
        };
        let removed = model.dirs.get(&handle.0).and_then(|ino| model.inodes.get(ino));
        let removed = removed.is_some_and(|inode| inode.nlink == 0);
        let entries = match told {
            Ok(Answer::Entries(entries)) => entries,
            Err(Kind::NotFound) if removed => return Ok(()),
            _ => return Err("no page".to_owned()),
        };
        for (entry, _) in entries {
            let known = |(name, ino): &(Bytes, Ino)| {
                *name == entry.name
                    && (ids.ino(*ino) == entry.ino || !model.inodes.contains_key(ino))
            };
            let twice = !walk.returned.insert(entry.name.clone());
            if twice && walk.stable.contains_key(&entry.name) {
                return Err(format!("{entry:?} comes twice in one listing"));
            }
            if !walk.ever.iter().any(known) {
                return Err(format!("{entry:?} was never there during this listing"));
            }
            walk.cookie = entry.cookie;
        }
        if entries.is_empty() {
            let missing = walk.stable.keys().find(|name| !walk.returned.contains(*name)).cloned();
            self.0.remove(&handle);
            if let Some(name) = missing
                && !removed
            {
                return Err(format!("{name:?} was there all the time and is not in the listing"));
            }
        }
        Ok(())
    }
}

fn names(handle: DirHandle, model: &Model) -> BTreeMap<Bytes, Ino> {
    let listed = model.list(handle).unwrap_or_default();
    listed.into_iter().map(|(name, ino, _)| (name, ino)).collect()
}
