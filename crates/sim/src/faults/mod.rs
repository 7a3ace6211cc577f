//! A disk that is full, fails, takes no writes or is cut short, at every operation of a volume's
//! life: the caller gets the right errno, nothing that was answered is lost, and the volume works
//! again when the cause is gone, or says that it must be opened again and works then.

use crate::life::machine::Machine;
use crate::life::promise::End;
use crate::life::script::Step;
use crate::life::stack::Stack;
use crate::life::{Lived, Reference, Story, live, undisturbed};
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
    /// Steps of each where files are in a home.
    pub home_steps: usize,
    /// At every so many operations the fault strikes.
    pub every: u64,
}

impl Plan {
    /// Everything.
    pub const FULL: Plan = Plan { start: 1, seeds: 3, steps: 200, home_steps: 160, every: 1 };
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
            for (home, steps) in [(false, plan.steps), (true, plan.home_steps)] {
                let story = Story { seed, steps, home };
                let form = story.form();
                if steps == 0 {
                    continue;
                }
                if let Err(error) = one(&story, plan, *kind, *errno, &mut tally, &mut |failure| {
                    writeln!(out, "faults: {name}: seed {seed}, {form}: {failure}")
                })? {
                    tally.lost += 1;
                    writeln!(out, "faults: {name}: seed {seed}, {form} cannot be lived: {error}")?;
                }
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
    story: &Story,
    plan: &Plan,
    kind: FaultKind,
    errno: i32,
    tally: &mut Tally,
    failed: &mut dyn FnMut(String) -> io::Result<()>,
) -> io::Result<Result<(), String>> {
    let (reference, machine, stack) = match undisturbed(story) {
        Ok(life) => life,
        Err(error) => return Ok(Err(error)),
    };
    drop(stack);
    let reads = matches!(kind, FaultKind::ReadError | FaultKind::ReadErrors);
    let forgets = forgets(kind);
    let positions = if reads { machine.disk.reads() } else { machine.disk.operations() };
    for at in (0..positions).step_by(plan.every.max(1) as usize) {
        tally.lives += 1;
        let machine = match Machine::new(story) {
            Ok(machine) => machine,
            Err(error) => return Ok(Err(error)),
        };
        machine.disk.set_fault(Fault { at, kind });
        if let Err(error) = met(&machine, &reference, errno, forgets, tally) {
            tally.lost += 1;
            failed(format!("at {at}: {error}"))?;
        }
    }
    Ok(Ok(()))
}

/// One life with a fault in it.
fn met(
    machine: &Machine,
    reference: &Reference,
    errno: i32,
    forgets: bool,
    tally: &mut Tally,
) -> Result<(), String> {
    let (disk, seed) = (&machine.disk, reference.story.seed);
    let (stack, lived) = live(machine, reference, false);
    let Some(error) = &lived.error else {
        tally.unnoticed += 1;
        disk.clear_faults();
        drop(stack);
        return kept(machine, reference, &lived, forgets);
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
        return kept(machine, reference, &lived, forgets);
    };
    let in_restart = matches!(reference.steps.get(lived.answered), Some(Step::Restart));
    if errno == NO_SPACE && !in_restart {
        // Reading goes on while the disk is full.
        looks_right(&stack, reference, &lived).map_err(|error| format!("while full: {error}"))?;
    }
    disk.clear_faults();
    // What power would leave now.
    let dropped = machine.after(Cut::Dropped, seed);
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
    kept(machine, reference, &lived, forgets)?;
    survived(&dropped, reference, &lived, End::Power, forgets)
        .map_err(|error| format!("after a cut: {error}"))
}

fn says_what_to_do(words: &str) -> bool {
    words.contains("open the store again") || words.contains("mount the volume again")
}

fn looks_right(stack: &Stack, reference: &Reference, lived: &Lived) -> Result<(), String> {
    reference.explains(&stack.picture()?, lived, End::Process, false)
}

fn kept(
    machine: &Machine,
    reference: &Reference,
    lived: &Lived,
    forgets: bool,
) -> Result<(), String> {
    if !lived.begun {
        return match Stack::check_disk(machine, &reference.story) {
            Ok(found) if found.is_empty() => Ok(()),
            Ok(found) => Err(format!("a check finds {found:?}")),
            Err(error) if error.kind() == fs::Kind::NotFound => Ok(()),
            Err(error) => Err(format!("it cannot be opened again: {error}")),
        };
    }
    survived(machine, reference, lived, End::Process, forgets)
}

fn survived(
    machine: &Machine,
    reference: &Reference,
    lived: &Lived,
    end: End,
    forgets: bool,
) -> Result<(), String> {
    let stack = Stack::open(machine, &reference.story)
        .map_err(|error| format!("not opened again: {error}"))?;
    reference.explains(&stack.picture()?, lived, end, false)?;
    stack.probe().map_err(|error| format!("opened again, it does not go on: {error}"))?;
    let found = stack.check().map_err(|error| error.to_string())?;
    if !found.is_empty() {
        return Err(format!("a check finds {found:?}"));
    }
    stays(machine, reference, &stack, forgets)
}

/// Whether syncs fail and forget what they should have written, while nothing can be written at all: not even which
/// files of the home that was.
fn forgets(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Errors | FaultKind::ReadOnly)
}

/// What is there when a session ends in good order is there after the loss of power, also what a sync that failed before
/// has forgotten. Where it was one of a file of the home, and that could not be noted before the process died, its bytes
/// and the file itself are not promised: who was told that it failed must write it again.
fn stays(
    machine: &Machine,
    reference: &Reference,
    stack: &Stack,
    forgets: bool,
) -> Result<(), String> {
    let mut before = stack.picture()?;
    stack.stop().map_err(|error| format!("opened again, it does not stop: {error}"))?;
    let left = machine.after(Cut::Dropped, reference.story.seed);
    let stack = Stack::open(&left, &reference.story)
        .map_err(|error| format!("not opened after all was synced: {error}"))?;
    let mut after = stack.picture()?;
    if reference.story.home && forgets {
        (before, after) = (before.hollow(), after.hollow());
        let is_lost = |error: &String| error.contains("of the local home is missing");
        after.names.retain(|name, look| {
            let lost = look.as_ref().is_err_and(is_lost);
            // The name is there.
            !(lost && before.names.remove(name).is_some())
        });
    }
    match after.differs(&before) {
        Some(differs) => Err(format!("after all was synced {differs}")),
        None => Ok(()),
    }
}
