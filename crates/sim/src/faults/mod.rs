//! A disk that is full, fails, takes no writes or is cut short, at every operation of a volume's
//! life: the caller gets the right errno, nothing that was answered is lost, and the volume works
//! again when the cause is gone, or says that it must be opened again and works then.

use crate::life::picture::Picture;
use crate::life::script::Step;
use crate::life::stack::Stack;
use crate::life::{Lived, Reference, live, undisturbed};
use base::SimDisk;
use base::disk::{Cut, Fault, FaultKind};
use std::io::{self, Write};

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The first script.
    pub start: u64,
    /// How many scripts.
    pub seeds: u64,
    /// Steps of each.
    pub steps: usize,
    /// At every so many operations the fault strikes.
    pub every: u64,
}

impl Plan {
    /// Everything.
    pub const FULL: Plan = Plan { start: 1, seeds: 3, steps: 200, every: 1 };
}

/// No call may fail.
const NOTHING: i32 = 0;
const NO_SPACE: i32 = 28;
const INPUT_OUTPUT: i32 = 5;
const READ_ONLY: i32 = 30;

/// Kinds of faults, in words, and the errno that a caller may get.
const KINDS: [(&str, FaultKind, i32); 10] = [
    ("no space", FaultKind::Full, NO_SPACE),
    ("disk fills", FaultKind::Fills, NO_SPACE),
    ("one error", FaultKind::Error, INPUT_OUTPUT),
    ("errors", FaultKind::Errors, INPUT_OUTPUT),
    ("short write", FaultKind::ShortWrite, INPUT_OUTPUT),
    ("failed sync", FaultKind::SyncError, INPUT_OUTPUT),
    ("read-only", FaultKind::ReadOnly, READ_ONLY),
    ("one read error", FaultKind::ReadError, INPUT_OUTPUT),
    ("read errors", FaultKind::ReadErrors, INPUT_OUTPUT),
    ("slow disk", FaultKind::Slow, NOTHING),
];

/// What became of the lives that met a fault.
#[derive(Debug, Default)]
struct Tally {
    lives: u64,
    unnoticed: u64,
    went_on: u64,
    reopened: u64,
    lost: u64,
}

/// Runs the plan. True when nothing was lost.
pub fn run(plan: &Plan, out: &mut dyn Write) -> io::Result<bool> {
    let mut all = Tally::default();
    for (name, kind, errno) in &KINDS {
        let mut tally = Tally::default();
        for seed in plan.start..plan.start.saturating_add(plan.seeds) {
            if let Err(error) = one(seed, plan, *kind, *errno, &mut tally, &mut |failure| {
                writeln!(out, "faults: {name}: seed {seed}: {failure}")
            })? {
                tally.lost += 1;
                writeln!(out, "faults: {name}: seed {seed} cannot be lived: {error}")?;
            }
        }
        writeln!(
            out,
            "faults: {name}: {} positions, {} unnoticed, {} went on, {} opened again, {} lost",
            tally.lives, tally.unnoticed, tally.went_on, tally.reopened, tally.lost
        )?;
        all.lives += tally.lives;
        all.lost += tally.lost;
    }
    writeln!(out, "faults: {} positions of {} kinds, {} lost", all.lives, KINDS.len(), all.lost)?;
    Ok(all.lost == 0)
}

fn one(
    seed: u64,
    plan: &Plan,
    kind: FaultKind,
    errno: i32,
    tally: &mut Tally,
    failed: &mut dyn FnMut(String) -> io::Result<()>,
) -> io::Result<Result<(), String>> {
    let (reference, disk, stack) = match undisturbed(seed, plan.steps) {
        Ok(life) => life,
        Err(error) => return Ok(Err(error)),
    };
    drop(stack);
    let reads = matches!(kind, FaultKind::ReadError | FaultKind::ReadErrors);
    let positions = if reads { disk.reads() } else { disk.operations() };
    for at in (0..positions).step_by(plan.every.max(1) as usize) {
        tally.lives += 1;
        let disk = SimDisk::new();
        disk.set_fault(Fault { at, kind });
        if let Err(error) = met(&disk, seed, &reference, errno, tally) {
            tally.lost += 1;
            failed(format!("at {at}: {error}"))?;
        }
    }
    Ok(Ok(()))
}

