//! Several sessions at once: each does a few random things to a handful of names, on a seeded
//! schedule. Some serial order must explain every answer and the tree that is left.

use super::action::{Action, Answer};
use super::crew::{Crew, Task};
use super::jostled::Jostled;
use super::serial::{self, History, Record};
use super::target::Target;
use super::tree::Answered;
use crate::types::{Attr, Caller, FileType, Ino, OpenFlags, ROOT, RenameFlags, mode};
use crate::{Error, Kind, Result};
use base::exec::yield_now;
use base::sync::Mutex;
use base::thread::Joiner;
use base::{Clock, Random, Scheduler, SeededRandom, SimClock, Spawn, SystemClock, block_on};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How often the clock is moved on for threads that may wait for it.
const TICK: Duration = Duration::from_micros(100);

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Operations of each session. With more than about 20 in all, the search takes long.
    pub ops: usize,
    /// How many names there are.
    pub names: usize,
}

impl Plan {
    /// A small one, drawn from `random`.
    pub fn draw(random: &dyn Random) -> Self {
        Self { ops: 2 + random.below(5) as usize, names: 2 + random.below(2) as usize }
    }
}

/// Runs one race of these sessions on an empty volume. Returns what happened, in words, and what was
/// wrong with it. Everything is a function of the seed.
pub fn run<T: Target>(
    sessions: &[T],
    clock: &SimClock,
    seed: u64,
    plan: &Plan,
) -> (String, Result<(), String>) {
    whole(sessions, clock, seed, plan, |random, tasks| {
        let mut scheduler = Scheduler::new(random.next_u64(), clock.clone());
        tasks.into_iter().for_each(|task| scheduler.spawn(task));
        scheduler.run().map_err(|stuck| stuck.tasks)
    })
}

/// Runs one race on an engine that does not make anybody wait: once in `one_in` calls of the engine another session
/// gets on, in the midst of what the caller does. `beside` is done meanwhile.
pub fn run_jostled<T: Target>(
    sessions: &[T],
    clock: &SimClock,
    seed: u64,
    plan: &Plan,
    engine: &Jostled,
    one_in: u64,
    beside: Task,
) -> (String, Result<(), String>) {
    whole(sessions, clock, seed, plan, |random, mut tasks| {
        tasks.push(beside);
        let crew = Crew::new(random.next_u64(), tasks);
        let among = Arc::downgrade(&crew);
        engine.set_between(Some(Arc::new(move || {
            if let Some(crew) = among.upgrade() {
                crew.step();
            }
        })));
        engine.jostle(one_in);
        let outcome = crew.run(clock);
        engine.jostle(0);
        engine.set_between(None);
        outcome
    })
}

/// Runs one race with a thread for each session: what happens is not a function of the seed, but they truly overlap.
pub fn run_on_threads<T: Target>(
    sessions: &[T],
    clock: &SimClock,
    seed: u64,
    plan: &Plan,
    threads: &dyn Spawn,
) -> (String, Result<(), String>) {
    whole(sessions, clock, seed, plan, |_, tasks| {
        let left = Arc::new(AtomicUsize::new(tasks.len()));
        let mut joiners = Vec::new();
        for task in tasks {
            let leaves = Leaves(Arc::clone(&left));
            let body = Box::new(move || {
                let _leaves = leaves;
                block_on(task);
            });
            joiners.push(threads.spawn("race", body).map_err(|_| 1_usize)?);
        }
        // Somebody may wait for the clock.
        while left.load(Ordering::Acquire) > 0 {
            block_on(SystemClock::new().sleep(TICK));
            clock.advance_to_next();
        }
        joiners.into_iter().for_each(Joiner::join);
        Ok(())
    })
}

