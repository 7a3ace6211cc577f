//! What a volume should reach on one CPU, and whether it does.

use super::sides::{MEM, NATIVE, PASS};
use cli::bench::{Report, Row};

/// What a workload is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Native,
    Mem,
    Pass,
    /// The faster of the two servers.
    Servers,
    /// The time that the native filesystem takes, as a multiple.
    Time,
}

/// Workloads, what they are compared with, and the least part of it.
type Bars = (&'static [&'static str], &'static [(Limit, f64)]);

/// By names as they are with the default of four threads.
const BARS: &[Bars] = &[
    (
        &[
            "create-empty",
            "create-empty-x4",
            "unlink",
            "unlink-x4",
            "rename",
            "rename-x4",
            "mkdir",
            "mkdir-x4",
            "symlink",
            "symlink-x4",
        ],
        &[(Limit::Mem, 0.85)],
    ),
    (
        &[
            "stat-cold",
            "lookup-missing",
            "readdir-cold",
            "readdir-plain",
            "readdir-stat-cold",
            "open-close",
        ],
        &[(Limit::Mem, 0.9)],
    ),
    (&["stat-warm", "rand-read-4k"], &[(Limit::Native, 0.95)]),
    (
        &[
            "create-4k",
            "read-4k-cold",
            "read-4k-warm",
            "create-64k",
            "read-64k-cold",
            "read-64k-warm",
        ],
        &[(Limit::Servers, 0.85)],
    ),
    (&["create-4k-fsync", "create-4k-fsync-x16"], &[(Limit::Native, 0.9)]),
    (
        &["seq-write-new", "seq-write-over", "seq-read-cold", "seq-read-warm"],
        &[(Limit::Native, 0.95)],
    ),
    (
        &["rand-read-4k", "rand-read-4k-x4", "rand-write-4k", "mmap-read-4k"],
        &[(Limit::Pass, 0.95), (Limit::Native, 0.9)],
    ),
    (
        &[
            "untar",
            "tree-remove",
            "git-add-commit",
            "git-status",
            "sqlite-commit",
            "sqlite-commit-wal",
            "cargo-build",
        ],
        &[(Limit::Time, 1.5)],
    ),
];

/// The most of native's time for what computes longer than this.
const LONG_TIME: f64 = 1.1;
const LONG_SECONDS: f64 = 1.0;

/// One bar, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) text: String,
    /// Nothing when it was not measured.
    pub(crate) reached: Option<bool>,
}

/// Every bar in order.
pub(crate) fn judge(report: &Report) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (works, limits) in BARS {
        for work in *works {
            let row = report.rows.iter().find(|row| row.workload == *work);
            for (limit, bar) in *limits {
                verdicts.push(verdict(report, row, work, *limit, *bar));
            }
        }
    }
    verdicts
}

fn side(report: &Report, name: &str) -> Option<usize> {
    report.targets.iter().position(|target| target.label == name)
}

fn rate(report: &Report, row: &Row, name: &str) -> Option<f64> {
    row.values.get(side(report, name)?)?.median.filter(|rate| *rate > 0.0)
}

/// What the measured one, which is the first, does of what another does.
fn part(report: &Report, row: &Row, name: &str) -> Option<f64> {
    let before = side(report, name)?.checked_sub(1)?;
    row.ratios.get(before).copied().flatten().filter(|part| *part > 0.0)
}

fn verdict(report: &Report, row: Option<&Row>, work: &str, limit: Limit, bar: f64) -> Verdict {
    let of = |name: &str| rate(report, row?, name);
    let (name, other) = match limit {
        Limit::Native | Limit::Time => (NATIVE, of(NATIVE)),
        Limit::Mem => (MEM, of(MEM)),
        Limit::Pass => (PASS, of(PASS)),
        Limit::Servers if of(PASS) > of(MEM) => (PASS, of(PASS)),
        Limit::Servers => (MEM, of(MEM)),
    };
    let part = row.and_then(|row| part(report, row, name));
    let (Some(part), Some(other)) = (part, other) else {
        return Verdict {
            text: format!("{work} (bar {bar} of {name}) not measured"),
            reached: None,
        };
    };
    if limit == Limit::Time {
        // Only what is counted in runs says how long one takes.
        let runs = row.is_some_and(|row| row.unit == "run/s");
        let bar = if runs && 1.0 / other > LONG_SECONDS { LONG_TIME } else { bar };
        let times = 1.0 / part;
        let text = format!("{work} {times:.2} times native's time (at most {bar})");
        return said(text, bar - times, "over");
    }
    said(format!("{work} {part:.2} of {name} (bar {bar})"), part - bar, "short")
}

