//! What is printed and drawn of the growth, and what became of the bars.

use super::cost::Cost;
use super::forest::Shape;
use super::large::Row;
use super::step::Step;
use crate::table::{Table, count};
use cli::bench::{Line, Plot};

/// The most that an operation may cost, as a multiple of what it costs in the smallest volume.
const GROWTH_MAX: f64 = 1.3;
const MOUNT_SECONDS_MAX: f64 = 1.0;
const FIRST_LS_MS_MAX: f64 = 10.0;
const RESIDENT_MIB_MAX: f64 = 300.0;
const FILE_BYTES_MAX: f64 = 400.0;

/// Of one step, by name.
type Part = (&'static str, fn(&Step) -> Cost);

const PARTS: [Part; 4] = [
    ("create", |step| step.create),
    ("lookup", |step| step.lookup),
    ("readdir page", |step| step.page),
    ("unlink", |step| step.unlink),
];

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A line for each size.
pub(crate) fn growth(shape: Shape, steps: &[Step]) {
    let columns = [
        "create",
        "lookup",
        "readdir page",
        "unlink",
        "mount",
        "first ls",
        "resident",
        "bytes a file",
    ];
    let mut table = Table::new("files", columns);
    for step in steps {
        let mut cells: Vec<String> =
            PARTS.iter().map(|(_, cost)| microseconds(cost(step))).collect();
        cells.push(format!("{:.0} ms", step.mount.as_secs_f64() * 1e3));
        cells.push(format!("{:.2} ms", step.first_ls.as_secs_f64() * 1e3));
        cells.push(format!("{:.0} MiB", mebibytes(step.resident)));
        cells.push(count(step.bytes_a_file));
        table.row(count(step.files as f64), cells);
    }
    table.print(&format!(
        "Empty files {}; medians of one operation, in brackets the mean, on one CPU:",
        shape.words()
    ));
}

fn microseconds(cost: Cost) -> String {
    format!("{:.1} us ({:.1})", cost.median, cost.mean)
}

/// The medians as multiples of those of the smallest size.
pub(crate) fn picture(shape: Shape, steps: &[Step]) -> Plot {
    let line = |(name, cost): &Part| Line {
        name: (*name).to_owned(),
        heights: steps.iter().map(|step| grown(steps, step, *cost)).collect(),
    };
    Plot {
        title: format!("Cost of an operation, as a multiple; files {}", shape.words()),
        across: "files".to_owned(),
        sizes: steps.iter().map(|step| step.files as f64).collect(),
        lines: PARTS.iter().map(line).collect(),
        bar: Some(GROWTH_MAX),
    }
}

fn grown(steps: &[Step], step: &Step, cost: fn(&Step) -> Cost) -> Option<f64> {
    let first = cost(steps.first()?).median;
    (first > 0.0).then(|| cost(step).median / first)
}

/// One bar in words, and whether it was reached.
pub(crate) type Verdict = (String, bool);

fn at_most(what: String, value: f64, bar: f64, unit: &str) -> Verdict {
    let digits = if value < 100.0 { 2 } else { 0 };
    let text = format!("{what} {value:.digits$}{unit} (at most {bar}{unit})");
    let reached = value <= bar;
    let end = if reached { "ok".to_owned() } else { format!("over by {:.digits$}", value - bar) };
    (format!("{text} {end}"), reached)
}

pub(crate) fn judge_growth(shape: Shape, steps: &[Step]) -> Vec<Verdict> {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return Vec::new() };
    let name = shape.name();
    let mut verdicts = Vec::new();
    for (part, cost) in PARTS.iter().filter(|_| last.files > first.files) {
        let (small, large) = (count(first.files as f64), count(last.files as f64));
        if let Some(grown) = grown(steps, last, *cost) {
            let what = format!("{name}: {part} at {large} files, by that at {small},");
            verdicts.push(at_most(what, grown, GROWTH_MAX, " times"));
        }
    }
    let most = |value: fn(&Step) -> f64| steps.iter().map(value).fold(0.0, f64::max);
    verdicts.push(at_most(
        format!("{name}: mounting took"),
        most(|step| step.mount.as_secs_f64()),
        MOUNT_SECONDS_MAX,
        " s",
    ));
    verdicts.push(at_most(
        format!("{name}: the first ls took"),
        most(|step| step.first_ls.as_secs_f64() * 1e3),
        FIRST_LS_MS_MAX,
        " ms",
    ));
    verdicts.push(at_most(
        format!("{name}: resident were"),
        most(|step| mebibytes(step.resident)),
        RESIDENT_MIB_MAX,
        " MiB",
    ));
    // A small volume has the fixed size of its store in each file.
    let what = format!("{name}: on the disk an empty file takes");
    verdicts.push(at_most(what, last.bytes_a_file, FILE_BYTES_MAX, " bytes"));
    verdicts
}

