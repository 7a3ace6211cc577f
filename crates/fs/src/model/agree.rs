//! Whether two answers say the same: with each side's own numbers for inodes and handles, and with
//! times that are known no better than from when to when the core was at work.

use super::action::{Action, Answer};
use super::translate::Translate;
use super::tree::{Answered, Body, Model};
use crate::Kind;
use crate::types::{Attr, DirEntry, DirHandle, Handle, Ino, ROOT, Time, mode};
use std::collections::BTreeMap;

/// The core's numbers for what the model has.
#[derive(Debug, Clone)]
pub(super) struct Ids {
    inos: BTreeMap<Ino, Ino>,
    files: BTreeMap<Handle, Handle>,
    dirs: BTreeMap<DirHandle, DirHandle>,
}

impl Ids {
    pub(super) fn new() -> Self {
        Self { inos: BTreeMap::from([(ROOT, ROOT)]), files: BTreeMap::new(), dirs: BTreeMap::new() }
    }

    /// Notes that the model's inode is the core's; false when either is another's already.
    fn bind(&mut self, model: Ino, core: Ino) -> bool {
        match self.inos.get(&model) {
            Some(&known) => known == core,
            None => {
                let taken = self.inos.values().any(|&it| it == core);
                self.inos.insert(model, core);
                !taken
            }
        }
    }

    pub(super) fn forget(&mut self, model: Ino) -> Option<Ino> {
        self.inos.remove(&model)
    }
}

impl Translate for Ids {
    fn ino(&self, ino: Ino) -> Ino {
        self.inos.get(&ino).copied().unwrap_or(ino)
    }

    fn handle(&self, handle: Handle) -> Handle {
        self.files.get(&handle).copied().unwrap_or(handle)
    }

    fn dir(&self, handle: DirHandle) -> DirHandle {
        self.dirs.get(&handle).copied().unwrap_or(handle)
    }
}

/// What is not known exactly of times.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// For an end of a step, its begin: the core's time lies between.
    steps: BTreeMap<Time, Time>,
    /// When an inode was read, from the first to the last time, since its time was set.
    reads: BTreeMap<Ino, (Time, Time)>,
    /// Opening a file for reading counts as reading it: the kernel does not tell of what it reads by itself.
    opening_reads: bool,
}

impl Times {
    pub(super) fn new(opening_reads: bool) -> Self {
        Self { opening_reads, ..Self::default() }
    }

    pub(super) fn note(
        &mut self,
        action: &Action,
        model: &Model,
        ok: bool,
        before: Time,
        after: Time,
    ) {
        if before != after {
            self.steps.insert(after, before);
        }
        let read = match action {
            Action::Read { handle, .. } => model.open_file(handle.0).ok().map(|file| file.ino),
            Action::CopyRange { from, .. } => {
                model.open_file(from.handle.0).ok().map(|file| file.ino)
            }
            Action::Open { ino, flags, .. } if self.opening_reads && flags.read => Some(*ino),
            Action::Readlink { ino } => Some(*ino),
            Action::Readdir { handle, .. } | Action::ReaddirPage { handle, .. } => {
                model.dirs.get(&handle.0).copied()
            }
            Action::SetAttr { ino, set, .. } if ok && set.atime.is_some() => {
                self.reads.remove(ino);
                None
            }
            _ => None,
        };
        if let Some(ino) = read {
            self.note_read(ino, before, after);
        }
    }

    pub(super) fn note_read(&mut self, ino: Ino, before: Time, after: Time) {
        let first = self.reads.get(&ino).map_or(before, |&(first, _)| first);
        self.reads.insert(ino, (first, after));
    }

    fn same(&self, core: Time, model: Time) -> bool {
        let begin = self.steps.get(&model).copied().unwrap_or(model);
        begin <= core && core <= model
    }

    fn same_atime(&self, ino: Ino, core: Time, model: Time) -> bool {
        let read = self.reads.get(&ino).is_some_and(|&(first, last)| first <= core && core <= last);
        self.same(core, model) || read
    }
}

