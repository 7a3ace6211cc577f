//! A session that is used as a mount uses it: what can be done without a transaction is tried so first. Counts which
//! way each kind of action went.

use super::action::{Action, Answer};
use super::target::Target;
use crate::{Asked, Result, Session};
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests that are under way at once, at most: so many slots their replies have.
const SLOTS: u64 = 4;

/// How often actions of a kind were done, by their names.
pub type Ways = BTreeMap<String, Way>;

/// How often one kind of action was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Way {
    /// Without a transaction.
    pub short: u64,
    /// By a transaction. What failed counts nowhere.
    pub long: u64,
}

/// A session and the count. Clones share both.
#[derive(Debug, Clone)]
pub struct Mounted {
    session: Session,
    ways: Arc<Mutex<Ways>>,
    asked: Arc<AtomicU64>,
}

impl Mounted {
    /// A session whose actions are counted.
    pub fn new(session: Session) -> Self {
        Self { session, ways: Arc::default(), asked: Arc::default() }
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The count so far. It is exact as long as one action is done at a time.
    pub fn ways(&self) -> Ways {
        self.ways.lock().clone()
    }

    /// The session as it is used for one request: where it outlives its process, replies are kept of what must not
    /// be done twice.
    fn once(&self, action: &Action) -> Session {
        use Action as A;
        match action {
            A::Create { .. }
            | A::Mknod { .. }
            | A::Mkdir { .. }
            | A::Symlink { .. }
            | A::Link { .. }
            | A::Unlink { .. }
            | A::Rmdir { .. }
            | A::Rename { .. } => {
                let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
                let slot = (number % SLOTS) as u32 + 1;
                self.session.asked(Asked { number, slot, again: false })
            }
            _ => self.session.clone(),
        }
    }

    fn note(&self, action: &Action, short: bool) {
        let words = format!("{action:?}");
        let name = words.split([' ', '{']).next().unwrap_or_default().to_owned();
        let mut ways = self.ways.lock();
        let way = ways.entry(name).or_default();
        *(if short { &mut way.short } else { &mut way.long }) += 1;
    }
}

impl Target for Mounted {
    async fn apply(&self, action: &Action) -> Result<Answer> {
        if let Action::Lookup { caller, parent, name } = action
            && let Some(found) = self.session.lookup_quickly(caller, *parent, name)
        {
            self.note(action, true);
            return found.map(|attr| super::target::plain(&self.session, Answer::Attr(attr)));
        }
        let before = self.session.counts().short_changes;
        let answer = self.once(action).apply(action).await;
        if answer.is_ok() {
            self.note(action, self.session.counts().short_changes > before);
        }
        answer
    }

    async fn maintain(&self) -> Result<bool> {
        Target::maintain(&self.session).await
    }

    fn keeps_atime(&self) -> bool {
        self.session.keeps_atime()
    }
}
