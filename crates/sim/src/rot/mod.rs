//! Rot: a flipped bit, a zeroed page, a cut or lost file, swapped pages, in each file of a store.
//! What is read is what was written, or an error that names the file; and what is left can be
//! recovered without writing to the disk. Files of a home have no checksums: see `files`.

mod files;

use crate::life::machine::Machine;
use crate::life::picture::Picture;
use crate::life::stack::Stack;
use crate::life::{Story, undisturbed};
use base::disk::Disk;
use base::{Random, SeededRandom, SimDisk};
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
    /// Every so many bytes a bit is flipped.
    pub flip_every: usize,
    /// Every so many pages a page is damaged.
    pub page_every: usize,
}

impl Plan {
    /// Everything.
    pub const FULL: Plan =
        Plan { start: 1, seeds: 3, steps: 160, home_steps: 140, flip_every: 37, page_every: 1 };
}

const PAGE_BYTES: usize = 4_096;
/// Blocks of a volume that are damaged, one after the other.
const BLOCKS_MAX: usize = 60;

#[derive(Debug, Default)]
struct Tally {
    damages: u64,
    harmless: u64,
    refused: u64,
    names_hidden: u64,
    names: u64,
    recovered: u64,
    blocks: u64,
    repaired: u64,
    files: files::Tally,
    wrong: u64,
}

/// Runs the plan. True when nothing wrong was read.
pub fn run(plan: &Plan, out: &mut dyn Write) -> io::Result<bool> {
    let mut tally = Tally::default();
    for seed in plan.start..plan.start.saturating_add(plan.seeds) {
        for (home, steps) in [(false, plan.steps), (true, plan.home_steps)] {
            let story = Story { seed, steps, home };
            let form = story.form();
            if steps == 0 {
                continue;
            }
            let failed =
                &mut |failure: String| writeln!(out, "rot: seed {seed}, {form}: {failure}");
            if let Err(error) = one(&story, plan, &mut tally, failed)? {
                tally.wrong += 1;
                writeln!(out, "rot: seed {seed}, {form} cannot be lived: {error}")?;
            }
        }
    }
    writeln!(
        out,
        "rot: {} damages, {} harmless, {} refused at opening, {} of {} names unreadable in the \
         others, {} recovered, {} wrong",
        tally.damages,
        tally.harmless,
        tally.refused,
        tally.names_hidden,
        tally.names,
        tally.recovered,
        tally.wrong
    )?;
    writeln!(
        out,
        "rot: {} blocks damaged where there is parity, {} repaired",
        tally.blocks, tally.repaired
    )?;
    let files = &tally.files;
    writeln!(
        out,
        "rot: {} damages of files of the home, {} of nobody's, {} told by a check, {} by an error, {} in the \
         bytes alone",
        files.damages, files.free, files.found, files.errors, files.silent
    )?;
    Ok(tally.wrong == 0)
}

fn one(
    story: &Story,
    plan: &Plan,
    tally: &mut Tally,
    failed: &mut dyn FnMut(String) -> io::Result<()>,
) -> io::Result<Result<(), String>> {
    let (reference, machine, stack) = match undisturbed(story) {
        Ok(life) => life,
        Err(error) => return Ok(Err(error)),
    };
    // Closed: what a killed process wrote last looks like a torn write when it is damaged.
    let stopped = stack.as_ref().map_or(Ok(()), Stack::stop);
    drop(stack);
    if let Err(error) = stopped {
        return Ok(Err(error.to_string()));
    }
    let right = &reference.pictures[reference.pictures.len() - 1];
    if !story.home
        && let Err(error) = blocks(&machine, story, right, tally)
    {
        tally.wrong += 1;
        failed(format!("a damaged block: {error}"))?;
    }
    for (name, damage, bytes) in damages(&machine.disk, story.seed, plan) {
        let copy = machine.next_process();
        match bytes {
            Some(bytes) => copy.disk.poke(&name, bytes),
            None => copy.disk.lose(&name),
        }
        tally.damages += 1;
        let outcome = read(&copy, story, &name, right, tally).and_then(|whole| {
            if whole { Ok(()) } else { rescue(&copy, story, &name, right, tally) }
        });
        if let Err(error) = outcome {
            tally.wrong += 1;
            failed(format!("{name} {damage}: {error}"))?;
        }
    }
    if !story.home {
        return Ok(Ok(()));
    }
    let owners = match files::owners(&machine, story) {
        Ok(owners) => owners,
        Err(error) => return Ok(Err(error)),
    };
    // All bits of a file of the home are alike.
    let sparse = Plan { flip_every: plan.flip_every * 16, ..*plan };
    for (name, damage, bytes) in damages(&machine.files(), story.seed, &sparse) {
        let copy = machine.next_process();
        match bytes.clone() {
            Some(bytes) => copy.files().poke(&name, bytes),
            None => copy.files().lose(&name),
        }
        let hit = files::Hit { name: &name, bytes, owners: &owners };
        if let Err(error) = hit.is_contained(&copy, story, right, &mut tally.files) {
            tally.wrong += 1;
            failed(format!("file {name} of the home {damage}: {error}"))?;
        }
    }
    Ok(Ok(()))
}

