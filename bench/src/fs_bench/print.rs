//! What is printed: the rates, their ratios, and what became of the bars.

use super::bars::Verdict;
use super::options::Options;
use crate::table::{Table, ratio};
use cli::bench::Report;

/// One line for each workload: the rates of all sides, then the measured one's multiples.
pub(crate) fn table(title: &str, report: &Report, options: &Options) {
    let names: Vec<&str> = report.targets.iter().map(|target| target.label.as_str()).collect();
    let Some((own, others)) = names.split_first() else { return };
    let mut columns = vec!["unit".to_owned()];
    columns.extend(others.iter().map(|name| (*name).to_owned()));
    columns.push((*own).to_owned());
    columns.extend(others.iter().map(|name| format!("/ {name}")));
    let mut table = Table::new("workload", columns.iter().map(String::as_str));
    for row in &report.rows {
        let rates: Vec<f64> =
            row.values.iter().map(|value| value.median.unwrap_or_default()).collect();
        let Some((own, others)) = rates.split_first() else { continue };
        let mut cells = vec![row.unit.clone()];
        cells.extend(others.iter().chain([own]).map(|rate| number(*rate)));
        cells.extend(row.ratios.iter().map(|of| of.map_or("-".to_owned(), |of| ratio(of, 1.0))));
        table.row(row.workload.clone(), cells);
    }
    table.print(title);
    println!(
        "\n{} files, a large file of {} MiB, medians of {} passes in {:.0} s",
        report.settings.files,
        report.settings.stream_bytes >> 20,
        options.passes(),
        report.seconds
    );
    for skipped in &report.skipped {
        println!("left out: {} ({})", skipped.workload, skipped.reason);
    }
}

fn number(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate if rate >= 10.0 => format!("{rate:.1}"),
        rate => format!("{rate:.2}"),
    }
}

/// Every bar that was measured, and how many were reached.
pub(crate) fn bars(verdicts: &[Verdict]) {
    let measured = verdicts.iter().filter(|verdict| verdict.reached.is_some());
    println!("\nBars, of the run on one CPU:\n");
    for verdict in measured.clone() {
        println!("    {}", verdict.text);
    }
    let reached = verdicts.iter().filter(|verdict| verdict.reached == Some(true)).count();
    println!("\n{reached} of {} bars reached", measured.count());
}
