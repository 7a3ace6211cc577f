//! The store contract: random transactions, checked, and waiting by watches.

use super::setup::Setup;
use super::waiting;
use crate::seeds::Trial;
use base::{Random, SeededRandom, SimClock};
use kv::history::{Plan, Rules, check, simulate};
use std::fmt::Write;

/// Runs one seed.
pub fn run(seed: u64) -> Trial {
    let random = SeededRandom::new(seed);
    let setup = Setup::draw(&random);
    let mut trace = format!("seed {seed}: {setup:?}\n");
    let failure = transactions(&setup, &random.fork(), &mut trace)
        .and_then(|()| waiting::run(&setup, &random.fork(), &mut trace))
        .err();
    Trial { trace, failure }
}

fn transactions(setup: &Setup, random: &SeededRandom, trace: &mut String) -> Result<(), String> {
    let clock = SimClock::new();
    let plan = Plan::draw(random);
    let _ = writeln!(trace, "{plan:?}");
    let sim = setup.open(&clock, random.next_u64())?;
    let history = simulate(&sim, &clock, random.next_u64(), &plan)?;
    let _ = write!(trace, "{history}");
    let rules = Rules { spurious_conflicts: setup.faults.conflict != 0 };
    let summary = check(&history, rules).map_err(|violation| violation.to_string())?;
    let _ = writeln!(trace, "{summary}");
    Ok(())
}