/// One life with a fault in it.
fn met(
    disk: &SimDisk,
    seed: u64,
    reference: &Reference,
    errno: i32,
    tally: &mut Tally,
) -> Result<(), String> {
    let (stack, lived) = live(disk, seed, reference);
    let Some(error) = &lived.error else {
        tally.unnoticed += 1;
        disk.clear_faults();
        drop(stack);
        return kept(disk, seed, reference, &lived);
    };
    let words = error.to_string();
    // A write that cannot be taken back, and a sync that failed, are errors of the store, whatever the
    // disk said.
    let unknown = error.errno() == INPUT_OUTPUT && says_what_to_do(&words);
    if error.errno() != errno && (errno == NOTHING || !unknown) {
        return Err(format!("step {}: errno {} for {error}", lived.answered, error.errno()));
    }
    let Some(stack) = stack else {
        disk.clear_faults();
        tally.reopened += 1;
        return kept(disk, seed, reference, &lived);
    };
    let in_restart = matches!(reference.steps.get(lived.answered), Some(Step::Restart));
    if errno == NO_SPACE && !in_restart {
        // Reading goes on while the disk is full.
        looks_right(&stack, reference, &lived).map_err(|error| format!("while full: {error}"))?;
    }
    disk.clear_faults();
    // What power would leave now.
    let dropped = disk.reboot(Cut::Dropped, seed);
    if !in_restart {
        looks_right(&stack, reference, &lived)?;
    }
    match stack.probe() {
        Ok(()) => tally.went_on += 1,
        Err(again) => {
            let again = again.to_string();
            if !says_what_to_do(&words) && !says_what_to_do(&again) && !in_restart {
                return Err(format!("it does not go on, and does not say what to do: {again}"));
            }
            tally.reopened += 1;
        }
    }
    drop(stack);
    kept(disk, seed, reference, &lived)?;
    survived(&dropped, seed, reference, lived.synced, lived.answered)
        .map_err(|error| format!("after a cut: {error}"))
}

fn says_what_to_do(words: &str) -> bool {
    words.contains("open the store again") || words.contains("mount the volume again")
}

fn looks_right(stack: &Stack, reference: &Reference, lived: &Lived) -> Result<(), String> {
    let picture = stack.picture()?.without_times();
    matches_some(&picture, reference, lived.answered, lived.answered)
}

fn kept(disk: &SimDisk, seed: u64, reference: &Reference, lived: &Lived) -> Result<(), String> {
    if !lived.begun {
        return match Stack::check_disk(disk, seed) {
            Ok(found) if found.is_empty() => Ok(()),
            Ok(found) => Err(format!("a check finds {found:?}")),
            Err(error) if error.kind() == fs::Kind::NotFound => Ok(()),
            Err(error) => Err(format!("it cannot be opened again: {error}")),
        };
    }
    survived(disk, seed, reference, lived.answered, lived.answered)
}

fn survived(
    disk: &SimDisk,
    seed: u64,
    reference: &Reference,
    promised: usize,
    answered: usize,
) -> Result<(), String> {
    let stack =
        Stack::open(disk, seed ^ 2).map_err(|error| format!("not opened again: {error}"))?;
    let picture = stack.picture()?.without_times();
    matches_some(&picture, reference, promised, answered)?;
    stack.probe().map_err(|error| format!("opened again, it does not go on: {error}"))?;
    let found = stack.check().map_err(|error| error.to_string())?;
    if !found.is_empty() {
        return Err(format!("a check finds {found:?}"));
    }
    Ok(())
}

fn matches_some(
    picture: &Picture,
    reference: &Reference,
    promised: usize,
    answered: usize,
) -> Result<(), String> {
    // What a probe that failed half way has left is none of the script's.
    let mut picture = picture.clone();
    picture.0.remove("/.probe");
    let last = reference.pictures.len().min(answered + 2);
    let right = |right: &Picture| picture.differs(&right.clone().without_times());
    if reference.pictures[promised..last].iter().any(|one| right(one).is_none()) {
        return Ok(());
    }
    let differs = right(&reference.pictures[promised]).unwrap_or_default();
    Err(format!("{promised} steps were promised, but {differs}"))
}
