//! Adding up a tree of millions of files, by as many threads as take part.
//!
//! What waits is a stack of places in directories. Whoever takes the topmost reads one page of names
//! there, with the inodes that they name, and puts back the rest of that directory and above it the
//! directories that it found: so the stack is never longer than the tree is deep times a page, for
//! each who takes part.

use crate::error::Result;
use crate::op::readdir::scan;
use crate::schema::Entry;
use crate::session::Session;
use crate::tx::Tx;
use crate::types::{Attr, FileType, Ino};
use base::sync::Mutex;
use kv::{Key, Query, Read};
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Names that are read at once.
const PAGE_ENTRIES: usize = 1024;
/// Inodes whose numbers are so near each other are read in one go.
const GAP: u64 = 8;

/// What a tree adds up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Regular files, each once however many names it has.
    pub files: u64,
    /// Directories, with the one at the top.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Pipes, sockets and devices.
    pub others: u64,
    /// Bytes of their sizes, each inode once.
    pub bytes: u64,
    /// Bytes that they take, each inode once.
    pub taken_bytes: u64,
    /// Names, without the one at the top.
    pub entries: u64,
}

/// A walk over a tree. Several threads call [`run`](Self::run) on one walk and share the work.
///
/// What changes meanwhile may be seen or not; what stands still is counted exactly once. Inodes with
/// several names are remembered until all of their names were met.
#[derive(Debug)]
pub struct Walk {
    session: Session,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Place>,
    /// Places that are being read.
    taken: usize,
    stopped: bool,
    sum: Summary,
    /// Inodes with several names: how many of them were not met yet.
    linked: BTreeMap<Ino, u32>,
    /// Those who found nothing to do while others may still find something.
    idle: Vec<Waker>,
}

/// Where to read on.
#[derive(Debug, Clone)]
enum Place {
    /// The top, which may be anything.
    Top(Ino),
    /// A directory, from its first name on or behind a key.
    In(Ino, Option<Key>),
}

/// What one page held.
#[derive(Default)]
struct Found {
    attrs: Vec<(Attr, u64)>,
    names: u64,
    rest: Option<Place>,
    below: Vec<Place>,
}

impl Walk {
    /// A walk over what is at and below `top`.
    pub fn new(session: &Session, top: Ino) -> Self {
        let state = State { waiting: vec![Place::Top(top)], ..State::default() };
        Self { session: session.clone(), state: Mutex::new(state) }
    }

