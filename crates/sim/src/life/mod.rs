//! A scripted life of a volume on the embedded engine on a simulated disk, and what the volume must
//! look like after each of its steps.
//!
//! The looks are taken from the same script on the reference engine, which has no disk and no home at all.

pub mod machine;
pub mod picture;
pub mod promise;
pub mod script;
pub mod stack;
mod tour;

use fs::{Ino, Time};
use machine::Machine;
use picture::{Contents, Picture};
use script::{Step, Syncs};
use stack::Stack;
use std::collections::BTreeMap;

/// Which life it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Story {
    /// What the script is drawn from.
    pub seed: u64,
    /// Steps of the script.
    pub steps: usize,
    /// Whether files are in a home, or all of them in the store.
    pub home: bool,
}

impl Story {
    /// Where its files are, in a word.
    pub fn form(&self) -> &'static str {
        if self.home { "home" } else { "store" }
    }
}

/// What every step of a script answers, and the volume after it.
#[derive(Debug)]
pub struct Reference {
    /// Which life it is.
    pub story: Story,
    /// The steps.
    pub steps: Vec<Step>,
    /// What each answers: nothing, or its errno.
    pub answers: Vec<Option<i32>>,
    /// The volume before the first step, and after each.
    pub pictures: Vec<Picture>,
    /// The file that a step syncs, by its number here.
    synced: Vec<Option<Ino>>,
    /// Files that are open before the first step, and after each: when they changed, and what is in them. They
    /// need not have names.
    held: Vec<Vec<(Time, Contents)>>,
}

impl Reference {
    /// Lives the script of a story on the reference engine.
    pub fn of(story: &Story) -> Result<Self, String> {
        let steps = script::draw(story);
        let mut stack = Stack::on_memory(story)?;
        let mut pictures = vec![stack.picture()?];
        let (mut answers, mut synced, mut held) = (Vec::new(), Vec::new(), vec![Vec::new()]);
        for step in &steps {
            let answer = stack.step(step);
            answers.push(answer.err().map(|error| error.errno()));
            let mut picture = stack.picture()?;
            if let Some(before) = pictures.last() {
                picture.share(before);
            }
            synced.push(match step {
                Step::Fsync(path) => picture.files.get(&format!("/{path}")).map(|file| file.ino),
                Step::FsyncHeld(slot) => stack.in_slot(*slot),
                _ => None,
            });
            held.push(stack.held().map_err(|error| error.to_string())?);
            pictures.push(picture);
        }
        Ok(Self { story: *story, steps, answers, pictures, synced, held })
    }
}

/// How far a life came.
#[derive(Debug, Default)]
pub struct Lived {
    /// The volume was made, and its first session has begun.
    pub begun: bool,
    /// Steps that were answered.
    pub answered: usize,
    /// Of these, those before the last that made names durable, and without a home everything.
    pub synced: usize,
    /// Of files in a home, those before the last that made its bytes durable, by its number in the reference.
    files: BTreeMap<Ino, usize>,
    /// The same for all files.
    all: usize,
    /// Files that are settled by as many steps: durable with the next sync of anything.
    settled: BTreeMap<Ino, usize>,
    /// What ended it early.
    pub error: Option<fs::Error>,
}

impl Lived {
    /// Steps of which a file has all that they wrote to it, whatever happens.
    pub fn synced_of(&self, ino: Ino) -> usize {
        self.files.get(&ino).copied().unwrap_or(0).max(self.all)
    }

    /// A step was answered as it should be.
    fn answer(&mut self, reference: &Reference, sound: bool) {
        let (at, step) = (self.answered, &reference.steps[self.answered]);
        self.answered += 1;
        if reference.answers[at].is_some() {
            return;
        }
        // Where nothing is held nothing is synced.
        let syncs = match step.syncs() {
            Syncs::File if reference.synced[at].is_none() => Syncs::Nothing,
            syncs => syncs,
        };
        // A file that could not be looked at is settled later, and nobody is told.
        if matches!(step, Step::Settle { all: true }) && sound {
            let files = reference.pictures[self.answered].files.values();
            let held = &reference.held[self.answered];
            let closed = files.filter(|file| held.iter().all(|(_, held)| held.ino != file.ino));
            self.settled.extend(closed.map(|file| (file.ino, self.answered)));
        }
        if syncs == Syncs::Nothing {
            return;
        }
        self.synced = self.answered;
        self.files.append(&mut self.settled);
        match syncs {
            Syncs::All => self.all = self.answered,
            Syncs::File => {
                self.files.extend(reference.synced[at].map(|ino| (ino, self.answered)));
            }
            Syncs::Names | Syncs::Nothing => {}
        }
    }
}

/// Lives a script on a machine, to its end or to the first answer that is not the right one. `sound`: its disk does
/// nothing wrong as long as there is power.
pub fn live(machine: &Machine, reference: &Reference, sound: bool) -> (Option<Stack>, Lived) {
    let mut lived = Lived::default();
    let mut stack = match Stack::format(machine, &reference.story) {
        Ok(stack) => stack,
        Err(error) => {
            lived.error = Some(error);
            return (None, lived);
        }
    };
    lived.begun = true;
    while let Some(step) = reference.steps.get(lived.answered) {
        match stack.step(step) {
            Err(error) if Some(error.errno()) != reference.answers[lived.answered] => {
                lived.error = Some(error);
                break;
            }
            _ => lived.answer(reference, sound && !machine.disk.is_dead()),
        }
    }
    (Some(stack), lived)
}

/// The whole life of a story on a disk that does nothing wrong: what is right, the machine, and what runs on it.
pub fn undisturbed(story: &Story) -> Result<(Reference, Machine, Option<Stack>), String> {
    let reference = Reference::of(story)?;
    let machine = Machine::new(story)?;
    let (stack, lived) = live(&machine, &reference, true);
    match lived.error {
        Some(error) => {
            let step = reference.steps.get(lived.answered);
            Err(format!("step {}, {step:?}: {error:?}", lived.answered))
        }
        None => Ok((reference, machine, stack)),
    }
}
