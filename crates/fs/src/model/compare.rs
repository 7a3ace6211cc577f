//! Does the same to the core and to the model, one step after the other, and compares.

use super::action::{Action, Answer};
use super::agree::{self, Ids, Times};
use super::draw::{Callers, Mix, Sizes};
use super::target::{Target, wall};
use super::tree::{Answered, Model};
use super::walk::Walks;
use crate::types::{
    Caller, DirHandle, FILE_BYTES_MAX, Handle, Ino, ROOT, SetAttr, XATTR_BYTES_MAX,
};
use crate::{Kind, Session};
use base::sync::Mutex;
use base::{Random, Scheduler, SeededRandom, SimClock};
use std::sync::Arc;
use std::time::Duration;

/// Rounds of background work after which there should be none left.
const ROUNDS_MAX: usize = 1000;

/// What the core adds to the value of an extended attribute, at most.
const VALUE_SLACK: usize = 1024;

/// The largest file of a home that is in memory.
const LOCAL_BYTES: u64 = 8 << 20;

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How many actions.
    pub steps: usize,
    /// After so many actions everything is compared.
    pub whole_every: usize,
    /// The core's sizes.
    pub sizes: Sizes,
    /// What kind of actions.
    pub mix: Mix,
    /// By whom.
    pub callers: Callers,
}

impl Plan {
    /// So many steps of a mix, with the sizes of the session's volume.
    pub fn of(session: &Session, steps: usize, mix: Mix) -> Self {
        let record = session.volume().record();
        let value = session.volume().world().store.capabilities().value_bytes_max;
        let sizes = Sizes {
            inline_bytes: record.inline_bytes_max.into(),
            block_bytes: record.block_bytes.into(),
            chunk_bytes: record.chunk_bytes.into(),
            xattr_bytes: value.saturating_sub(VALUE_SLACK).min(XATTR_BYTES_MAX),
            file_bytes: if session.0.lends { LOCAL_BYTES } else { FILE_BYTES_MAX },
        };
        Self { steps, whole_every: 50, sizes, mix, callers: Callers::Checked }
    }

    /// The same, as a mount would ask.
    #[must_use]
    pub fn mounted(mut self) -> Self {
        self.callers = Callers::Mounted;
        self
    }
}

/// Runs [`run`] on a schedule of its own, which moves the clock when the core waits. Returns what was
/// done, and what was wrong.
pub fn simulate<T: Target>(
    target: &T,
    clock: &SimClock,
    seed: u64,
    plan: &Plan,
) -> (String, Result<(), String>) {
    let trace = Arc::new(Mutex::new(String::new()));
    let outcome = Arc::new(Mutex::new(Err("it never ended".to_owned())));
    let mut scheduler = Scheduler::new(seed, clock.clone());
    let (target, clock, plan) = (target.clone(), clock.clone(), *plan);
    let (into, end) = (Arc::clone(&trace), Arc::clone(&outcome));
    scheduler.spawn(async move {
        let random = SeededRandom::new(seed);
        let mut log = |line: String| {
            let mut trace = into.lock();
            trace.push_str(&line);
            trace.push('\n');
        };
        let ended = run(&target, &clock, &random, &plan, &mut log).await;
        *end.lock() = ended;
    });
    let stuck = scheduler.run().err();
    let trace = std::mem::take(&mut *trace.lock());
    let outcome = outcome.lock().clone();
    match stuck {
        Some(_) => (trace, Err("it waits for something that never comes".to_owned())),
        None => (trace, outcome),
    }
}

/// Runs random actions on an empty volume and on a model, and says where they first disagree. `clock`
/// is the core's; something else must move it when the core waits.
pub async fn run<T: Target>(
    target: &T,
    clock: &SimClock,
    random: &dyn Random,
    plan: &Plan,
    log: &mut (impl FnMut(String) + Send),
) -> Result<(), String> {
    let root = target.apply(&Action::GetAttr { ino: ROOT }).await;
    let Ok(Answer::Attr(root)) = root else {
        return Err(format!("the root cannot be seen: {root:?}"));
    };
    let mut run = Compare {
        target,
        clock,
        random,
        model: Model::new(&root),
        ids: Ids::new(),
        times: Times::new(plan.sizes.is_local()),
        walks: Walks::default(),
        gone: Vec::new(),
    };
    if !random.one_in(4) {
        let set = SetAttr { mode: Some(0o777), ..SetAttr::default() };
        let caller = Caller::root();
        run.step(&Action::SetAttr { caller, ino: ROOT, set, handle: None }).await?;
    }
    for step in 0..plan.steps {
        let place = |error: String| format!("step {step} of {}: {error}", plan.steps);
        clock.advance(Duration::from_nanos(1 + random.below(20_000_000)));
        let action = Action::random(random, &run.model, plan);
        let answer = run.step(&action).await.map_err(place)?;
        log(format!("{step}: {action:?} -> {answer}"));
        for look in run.follow_ups(&action) {
            let looked = run.step(&look).await;
            looked.map_err(|error| place(format!("after {action:?}: {error}")))?;
        }
        if step % plan.whole_every == plan.whole_every - 1 {
            run.whole().await.map_err(place)?;
        }
    }
    run.end().await.map_err(|error| format!("at the end: {error}"))
}