pub(crate) fn large(rows: &[Row]) {
    let mut table = Table::new(
        "file",
        ["write 4 KiB", "/ small", "native", "read 4 KiB cold", "/ small", "native"],
    );
    for row in rows {
        let (write, read) = against(rows, row);
        let ratio = |part: Option<f64>| part.map_or("-".to_owned(), |part| format!("{part:.2}"));
        table.row(
            row.name.clone(),
            [
                microseconds(row.write),
                ratio(write),
                microseconds(row.native.0),
                microseconds(row.read),
                ratio(read),
                microseconds(row.native.1),
            ],
        );
    }
    table.print(
        "Random pages of one file; medians of one operation, in brackets the mean, on one CPU:",
    );
}

/// What writing and reading cost, as multiples of the small file's.
fn against(rows: &[Row], row: &Row) -> (Option<f64>, Option<f64>) {
    let small = row.small.and_then(|small| rows.get(small));
    let part = |own: Cost, small: Cost| (small.median > 0.0).then(|| own.median / small.median);
    (
        small.and_then(|small| part(row.write, small.write)),
        small.and_then(|small| part(row.read, small.read)),
    )
}

pub(crate) fn judge_large(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for row in rows {
        let (write, read) = against(rows, row);
        for (what, part) in [("writing", write), ("reading", read)] {
            if let Some(part) = part {
                let what = format!("{}: {what} a page, by that of a small file,", row.name);
                verdicts.push(at_most(what, part, GROWTH_MAX, " times"));
            }
        }
    }
    verdicts
}

/// All bars, and how many were reached.
pub(crate) fn bars(verdicts: &[Verdict]) {
    println!("\nBars:\n");
    for (text, _) in verdicts {
        println!("    {text}");
    }
    let reached = verdicts.iter().filter(|(_, reached)| *reached).count();
    println!("\n{reached} of {} bars reached", verdicts.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn step(files: u64, cost: f64) -> Step {
        let cost = Cost { median: cost, mean: cost };
        Step {
            files,
            create: cost,
            lookup: Cost { median: 5.0, mean: 5.0 },
            page: cost,
            unlink: cost,
            mount: Duration::from_millis(40),
            first_ls: Duration::from_millis(files / 1000),
            resident: 200 << 20,
            bytes_a_file: 350.0,
        }
    }

    #[test]
    fn the_largest_is_judged_by_the_smallest() {
        let steps = [step(10_000, 10.0), step(100_000, 20.0)];
        let verdicts = judge_growth(Shape::Spread, &steps);
        let texts: Vec<&str> = verdicts.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(
            texts[0],
            "spread: create at 100,000 files, by that at 10,000, 2.00 times (at most 1.3 times) over by 0.70"
        );
        assert!(texts[1].ends_with("1.00 times (at most 1.3 times) ok"), "{}", texts[1]);
        assert!(texts.contains(&"spread: the first ls took 100 ms (at most 10 ms) over by 90"));
        assert!(texts.contains(&"spread: resident were 200 MiB (at most 300 MiB) ok"));
        assert_eq!(verdicts.iter().filter(|(_, reached)| *reached).count(), 4);
    }

    #[test]
    fn one_size_alone_has_no_growth() {
        assert_eq!(judge_growth(Shape::Single, &[step(10_000, 1.0)]).len(), 4);
        assert!(judge_growth(Shape::Single, &[]).is_empty());
    }

    #[test]
    fn the_picture_starts_at_one() {
        let plot = picture(Shape::Single, &[step(10_000, 10.0), step(100_000, 13.0)]);
        assert_eq!(plot.lines[0].heights, [Some(1.0), Some(1.3)]);
        assert_eq!(plot.sizes, [1e4, 1e5]);
    }
}