/// `spare` is what there is beyond the bar; `wanting` says what it is when there is nothing.
fn said(text: String, spare: f64, wanting: &str) -> Verdict {
    // What is shown as equal is equal.
    const SHOWN: f64 = 0.005;
    let reached = spare > -SHOWN;
    let end = if reached { "ok".to_owned() } else { format!("{wanting} by {:.2}", -spare) };
    let text = format!("{text} {end}");
    Verdict { text, reached: Some(reached) }
}

#[cfg(test)]
mod tests {
    use super::super::sides::SEAMOUNT;
    use super::*;
    use cli::bench::{Settings, TargetInfo, Value};

    /// Rates of seamount, native, mem and pass.
    fn report(rows: &[(&str, &str, [f64; 4])]) -> Report {
        let target = |label: &str| TargetInfo {
            label: label.to_owned(),
            path: String::new(),
            filesystem: String::new(),
        };
        let row = |(name, unit, rates): &(&str, &str, [f64; 4])| {
            Row::of(*name, *unit, rates.iter().map(|rate| Value::of(vec![*rate])).collect())
        };
        Report {
            targets: [SEAMOUNT, NATIVE, MEM, PASS].map(target).to_vec(),
            settings: Settings { files: 1, passes: 1, threads: 4, stream_bytes: 1, cpus: vec![0] },
            rows: rows.iter().map(row).collect(),
            skipped: Vec::new(),
            warnings: Vec::new(),
            seconds: 1.0,
        }
    }

    fn texts(report: &Report, work: &str) -> Vec<String> {
        let start = format!("{work} ");
        let verdicts = judge(report).into_iter().map(|verdict| verdict.text);
        verdicts.filter(|text| text.starts_with(&start)).collect()
    }

    #[test]
    fn each_is_compared_with_its_own_limit() {
        let report = report(&[
            ("create-empty", "op/s", [91.0, 1.0, 100.0, 1.0]),
            ("rename", "op/s", [46.0, 1.0, 100.0, 1.0]),
            ("create-4k", "op/s", [85.0, 1.0, 50.0, 100.0]),
            ("rand-write-4k", "op/s", [90.0, 100.0, 1.0, 90.0]),
            ("untar", "file/s", [50.0, 100.0, 1.0, 1.0]),
        ]);
        assert_eq!(texts(&report, "create-empty"), ["create-empty 0.91 of mem (bar 0.85) ok"]);
        assert_eq!(texts(&report, "rename"), ["rename 0.46 of mem (bar 0.85) short by 0.39"]);
        assert_eq!(texts(&report, "create-4k"), ["create-4k 0.85 of pass (bar 0.85) ok"]);
        assert_eq!(
            texts(&report, "rand-write-4k"),
            [
                "rand-write-4k 1.00 of pass (bar 0.95) ok",
                "rand-write-4k 0.90 of native (bar 0.9) ok"
            ]
        );
        assert_eq!(
            texts(&report, "untar"),
            ["untar 2.00 times native's time (at most 1.5) over by 0.50"]
        );
        assert_eq!(texts(&report, "mkdir"), ["mkdir (bar 0.85 of mem) not measured"]);
    }

    #[test]
    fn long_computing_has_a_higher_bar() {
        let report = report(&[("cargo-build", "run/s", [0.4, 0.5, 1.0, 1.0])]);
        assert_eq!(
            texts(&report, "cargo-build"),
            ["cargo-build 1.25 times native's time (at most 1.1) over by 0.15"]
        );
    }

    #[test]
    fn every_bar_is_of_a_workload_that_there_is() {
        let names = cli::bench::workload_names(4);
        for work in BARS.iter().flat_map(|(works, _)| *works) {
            assert!(
                *work == super::super::mapped::NAME || names.iter().any(|name| name == work),
                "{work}"
            );
        }
    }
}
