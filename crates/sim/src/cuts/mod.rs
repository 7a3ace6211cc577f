//! Power is cut at every operation of a volume's life, and what was not synced is kept, dropped,
//! reordered and torn. Whatever the disk then holds, the volume keeps its promise: see
//! docs/semantics.md.

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
    /// Every so many operations power is cut.
    pub every: u64,
}

impl Plan {
    /// Everything.
    pub const FULL: Plan = Plan { start: 1, seeds: 6, steps: 220, every: 1 };
}

const KINDS: [Cut; 4] = [Cut::Kept, Cut::Dropped, Cut::Reordered, Cut::Torn];

/// Runs the plan. True when nothing was lost.
pub fn run(plan: &Plan, out: &mut dyn Write) -> io::Result<bool> {
    let (mut cuts, mut lost) = (0u64, 0u64);
    for seed in plan.start..plan.start.saturating_add(plan.seeds) {
        match one(seed, plan, &mut cuts, &mut |failure| {
            lost += 1;
            writeln!(out, "cuts: seed {seed}: {failure}")
        })? {
            Ok((operations, short)) => {
                let steps = plan.steps;
                writeln!(
                    out,
                    "cuts: seed {seed}: {steps} steps, {operations} operations, {short} changes the short way"
                )?;
            }
            Err(error) => {
                lost += 1;
                writeln!(out, "cuts: seed {seed} cannot be lived: {error}")?;
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
    seed: u64,
    plan: &Plan,
    cuts: &mut u64,
    failed: &mut dyn FnMut(String) -> io::Result<()>,
) -> io::Result<Result<(u64, u64), String>> {
    let (reference, disk, stack) = match undisturbed(seed, plan.steps) {
        Ok(life) => life,
        Err(error) => return Ok(Err(error)),
    };
    let operations = disk.operations();
    let short = stack.as_ref().map_or(0, Stack::short_changes);
    // The disk forgets nothing: what is dropped now is not looked at.
    drop(stack);
    for at in (0..operations).step_by(plan.every.max(1) as usize) {
        let disk = SimDisk::new();
        disk.set_fault(Fault { at, kind: FaultKind::PowerCut });
        let (stack, lived) = live(&disk, seed, &reference);
        // Power is gone before the process can do anything more.
        let images: Vec<(Cut, SimDisk)> =
            KINDS.iter().map(|cut| (*cut, disk.reboot(*cut, seed ^ at))).collect();
        drop(stack);
        *cuts += 1;
        for (cut, image) in images {
            if let Err(error) = survived(&image, seed, &reference, &lived, cut) {
                failed(format!("cut at {at}, {cut:?}, step {}: {error}", lived.answered))?;
            }
        }
    }
    Ok(Ok((operations, short)))
}

/// Opens what a cut left, and checks the promise.
fn survived(
    disk: &SimDisk,
    seed: u64,
    reference: &Reference,
    lived: &Lived,
    cut: Cut,
) -> Result<(), String> {
    let found = Stack::check_disk(disk, seed);
    let found = match found {
        Ok(found) => found,
        // A volume whose making was cut short is not there, or can be made now.
        Err(error) if !lived.begun && error.kind() == fs::Kind::NotFound => return Ok(()),
        Err(error) => return Err(format!("it cannot be opened: {error}")),
    };
    if !found.is_empty() {
        return Err(format!("a check finds {found:?}"));
    }
    let stack = Stack::open(disk, seed ^ 2).map_err(|error| format!("no session: {error}"))?;
    let picture = stack.picture()?;
    let promised = if cut == Cut::Kept { lived.answered } else { lived.synced };
    let last = reference.pictures.len().min(lived.answered + 2);
    let there = reference.pictures[promised..last].contains(&picture);
    if !there {
        let nearest = &reference.pictures[promised];
        let differs = picture.differs(nearest).unwrap_or_default();
        return Err(format!("{promised} steps were promised, but {differs}"));
    }
    // It goes on, and tidies up behind the dead.
    let tidy = |error: fs::Error| format!("it does not go on: {error}");
    stack.probe().map_err(tidy)?;
    stack.settle().map_err(tidy)?;
    stack.stop().map_err(tidy)?;
    let found = stack.check().map_err(tidy)?;
    if !found.is_empty() {
        return Err(format!("after going on a check finds {found:?}"));
    }
    Ok(())
}
