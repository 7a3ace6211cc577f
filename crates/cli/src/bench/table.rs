//! The report as a table for people: Markdown that reads well as it is.

use super::report::{Report, Value};

/// Rates of every target, and behind each one that is compared with the measured one's multiple of it.
pub fn table(report: &Report) -> String {
    let mut header = vec!["workload".to_owned(), "unit".to_owned()];
    let mut labels = report.targets.iter().map(|target| target.label.as_str());
    let own = labels.next().unwrap_or_default();
    header.push(own.to_owned());
    for label in labels {
        header.push(label.to_owned());
        header.push(format!("{own} / {label}"));
    }
    let mut lines = vec![header];
    for row in &report.rows {
        let mut line = vec![row.workload.clone(), row.unit.clone()];
        for (index, value) in row.values.iter().enumerate() {
            line.push(number(value));
            if let Some(ratio) = index.checked_sub(1).and_then(|other| row.ratios.get(other)) {
                line.push(ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")));
            }
        }
        lines.push(line);
    }
    let mut text = aligned(&lines);
    let settings = &report.settings;
    text.push_str(&format!(
        "\n{} files, a large file of {} MiB, median of {} pass{} in {:.0} s; {}\n",
        settings.files,
        settings.stream_bytes >> 20,
        settings.passes,
        if settings.passes == 1 { "" } else { "es" },
        report.seconds,
        match settings.cpus[..] {
            [cpu] => format!("on CPU {cpu} only"),
            _ => format!("on {} CPUs", settings.cpus.len()),
        }
    ));
    for target in &report.targets {
        text.push_str(&format!("{}: {} ({})\n", target.label, target.path, target.filesystem));
    }
    for warning in &report.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    for skipped in &report.skipped {
        text.push_str(&format!("left out: {} ({})\n", skipped.workload, skipped.reason));
    }
    text
}

fn number(value: &Value) -> String {
    match value.median {
        None => "-".into(),
        Some(rate) if rate >= 100.0 => format!("{rate:.0}"),
        Some(rate) if rate >= 10.0 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.2}"),
    }
}

/// Names to the left, numbers to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    const NAMES: usize = 2;
    let columns = lines.first().map_or(0, Vec::len);
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            let cell = if column < NAMES {
                format!("| {cell:<width$} ")
            } else {
                format!("| {cell:>width$} ")
            };
            text.push_str(&cell);
        }
        text.push_str("|\n");
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                let end = if column < NAMES { "-" } else { ":" };
                text.push_str(&format!("|{}{end}", "-".repeat(width + 1)));
            }
            text.push_str("|\n");
        }
    }
    text
}
