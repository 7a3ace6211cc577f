//! Runs seeds of a scenario and says which failed.

use crate::scenario::Scenario;
use base::checksum::hash64;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What one seed did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// All that happened, as text: the same seed gives the same text.
    pub trace: String,
    /// What was wrong, if something was.
    pub failure: Option<String>,
}

impl Trial {
    /// The trace in one number.
    pub fn digest(&self) -> u64 {
        hash64(0, self.trace.as_bytes())
    }
}

/// What many seeds did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many were run.
    pub run: u64,
    /// Those that failed.
    pub failed: Vec<u64>,
    /// The digests of all traces in one number.
    pub digest: u64,
}

/// Runs one seed. A panic on the way is a failure like others, so that the seed is known.
pub fn trial(scenario: &Scenario, seed: u64) -> Trial {
    catch_unwind(AssertUnwindSafe(|| (scenario.run)(seed))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Trial {
            trace: String::new(),
            failure: Some(format!("panicked: {}", text.unwrap_or("without words"))),
        }
    })
}

/// Runs `seeds` seeds from `start` on. The last lines say how many failed and which.
pub fn run(scenario: &Scenario, start: u64, seeds: u64, out: &mut dyn Write) -> io::Result<Report> {
    let name = scenario.name;
    let mut report = Report::default();
    for seed in start..start.saturating_add(seeds) {
        let trial = trial(scenario, seed);
        report.run += 1;
        report.digest = hash64(report.digest, &trial.digest().to_le_bytes());
        if let Some(failure) = trial.failure {
            writeln!(out, "{name}: seed {seed} failed: {failure}")?;
            report.failed.push(seed);
        }
    }
    writeln!(
        out,
        "{name}: seeds run {}, failed {} (first {start}, digest {:016x})",
        report.run,
        report.failed.len(),
        report.digest
    )?;
    if !report.failed.is_empty() {
        writeln!(out, "{name}: failed seeds {:?}", report.failed)?;
        writeln!(out, "{name}: replay one with: sim {name} --seed {}", report.failed[0])?;
    }
    Ok(report)
}

/// Runs one seed, prints its trace and says whether it passed.
pub fn replay(scenario: &Scenario, seed: u64, out: &mut dyn Write) -> io::Result<bool> {
    let name = scenario.name;
    let trial = trial(scenario, seed);
    write!(out, "{}", trial.trace)?;
    writeln!(out, "{name}: seed {seed} digest {:016x}", trial.digest())?;
    let failed = u8::from(trial.failure.is_some());
    if let Some(failure) = &trial.failure {
        writeln!(out, "{name}: seed {seed} failed: {failure}")?;
    }
    writeln!(out, "{name}: seeds run 1, failed {failed}")?;
    Ok(failed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd_ones_fail(seed: u64) -> Trial {
        if seed == 4 {
            panic!("four");
        }
        Trial {
            trace: format!("seed {seed}\n"),
            failure: (seed % 2 == 1).then(|| "odd".to_owned()),
        }
    }

    const FAILING: Scenario = Scenario { name: "failing", run: odd_ones_fail };

    #[test]
    fn failures_are_counted_and_named() {
        let mut out = Vec::new();
        let report = run(&FAILING, 2, 4, &mut out).unwrap();
        assert_eq!((report.run, report.failed), (4, vec![3, 4, 5]));
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("failing: seeds run 4, failed 3"), "{text}");
        assert!(text.contains("failing: seed 4 failed: panicked: four"), "{text}");
        assert!(text.contains("failed seeds [3, 4, 5]"), "{text}");
    }

    #[test]
    fn a_replay_prints_the_trace() {
        let mut out = Vec::new();
        assert!(replay(&FAILING, 2, &mut out).unwrap());
        assert!(!replay(&FAILING, 3, &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("seed 2\nfailing: seed 2 digest "), "{text}");
        assert!(text.contains("failing: seed 3 failed: odd"), "{text}");
    }
}