/// One thread less when it is dropped, also by a panic.
struct Leaves(Arc<AtomicUsize>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A race whose tasks `drive` runs to their end; it says how many never end.
fn whole<T: Target>(
    sessions: &[T],
    clock: &SimClock,
    seed: u64,
    plan: &Plan,
    drive: impl FnOnce(&SeededRandom, Vec<Task>) -> Result<(), usize>,
) -> (String, Result<(), String>) {
    let random = SeededRandom::new(seed);
    let log = Arc::new(Log::default());
    let known = Known::default();
    let outcome = match sessions.first() {
        None => Err("there is no session".to_owned()),
        Some(first) => prepare(first, clock, &random, plan, &log, known)
            .and_then(|known| {
                drive(&random, racers(sessions, &random, plan, &log, &known))
                    .map_err(|stuck| format!("{stuck} sessions wait for ever"))
            })
            .and_then(|()| look(first, clock, &random, &log)),
    };
    let history = History {
        records: {
            let mut records = std::mem::take(&mut *log.records.lock());
            records.sort_by_key(|record| record.begin);
            records
        },
        end: std::mem::take(&mut *log.end.lock()),
    };
    let outcome = outcome.and_then(|()| serial::check(&history));
    (history.to_string(), outcome)
}

/// Some directories and files, made by one session before the others come.
fn prepare<T: Target>(
    session: &T,
    clock: &SimClock,
    random: &SeededRandom,
    plan: &Plan,
    log: &Arc<Log>,
    known: Known,
) -> Result<Known, String> {
    let result = Arc::new(Mutex::new(known.clone()));
    let mut scheduler = Scheduler::new(random.next_u64(), clock.clone());
    let mut racer =
        Racer { session: session.clone(), log: log.clone(), known, random: random.fork(), task: 0 };
    let (into, plan) = (result.clone(), *plan);
    scheduler.spawn(async move {
        for _ in 0..racer.random.below(5) {
            let parent = racer.known.dir(&racer.random);
            let name = racer.name(&plan);
            let action = match racer.random.below(3) {
                0 => Action::Mknod {
                    caller: Caller::root(),
                    parent,
                    name,
                    mode: mode::FILE | 0o644,
                    rdev: 0,
                },
                _ => Action::Mkdir { caller: Caller::root(), parent, name, mode: 0o755 },
            };
            racer.act(action).await;
        }
        *into.lock() = racer.known;
    });
    scheduler.run().map_err(|_| "the first session waits for ever".to_owned())?;
    let known = result.lock().clone();
    Ok(known)
}

fn racers<T: Target>(
    sessions: &[T],
    random: &SeededRandom,
    plan: &Plan,
    log: &Arc<Log>,
    known: &Known,
) -> Vec<Task> {
    let racer = |(task, session): (usize, &T)| -> Task {
        let mut racer = Racer {
            session: session.clone(),
            log: log.clone(),
            known: known.clone(),
            random: random.fork(),
            task,
        };
        let plan = *plan;
        Box::pin(async move {
            for _ in 0..plan.ops {
                if racer.random.one_in(3) {
                    yield_now().await;
                }
                let action = racer.action(&plan);
                racer.act(action).await;
            }
        })
    };
    sessions.iter().enumerate().map(racer).collect()
}

/// Sees what is left when all are done.
fn look<T: Target>(
    session: &T,
    clock: &SimClock,
    random: &SeededRandom,
    log: &Arc<Log>,
) -> Result<(), String> {
    let mut scheduler = Scheduler::new(random.next_u64(), clock.clone());
    let failed = Arc::new(Mutex::new(None));
    let (session, log, into) = (session.clone(), log.clone(), failed.clone());
    scheduler.spawn(async move {
        if let Err(error) = tree(&session, &log).await {
            *into.lock() = Some(format!("the last look failed: {error:?}"));
        }
    });
    scheduler.run().map_err(|_| "the last look waits for ever".to_owned())?;
    let failed = failed.lock().take();
    failed.map_or(Ok(()), Err)
}

async fn tree<T: Target>(session: &T, log: &Log) -> Result<()> {
    let mut seen = BTreeSet::new();
    let mut left = vec![(Vec::new(), ROOT)];
    while let Some((path, ino)) = left.pop() {
        if !seen.insert(ino) {
            return Err(Error::new(Kind::Corrupt, format!("directory {ino} is in itself")));
        }
        let Answer::OpenedDir(handle) =
            session.apply(&Action::Opendir { caller: Caller::root(), ino }).await?
        else {
            return Err(Error::new(Kind::Corrupt, "no directory"));
        };
        let listed = session.apply(&Action::Readdir { handle, limit: 2, plus: true }).await?;
        session.apply(&Action::Releasedir { handle }).await?;
        let Answer::Entries(entries) = listed else {
            return Err(Error::new(Kind::Corrupt, "no listing"));
        };
        for (entry, attr) in entries.into_iter().skip(2) {
            let Some(attr) = attr else { continue };
            let mut path: Vec<Bytes> = path.clone();
            path.push(entry.name);
            if attr.file_type() == FileType::Directory {
                left.push((path.clone(), attr.ino));
            }
            log.end.lock().insert(path, attr);
        }
    }
    Ok(())
}

/// What happens, with a clock that counts.
#[derive(Default)]
struct Log {
    now: Mutex<u64>,
    records: Mutex<Vec<Record>>,
    end: Mutex<serial::Tree>,
}

impl Log {
    fn tick(&self) -> u64 {
        let mut now = self.now.lock();
        *now += 1;
        *now
    }
}

/// The inodes that a session has been told of.
#[derive(Debug, Clone, Default)]
struct Known {
    dirs: Vec<Ino>,
    files: Vec<Ino>,
}

impl Known {
    fn learn(&mut self, attr: &Attr) {
        let list = match attr.file_type() {
            FileType::Directory => &mut self.dirs,
            _ => &mut self.files,
        };
        if !list.contains(&attr.ino) && attr.ino != ROOT {
            list.push(attr.ino);
        }
    }

    fn dir(&self, random: &dyn Random) -> Ino {
        let at = random.below(self.dirs.len() as u64 + 1) as usize;
        self.dirs.get(at).copied().unwrap_or(ROOT)
    }
}

struct Racer<T> {
    session: T,
    log: Arc<Log>,
    known: Known,
    random: SeededRandom,
    task: usize,
}

impl<T: Target> Racer<T> {
    async fn act(&mut self, action: Action) {
        let begin = self.log.tick();
        let mut answer: Answered<Answer> = match self.session.apply(&action).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(error.kind()),
        };
        if let Ok(Answer::Created(attr, handle)) = answer {
            answer = match self.session.apply(&Action::Release { handle }).await {
                Ok(_) => Ok(Answer::Attr(attr)),
                Err(error) => Err(error.kind()),
            };
        }
        if let Ok(Answer::Attr(attr)) = &answer {
            self.known.learn(attr);
        }
        let end = self.log.tick();
        self.log.records.lock().push(Record { task: self.task, begin, end, action, answer });
    }

    fn name(&self, plan: &Plan) -> Bytes {
        const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        let many = plan.names.clamp(1, NAMES.len()) as u64;
        Bytes::from_static(NAMES[self.random.below(many) as usize])
    }

    fn action(&self, plan: &Plan) -> Action {
        let (random, caller) = (&self.random, Caller::root());
        let (parent, name) = (self.known.dir(random), self.name(plan));
        let file = match self.known.files.len() as u64 {
            0 => None,
            many => self.known.files.get(random.below(many) as usize).copied(),
        };
        match random.below(20) {
            0 | 1 => Action::Mknod { caller, parent, name, mode: mode::FILE | 0o644, rdev: 0 },
            2 | 3 => {
                let exclusive = random.one_in(2);
                let flags = OpenFlags { exclusive, ..OpenFlags::READ_WRITE };
                Action::Create { caller, parent, name, mode: 0o644, flags }
            }
            4..=6 => Action::Mkdir { caller, parent, name, mode: 0o755 },
            7 | 8 => Action::Unlink { caller, parent, name },
            9 | 10 => Action::Rmdir { caller, parent, name },
            11 | 12 if file.is_some() => {
                Action::Link { caller, ino: file.unwrap_or(ROOT), parent, name }
            }
            11..=13 => Action::Lookup { caller, parent, name },
            _ => {
                let (new_parent, new_name) = (self.known.dir(random), self.name(plan));
                let mut flags = RenameFlags::default();
                match random.below(6) {
                    0 => flags.no_replace = true,
                    1 => flags.exchange = true,
                    _ => {}
                }
                Action::Rename { caller, parent, name, new_parent, new_name, flags }
            }
        }
    }
}
