//! Compares everything that can be seen of the core with the model: names, attributes, bytes.

use super::action::{Action, Answer};
use super::agree;
use super::compare::Compare;
use super::target::{Target, wall};
use super::translate::Translate;
use super::tree::Body;
use crate::types::{Caller, DirEntry, Handle, Ino, OpenFlags};
use bytes::Bytes;

/// Files up to this size are read from end to end.
const SMALL_BYTES: u64 = 8 << 20;
/// What is read around data in larger files.
const MARGIN_BYTES: u64 = 5000;

impl<T: Target> Compare<'_, T> {
    /// Compares everything.
    pub(super) async fn whole(&mut self) -> Result<(), String> {
        for ino in self.model.inos() {
            let core = self.ids.ino(ino);
            let inode = self.one(ino, core).await;
            inode.map_err(|error| {
                format!("inode {ino} of the model, {core} of the core: {error}")
            })?;
        }
        Ok(())
    }

    async fn one(&mut self, ino: Ino, core: Ino) -> Result<(), String> {
        let right = self.model.getattr(ino).map_err(|kind| format!("{kind:?}"))?;
        let before = wall(self.clock);
        let Answer::Attr(attr) = self.ask(Action::GetAttr { ino: core }).await? else {
            return Err("no attributes".to_owned());
        };
        let keeps_atime = self.target.keeps_atime();
        agree::attrs(&attr, &right, &self.model, &self.times, keeps_atime)
            .map_err(|why| format!("{why}\n  core:  {attr:?}\n  model: {right:?}"))?;
        self.xattrs(ino, core).await?;
        match self.model.inodes.get(&ino).map(|inode| inode.body.clone()) {
            Some(Body::Directory { .. }) if right.nlink > 0 => self.names(ino, core).await?,
            Some(Body::File(_)) => self.file(ino, core).await?,
            Some(Body::Symlink(target)) => {
                let told = self.ask(Action::Readlink { ino: core }).await?;
                if told != Answer::Bytes(target) {
                    return Err(format!("another target: {told:?}"));
                }
            }
            _ => {}
        }
        self.times.note_read(ino, before, wall(self.clock));
        Ok(())
    }

    async fn xattrs(&mut self, ino: Ino, core: Ino) -> Result<(), String> {
        let right = self.model.inodes.get(&ino).map(|inode| inode.xattrs.clone());
        let right = right.unwrap_or_default();
        let ask = Action::ListXattr { caller: Caller::root(), ino: core };
        let Answer::Names(names) = self.ask(ask).await? else {
            return Err("no extended attributes".to_owned());
        };
        if !names.iter().eq(right.keys()) {
            return Err(format!("extended attributes {names:?}, not {:?}", right.keys()));
        }
        for (name, value) in right {
            let ask = Action::GetXattr { caller: Caller::root(), ino: core, name: name.clone() };
            let Answer::Bytes(told) = self.ask(ask).await? else {
                return Err("no value".to_owned());
            };
            agree::bytes(&told, &value).map_err(|why| format!("value of {name:?}: {why}"))?;
        }
        Ok(())
    }

    async fn names(&mut self, ino: Ino, core: Ino) -> Result<(), String> {
        let caller = Caller::root();
        let Answer::OpenedDir(handle) = self.ask(Action::Opendir { caller, ino: core }).await?
        else {
            return Err("no directory".to_owned());
        };
        let limit = [1, 2, 3, 7, 1000][self.random.below(5) as usize];
        let plus = self.random.one_in(2);
        let listed = self.ask(Action::Readdir { handle, limit, plus }).await;
        self.ask(Action::Releasedir { handle }).await?;
        let Answer::Entries(listed) = listed? else {
            return Err("no entries".to_owned());
        };
        let model = &self.model;
        let names = model.names(ino).map_err(|kind| format!("{kind:?}"))?;
        let parent = model.parent(ino).unwrap_or(ino);
        let dots = [(Bytes::from_static(b"."), ino), (Bytes::from_static(b".."), parent)];
        let all = dots.into_iter().chain(names.iter().map(|(name, &ino)| (name.clone(), ino)));
        let all: Vec<(Bytes, Ino)> = all.collect();
        if all.len() != listed.len() {
            return Err(format!("names {listed:?}, not {all:?}"));
        }
        for ((name, ino), (told, attr)) in all.into_iter().zip(&listed) {
            let right = model.getattr(ino).map_err(|kind| format!("{kind:?}"))?;
            let file_type = right.file_type();
            agree::entries(told, &DirEntry { name, ino, file_type, cookie: 0 }, &self.ids)?;
            if let Some(attr) = attr
                && !super::tree::is_dots(&told.name)
            {
                agree::attrs(attr, &right, model, &self.times, self.target.keeps_atime())
                    .map_err(|why| format!("{why} of {told:?}: {attr:?}, not {right:?}"))?;
            }
        }
        Ok(())
    }

    async fn file(&mut self, ino: Ino, core: Ino) -> Result<(), String> {
        let readable = self.model.files.iter().find(|(_, file)| file.ino == ino && file.read);
        let kept = readable.map(|(&handle, _)| self.ids.handle(Handle(handle)));
        let (handle, opened) = match kept {
            Some(handle) if self.random.one_in(2) => (handle, false),
            _ => {
                let (caller, flags) = (Caller::root(), OpenFlags::READ);
                match self.ask(Action::Open { caller, ino: core, flags }).await? {
                    Answer::Opened(handle) => (handle, true),
                    other => return Err(format!("no handle: {other:?}")),
                }
            }
        };
        let read = self.contents(ino, handle).await;
        if opened {
            self.ask(Action::Release { handle }).await?;
        }
        read
    }

    async fn contents(&self, ino: Ino, handle: Handle) -> Result<(), String> {
        let Some(sparse) = agree::contents(&self.model, ino) else {
            return Ok(());
        };
        let size = sparse.size();
        let mut ranges = Vec::new();
        if size <= SMALL_BYTES {
            ranges.push((0, size));
        } else {
            ranges.push((0, MARGIN_BYTES));
            ranges.push((size - MARGIN_BYTES, size));
            for (start, end) in sparse.extents() {
                let start = start.saturating_sub(MARGIN_BYTES);
                ranges.push((start, end.saturating_add(MARGIN_BYTES).min(size)));
            }
        }
        for (start, end) in ranges {
            let mut at = start;
            while at < end {
                let len = (end - at).min(1 + self.random.below(1 << 20));
                let ask = Action::Read { handle, offset: at, len: len as usize };
                let Answer::Bytes(told) = self.ask(ask).await? else {
                    return Err("no bytes".to_owned());
                };
                let right = sparse.read(at, len as usize);
                agree::bytes(&told, &right)
                    .map_err(|why| format!("{len} bytes at {at} of {size}: {why}"))?;
                at += len;
            }
        }
        Ok(())
    }

    async fn ask(&self, action: Action) -> Result<Answer, String> {
        let told = self.target.apply(&action).await;
        told.map_err(|error| format!("{action:?} of the core failed: {error:?}"))
    }
}