/// Damages blocks one by one. With parity every byte is read all the same.
fn blocks(
    machine: &Machine,
    story: &Story,
    right: &Picture,
    tally: &mut Tally,
) -> Result<(), String> {
    let copy = machine.next_process();
    let stack = Stack::open(&copy, story).map_err(|error| error.to_string())?;
    let keys = stack.block_keys().map_err(|error| error.to_string())?;
    for key in keys.iter().step_by(keys.len().div_ceil(BLOCKS_MAX).max(1)) {
        stack.spoil(key).map_err(|error| error.to_string())?;
        let picture = stack.picture()?;
        if stack.has_parity() {
            tally.blocks += 1;
            if let Some(differs) = picture.differs(right) {
                return Err(format!("{key:?}: {differs}"));
            }
        } else {
            picture.wrong(right)?;
        }
    }
    tally.repaired += stack.repaired();
    Ok(())
}

/// All damages of a store: the file, what happens to it, and what it then holds, if it is there.
fn damages(disk: &SimDisk, seed: u64, plan: &Plan) -> Vec<(String, String, Option<Vec<u8>>)> {
    let random = SeededRandom::new(seed);
    let mut all = Vec::new();
    for name in disk.list().unwrap_or_default() {
        let bytes = disk.peek(&name).unwrap_or_default();
        all.push((name.clone(), "lost".to_owned(), None));
        // Behind its end a log has room that was taken ahead.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for at in (0..used).step_by(plan.flip_every.max(1)) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << random.below(8);
            all.push((name.clone(), format!("flipped at {at}"), Some(flipped)));
        }
        for at in (0..used).step_by(PAGE_BYTES * plan.page_every.max(1)) {
            let end = bytes.len().min(at + PAGE_BYTES);
            let mut zeroed = bytes.clone();
            zeroed[at..end].fill(0);
            all.push((name.clone(), format!("zeroed at {at}"), Some(zeroed)));
            all.push((name.clone(), format!("cut at {at}"), Some(bytes[..at].to_vec())));
            let other = end;
            let len = (end - at).min(bytes.len() - other);
            if len > 0 {
                let mut swapped = bytes.clone();
                for offset in 0..len {
                    swapped.swap(at + offset, other + offset);
                }
                all.push((name.clone(), format!("swapped at {at}"), Some(swapped)));
            }
        }
    }
    all
}

/// Whether words speak of a file.
fn names_it(words: &str, name: &str) -> bool {
    // A log that is lost shows by what is missing at its end.
    let kind = name.split('-').next().unwrap_or(name);
    words.contains(name) || (kind != "table" && words.contains(kind))
}

/// Mounts a damaged store and reads everything. True when nothing is missing.
fn read(
    machine: &Machine,
    story: &Story,
    name: &str,
    right: &Picture,
    tally: &mut Tally,
) -> Result<bool, String> {
    let stack = match Stack::open(machine, story) {
        Ok(stack) => stack,
        Err(error) => {
            tally.refused += 1;
            return refused(&error, name).map(|()| false);
        }
    };
    let picture = match stack.look() {
        Ok(picture) => picture,
        Err(error) => {
            tally.refused += 1;
            return refused(&error, name).map(|()| false);
        }
    };
    let hidden = picture.wrong(right)?;
    if let Some(error) = picture.errors().find(|error| !names_it(error, name)) {
        return Err(format!("the file that is hit is not named: {error}"));
    }
    if hidden == 0 {
        tally.harmless += 1;
    }
    tally.names_hidden += hidden as u64;
    tally.names += right.names.len() as u64;
    Ok(hidden == 0)
}

fn refused(error: &fs::Error, name: &str) -> Result<(), String> {
    if error.kind() != fs::Kind::Corrupt {
        return Err(format!("another error than that of damage: {error:?}"));
    }
    match names_it(&error.to_string(), name) {
        true => Ok(()),
        false => Err(format!("the file that is hit is not named: {error}")),
    }
}

/// Recovers what is left: nothing wrong, nothing written.
fn rescue(
    machine: &Machine,
    story: &Story,
    name: &str,
    right: &Picture,
    tally: &mut Tally,
) -> Result<(), String> {
    // What mounting it has written is none of the rescuer's business.
    let machine = machine.read_only();
    let (stack, notes) = match Stack::recover(&machine, story) {
        Ok(opened) => opened,
        Err(error) => return refused(&error, name),
    };
    let picture = match stack.look() {
        Ok(picture) => picture,
        Err(error) => return refused(&error, name),
    };
    let told = notes.iter().any(|note| names_it(note, name));
    match picture.wrong(right) {
        Ok(_) => {}
        // An end of the log that is lost takes the volume back, and that is said.
        Err(_) if told && (name.starts_with("log") || name.starts_with("manifest")) => {}
        Err(error) => return Err(format!("recovered: {error}; {notes:?}")),
    }
    if !told && !picture.errors().any(|error| names_it(error, name)) {
        return Err(format!("recovered, and nobody names the file: {notes:?}"));
    }
    tally.recovered += 1;
    drop(stack);
    match machine.disk.operations() {
        0 => Ok(()),
        operations => Err(format!("recovering wrote {operations} times")),
    }
}
