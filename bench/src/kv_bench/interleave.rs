//! The table of speeds: every kind of work on every engine, in turn, several times over. Engines take
//! turns within each pass, so that what changes with time on the machine hits all of them.

use super::cell::{self, Outcome, Until};
use super::options::Options;
use super::work::Work;
use super::{Kind, Place, Runner};
use crate::error::Result;
use crate::process::{self, Settled};
use crate::table::{Table, count, median, ratio};
use std::time::Duration;

/// The rows of the table. Creates come first: they make the files that unlinks take.
const ROWS: [(Work, u64); 13] = [
    (Work::Create, 1),
    (Work::Create, 4),
    (Work::CreateTogether, 4),
    (Work::CreateSynced, 1),
    (Work::CreateSynced, 16),
    (Work::Lookup, 1),
    (Work::Lookup, 4),
    (Work::Readdir, 1),
    (Work::Readdir, 4),
    (Work::Rename, 1),
    (Work::Rename, 4),
    (Work::Unlink, 1),
    (Work::Unlink, 4),
];

/// With `--ops`, no cell lasts longer than this.
const CELL_MAX: Duration = Duration::from_secs(60);

/// A row of the table, an engine each.
struct Row {
    name: String,
    passes: Vec<Passes>,
}

/// What one engine did in one row, a measured pass each.
#[derive(Debug, Clone, Default)]
struct Passes {
    outcomes: Vec<Outcome>,
    settled: Vec<Settled>,
}

impl Passes {
    fn rates(&self) -> Vec<f64> {
        self.outcomes.iter().map(Outcome::rate).collect()
    }

    fn median(&self) -> f64 {
        median(&self.rates())
    }

    fn ops(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.ops).sum()
    }
}

/// Measures everything and prints it.
pub(crate) fn run(runners: &mut [Runner], options: &Options) -> Result<()> {
    let mut measured = Vec::new();
    for (number, &(work, threads)) in ROWS.iter().enumerate() {
        if !options.work.contains(&work) {
            continue;
        }
        let name = format!("{} x{threads}", work.name());
        eprintln!("bench: {name} ...");
        let seed = options.seed.wrapping_mul(1_000_003) + number as u64;
        let passes = run_row(runners, options, work, threads, seed)?;
        measured.push(Row { name, passes });
    }
    print(&measured, options);
    Ok(())
}

fn run_row(
    runners: &mut [Runner],
    options: &Options,
    work: Work,
    threads: u64,
    seed: u64,
) -> Result<Vec<Passes>> {
    let mut row = vec![Passes::default(); runners.len()];
    // Pass 0 warms caches and is not counted.
    for pass in 0..=options.passes {
        for turn in 0..runners.len() {
            // Another engine begins each pass.
            let which = (turn + pass) % runners.len();
            let Runner { place, subject } = &mut runners[which];
            let until = until(place, options, work, threads, pass);
            if work == Work::CreateSynced {
                process::flush_system();
            }
            let seed = seed.wrapping_mul(1_000_003) + pass as u64;
            let outcome = cell::run(&mut **subject, &place.files, work, threads, until, seed);
            let outcome = outcome.map_err(|error| {
                let engine = place.kind.name();
                error.during(format!("{} x{threads} on {engine}", work.name()))
            })?;
            let settled = process::settle()?;
            if pass > 0 {
                row[which].outcomes.push(outcome);
                row[which].settled.push(settled);
            }
        }
    }
    Ok(row)
}

fn until(place: &Place, options: &Options, work: Work, threads: u64, pass: usize) -> Until {
    let seconds = match pass {
        // Caches that creates have filled with other things take long to turn over.
        0 if work == Work::Lookup => options.seconds * 4.0,
        0 => options.seconds / 2.0,
        _ => options.seconds,
    };
    let mut until = Until { time: Duration::from_secs_f64(seconds), ops: u64::MAX };
    if let Some(ops) = options.ops {
        until.time = CELL_MAX;
        until.ops = match work {
            Work::Readdir | Work::CreateSynced => (ops / 10).max(1),
            _ => ops,
        };
    }
    if work == Work::Unlink {
        // What was created must last for all unlinks, those of the rows behind this one too.
        let rows_behind =
            ROWS.iter().filter(|row| row.0 == Work::Unlink && row.1 > threads).count();
        let cells = options.passes + 1 - pass + rows_behind * (options.passes + 1);
        until.ops = until.ops.min(place.files.created_count() / cells as u64);
    }
    until
}

fn print(rows: &[Row], options: &Options) {
    let local = options.engines.iter().position(|&kind| kind == Kind::Local);
    let others: Vec<usize> = (0..options.engines.len())
        .filter(|&other| local.is_some_and(|local| local != other))
        .collect();
    let mut speeds = Table::new("work", Kind::names(&options.engines));
    for &other in &others {
        speeds.column(format!("local/{}", options.engines[other].name()));
    }
    for Row { name, passes } in rows {
        let medians: Vec<f64> = passes.iter().map(Passes::median).collect();
        let mut cells: Vec<String> = medians.iter().copied().map(count).collect();
        for &other in &others {
            let of = local.map_or(0.0, |local| medians[local]);
            cells.push(ratio(of, medians[other]));
        }
        speeds.row(name, cells);
    }
    speeds.print(&format!(
        "Speed: operations a second, the median of {} passes after one that is not counted",
        options.passes
    ));
    let side_table = |title: &str, cell: fn(&Passes) -> String| {
        let mut table = Table::new("work", Kind::names(&options.engines));
        for Row { name, passes } in rows {
            let cells: Vec<String> = passes.iter().map(cell).collect();
            if cells.iter().any(|cell| cell != NOTHING) {
                table.row(name, cells);
            }
        }
        table.print(title);
    };
    side_table("The slowest and the fastest pass", extremes);
    side_table("Transactions run again after a conflict, of each 1,000", retried);
    side_table(
        "Work left behind: processor time used after the cell, until the engine was quiet, in\n\
         microseconds an operation (+: it was not quiet after 10 s)",
        background,
    );
}

fn extremes(passes: &Passes) -> String {
    let rates = passes.rates();
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    format!("{}..{}", count(least), count(most))
}

fn background(passes: &Passes) -> String {
    let busy: Duration = passes.settled.iter().map(|settled| settled.busy).sum();
    let more = if passes.settled.iter().any(|settled| settled.gave_up) { "+" } else { "" };
    let each = busy.as_secs_f64() * 1e6 / passes.ops().max(1) as f64;
    some(each, format!("{each:.1}{more}"))
}

fn retried(passes: &Passes) -> String {
    let retries: u64 = passes.outcomes.iter().map(|outcome| outcome.retries).sum();
    let each = retries as f64 * 1e3 / passes.ops().max(1) as f64;
    some(each, format!("{each:.2}"))
}

/// Stands for zero; a row of nothing else is left out.
const NOTHING: &str = "-";

fn some(number: f64, text: String) -> String {
    if number > 0.0 { text } else { NOTHING.to_owned() }
}