/// Compares the answers to an action, and learns the core's numbers from them. The error says why.
pub(super) fn answers(
    action: &Action,
    told: &Answered<Answer>,
    right: &Answered<Answer>,
    model: &Model,
    ids: &mut Ids,
    times: &Times,
    keeps_atime: bool,
) -> Result<(), String> {
    let attr = |ids: &mut Ids, core: &Attr, right: &Attr| -> Result<(), String> {
        if !ids.bind(right.ino, core.ino) {
            return Err(format!("inode {} is another's", core.ino));
        }
        attrs(core, right, model, times, keeps_atime)
    };
    match (told, right) {
        (Err(core), Err(right)) if core == right || action.name_faults().contains(core) => Ok(()),
        // Of what is wrong with an operation on what is not there, the core may tell something else.
        (Err(core), Err(Kind::NotFound))
            if !is_failure(*core)
                && action.inos().iter().any(|ino| model.getattr(*ino).is_err()) =>
        {
            Ok(())
        }
        (told, Ok(Answer::Entries(right))) if is_removed(action, model) => match told {
            Err(Kind::NotFound) => Ok(()),
            Ok(Answer::Entries(core)) if core.len() <= 2 && right.len() == 2 => Ok(()),
            _ => Err("a removed directory has entries".to_owned()),
        },
        (Ok(told), Ok(right)) => match (told, right) {
            (Answer::Attr(core), Answer::Attr(right)) => attr(ids, core, right),
            (Answer::Created(core, core_handle), Answer::Created(right, handle)) => {
                ids.files.insert(*handle, *core_handle);
                attr(ids, core, right)
            }
            (Answer::Opened(core), Answer::Opened(right)) => {
                ids.files.insert(*right, *core);
                Ok(())
            }
            (Answer::OpenedDir(core), Answer::OpenedDir(right)) => {
                ids.dirs.insert(*right, *core);
                Ok(())
            }
            (Answer::Bytes(core), Answer::Bytes(right)) => bytes(core, right),
            (Answer::Entries(core), Answer::Entries(right)) => {
                if core.len() != right.len() {
                    return Err(format!("{} entries, not {}", core.len(), right.len()));
                }
                for ((core, core_attr), (right, right_attr)) in core.iter().zip(right) {
                    entries(core, right, ids)?;
                    // Nobody looks at what the dots have.
                    if let (Some(core_attr), Some(right_attr)) = (core_attr, right_attr)
                        && !super::tree::is_dots(&right.name)
                    {
                        attr(ids, core_attr, right_attr)?;
                    }
                }
                Ok(())
            }
            (told, right) if told == right => Ok(()),
            _ => Err("other answers".to_owned()),
        },
        _ => Err("other outcomes".to_owned()),
    }
}

/// Errors that are no answer at all.
pub(super) fn is_failure(kind: Kind) -> bool {
    matches!(kind, Kind::Io | Kind::Corrupt | Kind::Format | Kind::Stale | Kind::NoSpace)
}

fn is_removed(action: &Action, model: &Model) -> bool {
    let Action::Readdir { handle, .. } = action else {
        return false;
    };
    let inode = model.dirs.get(&handle.0).and_then(|ino| model.inodes.get(ino));
    inode.is_some_and(|inode| inode.nlink == 0)
}

/// Compares what is known of an inode, but for its number.
pub(super) fn attrs(
    core: &Attr,
    right: &Attr,
    model: &Model,
    times: &Times,
    keeps_atime: bool,
) -> Result<(), String> {
    let plain = |attr: &Attr| (attr.mode, attr.nlink, attr.uid, attr.gid, attr.rdev, attr.size);
    if plain(core) != plain(right) {
        return Err("other attributes".to_owned());
    }
    let atime = match keeps_atime {
        true => times.same_atime(right.ino, core.atime, right.atime),
        false => times.same(core.atime, right.atime),
    };
    for (name, same) in [
        ("atime", atime),
        ("mtime", times.same(core.mtime, right.mtime)),
        ("ctime", times.same(core.ctime, right.ctime)),
        ("btime", times.same(core.btime, right.btime)),
    ] {
        if !same {
            return Err(format!("another {name}"));
        }
    }
    let reserved = model.inodes.get(&right.ino).is_some_and(|inode| inode.reserved);
    let is_empty = right.mode & mode::TYPE == mode::FILE && right.size == 0 && !reserved;
    if core.block_bytes == 0 || core.blocks > 1 << 50 || is_empty && core.blocks != 0 {
        return Err(format!("{} blocks, where a block is {}", core.blocks, core.block_bytes));
    }
    Ok(())
}

pub(super) fn entries(core: &DirEntry, right: &DirEntry, ids: &Ids) -> Result<(), String> {
    let ino = ids.ino(right.ino);
    match core.name == right.name && core.ino == ino && core.file_type == right.file_type {
        true => Ok(()),
        false => Err(format!("the entry {core:?} should be {right:?} with inode {ino}")),
    }
}

pub(super) fn bytes(core: &[u8], right: &[u8]) -> Result<(), String> {
    if core.len() != right.len() {
        return Err(format!("{} bytes, not {}", core.len(), right.len()));
    }
    match core.iter().zip(right).position(|(core, right)| core != right) {
        None => Ok(()),
        Some(at) => {
            let differ = core.iter().zip(right).filter(|(core, right)| core != right).count();
            Err(format!(
                "byte {at} of {} is {}, not {}; {differ} bytes differ",
                core.len(),
                core[at],
                right[at]
            ))
        }
    }
}

/// An answer in words, not too many.
pub(super) fn show(answer: &Answered<Answer>) -> String {
    match answer {
        Ok(Answer::Bytes(bytes)) if bytes.len() > 40 => {
            format!("{} bytes, {:?}...", bytes.len(), bytes.slice(..20))
        }
        Ok(answer) => format!("{answer:?}"),
        Err(kind) => format!("{kind:?}"),
    }
}

/// The contents of a file of the model.
pub(super) fn contents(model: &Model, ino: Ino) -> Option<&super::sparse::Sparse> {
    match &model.inodes.get(&ino)?.body {
        Body::File(sparse) => Some(sparse),
        _ => None,
    }
}