/// A comparison under way.
pub(super) struct Compare<'a, T> {
    pub(super) target: &'a T,
    pub(super) clock: &'a SimClock,
    pub(super) random: &'a dyn Random,
    pub(super) model: Model,
    pub(super) ids: Ids,
    pub(super) times: Times,
    walks: Walks,
    /// Inodes of the core that nothing can reach any more.
    gone: Vec<Ino>,
}

impl<T: Target> Compare<'_, T> {
    /// Does one action to both. Returns the answer, in words.
    async fn step(&mut self, action: &Action) -> Result<String, String> {
        let mut asked = action.translate(&self.ids);
        if let (Action::ReaddirPage { cookie, .. }, Action::ReaddirPage { handle, .. }) =
            (&mut asked, action)
        {
            *cookie = self.walks.cookie(*handle, &self.model);
        }
        let before = wall(self.clock);
        let answered = self.target.apply(&asked).await;
        let after = wall(self.clock);
        let told: Answered<Answer> = match &answered {
            Ok(answer) => Ok(answer.clone()),
            Err(error) => Err(error.kind()),
        };
        let known = self.model.inos();
        let right = action.apply(&mut self.model, &told, after);
        self.times.note(action, &self.model, told.is_ok(), before, after);
        let agreed = match action {
            Action::ReaddirPage { handle, .. } => {
                self.walks.page(*handle, &self.model, &self.ids, &told)
            }
            _ => agree::answers(
                action,
                &told,
                &right,
                &self.model,
                &mut self.ids,
                &self.times,
                self.target.keeps_atime(),
            ),
        };
        agreed.map_err(|why| {
            let core = match &answered {
                Ok(_) => agree::show(&told),
                Err(error) => format!("{error:?}"),
            };
            let model = agree::show(&right);
            format!("{action:?}\n  {why}\n  core:  {core}\n  model: {model}")
        })?;
        for ino in known.difference(&self.model.inos()) {
            self.gone.extend(self.ids.forget(*ino));
        }
        if let Action::Readdir { handle, .. } = action {
            self.walks.rewound(*handle);
        }
        self.walks.changed(&self.model);
        Ok(agree::show(&told))
    }

    /// What is looked at after an action, to see its effects at once.
    fn follow_ups(&self, action: &Action) -> Vec<Action> {
        let mut after = Vec::new();
        // A whiteout has an inode that nobody has seen yet.
        if let Action::Rename { parent, name, flags, .. } = action
            && flags.whiteout
            && self.model.child(*parent, name).is_some()
        {
            let caller = Caller::root();
            after.push(Action::Lookup { caller, parent: *parent, name: name.clone() });
        }
        let mut inos = action.inos();
        inos.retain(|ino| self.model.getattr(*ino).is_ok());
        inos.dedup();
        after.extend(inos.into_iter().map(|ino| Action::GetAttr { ino }));
        after
    }

    /// Releases everything, lets the core tidy up, and compares once more.
    async fn end(&mut self) -> Result<(), String> {
        self.whole().await?;
        let files: Vec<u64> = self.model.files.keys().copied().collect();
        for handle in files {
            self.step(&Action::Release { handle: Handle(handle) }).await?;
        }
        let dirs: Vec<u64> = self.model.dirs.keys().copied().collect();
        for handle in dirs {
            self.step(&Action::Releasedir { handle: DirHandle(handle) }).await?;
        }
        let mut rounds = 0;
        loop {
            self.clock.advance(Duration::from_secs(1));
            let quiet = self.target.maintain().await;
            if quiet.map_err(|error| format!("background work failed: {error:?}"))? {
                break;
            }
            rounds += 1;
            if rounds > ROUNDS_MAX {
                return Err("background work never ends".to_owned());
            }
        }
        self.whole().await?;
        for &ino in &self.gone {
            let seen = self.target.apply(&Action::GetAttr { ino }).await;
            if seen.as_ref().err().map(crate::Error::kind) != Some(Kind::NotFound) {
                return Err(format!("inode {ino} of the core should be gone: {seen:?}"));
            }
        }
        Ok(())
    }
}
