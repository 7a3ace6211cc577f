//! Whether some serial order explains what several sessions were told: one that keeps the order of
//! what did not overlap, and ends with the tree that was found.

use super::action::{Action, Answer};
use super::agree::is_failure;
use super::translate::Translate;
use super::tree::{Answered, Model};
use crate::types::{Attr, DirHandle, Handle, Ino, ROOT, Time};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Operations that a history may have.
const RECORDS_MAX: usize = 64;
/// States after which the search gives up.
const STATES_MAX: usize = 2_000_000;

/// A tree by its paths.
pub(super) type Tree = BTreeMap<Vec<Bytes>, Attr>;

/// One operation, in the core's numbers.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) task: usize,
    /// When it was asked, and when it was answered.
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) action: Action,
    pub(super) answer: Answered<Answer>,
}

/// All that happened.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// In the order in which they began.
    pub(super) records: Vec<Record>,
    /// What was found when all was over.
    pub(super) end: Tree,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for record in &self.records {
            let Record { task, begin, end, action, answer } = record;
            write!(f, "{begin:>3}..{end:<3} session {task}: {action:?} -> ")?;
            match answer {
                Ok(Answer::Attr(attr)) => writeln!(f, "{}", brief(attr))?,
                Ok(answer) => writeln!(f, "{answer:?}")?,
                Err(kind) => writeln!(f, "{kind:?}")?,
            }
        }
        for (path, attr) in &self.end {
            writeln!(f, "at the end {path:?}: {}", brief(attr))?;
        }
        Ok(())
    }
}

fn brief(attr: &Attr) -> String {
    format!("inode {} mode {:o} nlink {}", attr.ino, attr.mode, attr.nlink)
}

/// Looks for an order. The error is the longest one that explains anything.
pub(super) fn check(history: &History) -> Result<(), String> {
    if history.records.len() > RECORDS_MAX {
        return Err(format!("{} operations are too many to search", history.records.len()));
    }
    if let Some(record) =
        history.records.iter().find(|it| it.answer.as_ref().is_err_and(|kind| is_failure(*kind)))
    {
        return Err(format!("the store failed for {record:?}"));
    }
    let mut search = Search { history, seen: BTreeSet::new(), order: Vec::new(), best: Vec::new() };
    let start = State { done: 0, model: Model::empty(), numbers: Numbers::default() };
    if search.go(&start) {
        return Ok(());
    }
    if search.seen.len() >= STATES_MAX {
        return Err("the search was given up: too many orders".to_owned());
    }
    let begins: Vec<u64> = search.best.iter().map(|&index| history.records[index].begin).collect();
    Err(format!(
        "no serial order explains this; the longest that could be found has {} of {} operations, \
         in the order of their begins {begins:?}",
        search.best.len(),
        history.records.len()
    ))
}

/// The tree after some operations, and which of its inodes are which of the core's.
#[derive(Debug, Clone, Hash)]
struct State {
    done: u64,
    model: Model,
    numbers: Numbers,
}

/// Model and core numbers of the same inodes. The first answer that tells one binds it.
#[derive(Debug, Clone, Hash)]
struct Numbers {
    core: BTreeMap<Ino, Ino>,
    model: BTreeMap<Ino, Ino>,
}

impl Default for Numbers {
    fn default() -> Self {
        let root = BTreeMap::from([(ROOT, ROOT)]);
        Self { core: root.clone(), model: root }
    }
}

impl Numbers {
    fn bind(&mut self, model: Ino, core: Ino) -> bool {
        *self.core.entry(model).or_insert(core) == core
            && *self.model.entry(core).or_insert(model) == model
    }

    fn same(&mut self, model: &Attr, core: &Attr) -> bool {
        model.mode == core.mode && model.nlink == core.nlink && self.bind(model.ino, core.ino)
    }
}

impl Translate for Numbers {
    /// From the core's to the model's. One that is not bound is none of the model's.
    fn ino(&self, ino: Ino) -> Ino {
        self.model.get(&ino).copied().unwrap_or(Ino::MAX)
    }

    fn handle(&self, handle: Handle) -> Handle {
        handle
    }

    fn dir(&self, handle: DirHandle) -> DirHandle {
        handle
    }
}

struct Search<'a> {
    history: &'a History,
    /// Hashes of the states that lead nowhere.
    seen: BTreeSet<u64>,
    order: Vec<usize>,
    best: Vec<usize>,
}

impl Search<'_> {
    fn go(&mut self, state: &State) -> bool {
        let records = &self.history.records;
        if self.order.len() > self.best.len() {
            self.best.clone_from(&self.order);
        }
        if self.order.len() == records.len() {
            return self.is_the_end(state);
        }
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) || self.seen.len() >= STATES_MAX {
            return false;
        }
        let waiting = |index: &usize| state.done & (1 << index) == 0;
        // Whoever began after another's end comes after it.
        let first_end = (0..records.len()).filter(waiting).map(|index| records[index].end).min();
        for index in (0..records.len()).filter(waiting) {
            if Some(records[index].begin) > first_end {
                break;
            }
            let mut next = state.clone();
            if !explain(&mut next, &records[index]) {
                continue;
            }
            next.done |= 1 << index;
            self.order.push(index);
            if self.go(&next) {
                return true;
            }
            self.order.pop();
        }
        false
    }

    /// Whether the tree is the one that was found.
    fn is_the_end(&self, state: &State) -> bool {
        let mut numbers = state.numbers.clone();
        let mut left = vec![(Vec::new(), ROOT)];
        let mut count = 0;
        while let Some((path, ino)) = left.pop() {
            let Ok(names) = state.model.names(ino) else { continue };
            for (name, &child) in names {
                let mut path: Vec<Bytes> = path.clone();
                path.push(name.clone());
                let (Some(core), Ok(model)) =
                    (self.history.end.get(&path), state.model.getattr(child))
                else {
                    return false;
                };
                if !numbers.same(&model, core) {
                    return false;
                }
                count += 1;
                left.push((path, child));
            }
        }
        count == self.history.end.len()
    }
}

/// Does one operation to the model; whether the answer is what the session was told.
fn explain(state: &mut State, record: &Record) -> bool {
    let action = record.action.translate(&state.numbers);
    let gone = action.inos().iter().any(|ino| state.model.getattr(*ino).is_err());
    let mut answer = action.apply(&mut state.model, &record.answer, Time::default());
    if let Ok(Answer::Created(attr, handle)) = answer {
        answer = state.model.release(handle).map(|()| Answer::Attr(attr));
    }
    match (&answer, &record.answer) {
        (Ok(Answer::Attr(model)), Ok(Answer::Attr(core))) => state.numbers.same(model, core),
        (Ok(model), Ok(core)) => model == core,
        // Of what is wrong with an operation on what is gone, the core may tell something else.
        (Err(_), Err(_)) if gone => true,
        (Err(model), Err(core)) => model == core,
        _ => false,
    }
}
