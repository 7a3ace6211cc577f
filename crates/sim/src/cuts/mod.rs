//! Power is cut at every operation of a volume's life, and what was not synced is kept, dropped,
//! reordered and torn. Whatever the disk then holds, the volume keeps its promise: see
//! docs/semantics.md.

use crate::life::machine::Machine;
use crate::life::promise::End;
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
    /// Every so many operations power is cut.
    pub every: u64,
}

impl Plan {
    /// Everything.
    pub const FULL: Plan = Plan { start: 1, seeds: 6, steps: 220, home_steps: 180, every: 1 };
}

/// What becomes of what was not synced. `None`: the machine goes on, and only the process has died.
const KINDS: [Option<Cut>; 5] =
    [Some(Cut::Kept), Some(Cut::Dropped), Some(Cut::Reordered), Some(Cut::Torn), None];

/// Runs the plan. True when nothing was lost.
pub fn run(plan: &Plan, out: &mut dyn Write) -> io::Result<bool> {
    let (mut cuts, mut lost) = (0u64, 0u64);
    for seed in plan.start..plan.start.saturating_add(plan.seeds) {
        for (home, steps) in [(false, plan.steps), (true, plan.home_steps)] {
            let story = Story { seed, steps, home };
            let form = story.form();
            if steps == 0 {
                continue;
            }
            match one(&story, plan.every, &mut cuts, &mut |failure| {
                lost += 1;
                writeln!(out, "cuts: seed {seed}, {form}: {failure}")
            })? {
                Ok((operations, short)) => {
                    writeln!(
                        out,
                        "cuts: seed {seed}, {form}: {steps} steps, {operations} operations, {short} changes the \
                         short way"
                    )?;
                }
                Err(error) => {
                    lost += 1;
                    writeln!(out, "cuts: seed {seed}, {form} cannot be lived: {error}")?;
                }
            }
        }
    }
    writeln!(out, "cuts: {cuts} cuts x {} kinds, {lost} lost", KINDS.len())?;
    if lost > 0 {
        writeln!(out, "cuts: replay one seed with: sim cuts --seed N")?;
    }
    Ok(lost == 0)
}

fn one(
    story: &Story,
    every: u64,
    cuts: &mut u64,
    failed: &mut dyn FnMut(String) -> io::Result<()>,
) -> io::Result<Result<(u64, u64), String>> {
    let (reference, machine, stack) = match undisturbed(story) {
        Ok(life) => life,
        Err(error) => return Ok(Err(error)),
    };
    let operations = machine.disk.operations();
    let short = stack.as_ref().map_or(0, Stack::short_changes);
    // The disk forgets nothing: what is dropped now is not looked at.
    drop(stack);
    for at in (story.seed % every.max(1)..operations).step_by(every.max(1) as usize) {
        let machine = match Machine::new(story) {
            Ok(machine) => machine,
            Err(error) => return Ok(Err(error)),
        };
        machine.disk.set_fault(Fault { at, kind: FaultKind::PowerCut });
        let (stack, lived) = live(&machine, &reference, true);
        // Power is gone before the process can do anything more.
        let left: Vec<(Option<Cut>, Machine)> = KINDS
            .iter()
            .map(|kind| match kind {
                Some(cut) => (*kind, machine.after(*cut, story.seed ^ at)),
                None => (*kind, machine.next_process()),
            })
            .collect();
        drop(stack);
        *cuts += 1;
        for (kind, left) in left {
            if let Err(error) = survived(&left, &reference, &lived, kind) {
                let kind = kind.map_or("the process died".to_owned(), |cut| format!("{cut:?}"));
                failed(format!("cut at {at}, {kind}, step {}: {error}", lived.answered))?;
            }
        }
    }
    Ok(Ok((operations, short)))
}

/// Opens what a cut left, and checks the promise.
fn survived(
    left: &Machine,
    reference: &Reference,
    lived: &Lived,
    kind: Option<Cut>,
) -> Result<(), String> {
    let found = Stack::check_disk(left, &reference.story);
    let found = match found {
        Ok(found) => found,
        // A volume whose making was cut short is not there, or can be made now.
        Err(error) if !lived.begun && error.kind() == fs::Kind::NotFound => return Ok(()),
        Err(error) => return Err(format!("it cannot be opened: {error}")),
    };
    if !found.is_empty() {
        return Err(format!("a check finds {found:?}"));
    }
    let stack =
        Stack::open(left, &reference.story).map_err(|error| format!("no session: {error}"))?;
    // What is in the store is there, too, when all was kept that was not synced.
    let end = match kind {
        None => End::Process,
        Some(Cut::Kept) if !reference.story.home => End::Process,
        Some(_) => End::Power,
    };
    reference.explains(&stack.picture()?, lived, end, true)?;
    // It goes on, and tidies up behind the dead.
    let tidy = |error: fs::Error| format!("it does not go on: {error}");
    stack.probe().map_err(tidy)?;
    stack.settle().map_err(tidy)?;
    reference
        .explains(&stack.picture()?, lived, end, true)
        .map_err(|error| format!("settled: {error}"))?;
    stack.stop().map_err(tidy)?;
    let found = stack.check().map_err(tidy)?;
    if !found.is_empty() {
        return Err(format!("after going on a check finds {found:?}"));
    }
    Ok(())
}
