//! What a seed does, by the part of Seamount that it tries.

pub mod files;
pub mod setup;
pub mod short;
pub mod store;
pub mod waiting;

use crate::seeds::Trial;

/// A scenario: a pure function of a seed.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// Runs one seed.
    pub run: fn(u64) -> Trial,
}

/// All scenarios.
pub const ALL: &[Scenario] =
    &[Scenario { name: "kv", run: store::run }, Scenario { name: "fs", run: files::run }];

/// The scenario of this name. The error is for people.
pub fn find(name: &str) -> Result<&'static Scenario, String> {
    ALL.iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| format!("there is no scenario {name}"))
}
