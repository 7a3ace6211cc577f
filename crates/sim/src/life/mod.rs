//! A scripted life of a volume on the embedded engine on a simulated disk, and what the volume must
//! look like after each of its steps.
//!
//! The looks are taken from the same script on the reference engine, which has no disk at all.

pub mod picture;
pub mod script;
pub mod stack;

use base::SimDisk;
use picture::Picture;
use script::Step;
use stack::Stack;

/// What every step of a script answers, and the volume after it.
#[derive(Debug)]
pub struct Reference {
    /// The steps.
    pub steps: Vec<Step>,
    /// What each answers: nothing, or its errno.
    pub answers: Vec<Option<i32>>,
    /// The volume before the first step, and after each.
    pub pictures: Vec<Picture>,
}

impl Reference {
    /// Lives the script of `seed` on the reference engine.
    pub fn of(seed: u64, steps: usize) -> Result<Self, String> {
        let steps = script::draw(seed, steps);
        let mut stack = Stack::on_memory(seed)?;
        let mut pictures = vec![stack.picture()?];
        let mut answers = Vec::new();
        for step in &steps {
            let answer = stack.step(step);
            answers.push(answer.err().map(|error| error.errno()));
            pictures.push(stack.picture()?);
        }
        Ok(Self { steps, answers, pictures })
    }
}

/// How far a life came.
#[derive(Debug, Default)]
pub struct Lived {
    /// The volume was made, and its first session has begun.
    pub begun: bool,
    /// Steps that were answered.
    pub answered: usize,
    /// Of these, those before the last that made everything durable.
    pub synced: usize,
    /// What ended it early.
    pub error: Option<fs::Error>,
}

/// Lives a script on `disk`, to its end or to the first answer that is not the right one.
pub fn live(disk: &SimDisk, seed: u64, reference: &Reference) -> (Option<Stack>, Lived) {
    let mut lived = Lived::default();
    let mut stack = match Stack::format(disk, seed) {
        Ok(stack) => stack,
        Err(error) => {
            lived.error = Some(error);
            return (None, lived);
        }
    };
    lived.begun = true;
    go_on(&mut stack, reference, &mut lived);
    (Some(stack), lived)
}

/// The whole life of `seed` on a disk that does nothing wrong: what is right, the disk, and what runs on it.
pub fn undisturbed(seed: u64, steps: usize) -> Result<(Reference, SimDisk, Option<Stack>), String> {
    let reference = Reference::of(seed, steps)?;
    let disk = SimDisk::new();
    let (stack, lived) = live(&disk, seed, &reference);
    match lived.error {
        Some(error) => Err(format!("step {}: {error:?}", lived.answered)),
        None => Ok((reference, disk, stack)),
    }
}

/// Goes on with a script from where it is.
pub fn go_on(stack: &mut Stack, reference: &Reference, lived: &mut Lived) {
    while let Some(step) = reference.steps.get(lived.answered) {
        match stack.step(step) {
            Err(error) if Some(error.errno()) != reference.answers[lived.answered] => {
                lived.error = Some(error);
                return;
            }
            _ => lived.answered += 1,
        }
        if step.syncs() && reference.answers[lived.answered - 1].is_none() {
            lived.synced = lived.answered;
        }
    }
}