    /// Takes part until nothing is left to do, for anybody. An error ends the walk for all, and is
    /// told to the one who met it.
    pub async fn run(&self) -> Result<()> {
        while let Some(mut place) = self.next().await {
            let found = match &place.what {
                Some(what) => self.read(what).await,
                None => Ok(Found::default()),
            };
            match found {
                Ok(found) => place.finish(found),
                Err(error) => {
                    self.stop();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// What was added up so far.
    pub fn so_far(&self) -> Summary {
        self.state.lock().sum
    }

    /// Ends the walk: every [`run`](Self::run) returns soon.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.wake();
    }

    /// The next place to read; `None` when there is none and nobody can find another.
    async fn next(&self) -> Option<Taken<'_>> {
        poll_fn(|context| {
            let mut state = self.state.lock();
            if state.stopped {
                return Poll::Ready(None);
            }
            if let Some(what) = state.waiting.pop() {
                state.taken += 1;
                return Poll::Ready(Some(Taken { walk: self, what: Some(what) }));
            }
            if state.taken == 0 {
                return Poll::Ready(None);
            }
            if !state.idle.iter().any(|waker| waker.will_wake(context.waker())) {
                state.idle.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    async fn read(&self, place: &Place) -> Result<Found> {
        self.session
            .view(|mut tx| async move {
                let found = match place {
                    Place::Top(top) => top_of(&mut tx, *top).await?,
                    Place::In(dir, behind) => page_of(&mut tx, *dir, behind.as_ref()).await?,
                };
                Ok((tx, found))
            })
            .await
    }
}

impl State {
    fn wake(&mut self) {
        self.idle.drain(..).for_each(Waker::wake);
    }

    /// Adds an inode that was met under so many names.
    fn add(&mut self, attr: &Attr, names: u64) {
        let kind = attr.file_type();
        if kind != FileType::Directory && attr.nlink > 1 {
            let names = u32::try_from(names).unwrap_or(u32::MAX);
            match self.linked.entry(attr.ino) {
                btree_map::Entry::Occupied(mut entry) => {
                    *entry.get_mut() = entry.get().saturating_sub(names);
                    if *entry.get() == 0 {
                        entry.remove();
                    }
                    return;
                }
                btree_map::Entry::Vacant(entry) => {
                    if names < attr.nlink {
                        entry.insert(attr.nlink - names);
                    }
                }
            }
        }
        let sum = &mut self.sum;
        match kind {
            FileType::File => sum.files += 1,
            FileType::Directory => sum.directories += 1,
            FileType::Symlink => sum.symlinks += 1,
            FileType::Fifo | FileType::Socket | FileType::Character | FileType::Block => {
                sum.others += 1;
            }
        }
        // A sparse file can say that it has 2^63 bytes, and there can be several.
        sum.bytes = sum.bytes.saturating_add(attr.size);
        sum.taken_bytes = sum.taken_bytes.saturating_add(attr.blocks.saturating_mul(512));
    }
}

/// A place that somebody reads. When nobody waits for that any more, it goes back to the others.
struct Taken<'a> {
    walk: &'a Walk,
    what: Option<Place>,
}

impl Taken<'_> {
    fn finish(&mut self, found: Found) {
        self.what = None;
        let mut state = self.walk.state.lock();
        state.sum.entries += found.names;
        for (attr, names) in &found.attrs {
            state.add(attr, *names);
        }
        state.waiting.extend(found.rest);
        state.waiting.extend(found.below);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.walk.state.lock();
        state.taken -= 1;
        state.waiting.extend(self.what.take());
        state.wake();
    }
}

async fn top_of(tx: &mut Tx, top: Ino) -> Result<Found> {
    let inode = tx.inode_seen(top).await?;
    let attr = tx.attr(top, &inode).await?;
    let below = if inode.is_dir() { vec![Place::In(top, None)] } else { Vec::new() };
    // Whatever other names it has are elsewhere, or below: then they are met there.
    Ok(Found { attrs: vec![(attr, 0)], below, ..Found::default() })
}

async fn page_of(tx: &mut Tx, dir: Ino, behind: Option<&Key>) -> Result<Found> {
    let mut range = tx.keys.entries(dir);
    if let Some(behind) = behind {
        range.start = behind.successor();
    }
    let page = tx.range(&Query::new(range).limit(PAGE_ENTRIES), Read::Snapshot).await?;
    let mut found = Found { names: page.len() as u64, ..Found::default() };
    let mut inodes = Vec::with_capacity(page.len());
    for (key, value) in page.iter() {
        let Some(entry) = Entry::decode(key, value) else {
            return Err(tx.damaged(key, "is damaged"));
        };
        inodes.push(entry.ino);
        if entry.file_type == FileType::Directory {
            found.below.push(Place::In(entry.ino, None));
        }
    }
    inodes.sort_unstable();
    for run in inodes.chunk_by(|a, b| b - a <= GAP) {
        attrs_of(tx, run, &mut found.attrs).await?;
    }
    found.rest = page.last_key().filter(|_| page.more).map(|last| Place::In(dir, Some(last)));
    Ok(found)
}

/// The attributes of inodes that are near each other, in order, and how often each was named.
async fn attrs_of(tx: &mut Tx, inodes: &[Ino], found: &mut Vec<(Attr, u64)>) -> Result<()> {
    let (Some(first), Some(last)) = (inodes.first(), inodes.last()) else {
        return Ok(());
    };
    let mut wanted = inodes.chunk_by(|a, b| a == b);
    let mut near: Vec<Attr> = Vec::with_capacity(inodes.len());
    scan(tx, *first, *last, &mut near).await?;
    let mut near = near.into_iter();
    wanted.try_for_each(|names| {
        let ino = names.first().copied().unwrap_or(0);
        match near.find(|attr| attr.ino >= ino) {
            Some(attr) if attr.ino == ino => {
                found.push((attr, names.len() as u64));
                Ok(())
            }
            _ => Err(tx.damaged(&tx.keys.inode(ino), "is missing although it has a name")),
        }
    })
}
