//! The table of speeds. The two sides take turns in short slices of the same operations, so that what
//! changes with time on the machine hits both.

use super::action::Action;
use super::options::Options;
use super::plan::Plan;
use super::side::Side;
use super::work::{Goal, Who, Work};
use crate::error::{Error, Result};
use crate::process;
use crate::table::{Table, count, median, ratio};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Turns of each side in a pass.
pub(crate) const SLICES: u64 = 20;

/// The part of a pass that warms up.
const WARM_PART: u64 = 4;

/// What one side did in one pass, summed over its slices.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    operations: u64,
    time: Duration,
    /// Processor time of the threads that did it: what others do on the machine counts less.
    processor: Duration,
}

impl Spent {
    fn rate(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64().max(1e-9)
    }

    fn processor_rate(&self) -> f64 {
        self.operations as f64 / self.processor.as_secs_f64().max(1e-9)
    }
}

/// Both sides, a pass each.
type Passes = Vec<[Spent; 2]>;

/// Measures everything and prints it.
pub(crate) fn run(sides: [&dyn Side; 2], plan: &mut Plan, options: &Options) -> Result<()> {
    let mut rows = Vec::new();
    for &work in &options.works {
        for &who in work.callers() {
            eprintln!("bench: {} ...", row_name(work, who));
            let passes = run_row(sides, plan, options, work, who)
                .map_err(|error| error.during(row_name(work, who)))?;
            rows.push((work, who, passes));
        }
    }
    print(&rows, options);
    Ok(())
}

pub(crate) fn row_name(work: Work, who: Who) -> String {
    match who {
        Who::Root => work.name().to_owned(),
        Who::User => format!("{}, checked", work.name()),
    }
}

fn run_row(
    sides: [&dyn Side; 2],
    plan: &mut Plan,
    options: &Options,
    work: Work,
    who: Who,
) -> Result<Passes> {
    let operations = work.operations(options.files);
    let mut passes = Vec::new();
    // Pass 0 warms caches and is not counted.
    for pass in 0..=options.passes {
        let operations = if pass == 0 { operations.div_ceil(WARM_PART) } else { operations };
        let slices = SLICES.min(operations);
        let mut spent = [Spent::default(); 2];
        for slice in 0..slices {
            let batch = plan.batch(work, operations / slices);
            for side in sides {
                batch.before.iter().try_for_each(|action| side.run(who, action))?;
            }
            // Each side begins every other slice.
            let first = (slice % 2) as usize;
            for turn in [first, 1 - first] {
                slice_of(sides[turn], who, &batch.measured, options.threads, &mut spent[turn])?;
            }
        }
        for side in sides {
            side.rest()?;
        }
        process::settle()?;
        if pass > 0 {
            passes.push(spent);
        }
    }
    Ok(passes)
}

fn slice_of(
    side: &dyn Side,
    who: Who,
    actions: &[Action],
    threads: usize,
    spent: &mut Spent,
) -> Result<()> {
    let start = Instant::now();
    spent.processor += if threads == 1 {
        run_all(side, who, actions)?
    } else {
        let each = actions.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let parts = actions.chunks(each);
            let threads: Vec<_> =
                parts.map(|part| scope.spawn(move || run_all(side, who, part))).collect();
            let mut processor = Duration::ZERO;
            for thread in threads {
                processor += thread.join().map_err(|_| Error::new("a thread panicked"))??;
            }
            Ok::<_, Error>(processor)
        })?
    };
    spent.time += start.elapsed();
    spent.operations += actions.len() as u64;
    Ok(())
}

/// Returns the processor time of this thread that it took.
fn run_all(side: &dyn Side, who: Who, actions: &[Action]) -> Result<Duration> {
    let before = processor_time();
    actions.iter().try_for_each(|action| side.run(who, action))?;
    Ok(processor_time().saturating_sub(before))
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn print(rows: &[(Work, Who, Passes)], options: &Options) {
    let columns = ["unit", "core", "raw", "core/raw", "least..most", "goal"];
    let mut wall = Table::new("work", columns);
    let mut processor = Table::new("work", columns);
    for (work, who, passes) in rows {
        let name = row_name(*work, *who);
        wall.row(name.clone(), cells(*work, passes, Spent::rate));
        processor.row(name, cells(*work, passes, Spent::processor_rate));
    }
    wall.print(&format!(
        "Speed of the core and of raw transactions of the same keys: medians of {} passes after one \
         that is not\ncounted; the ratio is the median of each pass's own",
        options.passes
    ));
    processor.print(
        "The same by the processor time of the threads that do the work: without what else the \
         machine does\nmeanwhile, and without waiting",
    );
}

fn cells(work: Work, passes: &Passes, rate: fn(&Spent) -> f64) -> Vec<String> {
    let each = work.unit().each();
    let [core, raw] = [0, 1].map(|side| {
        let rates: Vec<f64> = passes.iter().map(|pass| rate(&pass[side]) * each).collect();
        median(&rates)
    });
    let ratios: Vec<f64> = passes.iter().map(|[core, raw]| rate(core) / rate(raw)).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    vec![
        work.unit().name().to_owned(),
        count(core),
        count(raw),
        ratio(median(&ratios), 1.0),
        format!("{least:.2}..{most:.2}"),
        verdict(work.goal(), core, median(&ratios)),
    ]
}

fn verdict(goal: Goal, rate: f64, ratio: f64) -> String {
    let (goal, met) = match goal {
        Goal::None => return String::new(),
        Goal::OfRaw(part) => (format!("{part:.2} of raw"), ratio >= part),
        Goal::Rate(wanted) => (format!("{}/s", count(wanted)), rate >= wanted),
    };
    format!("{goal}: {}", if met { "met" } else { "missed" })
}
