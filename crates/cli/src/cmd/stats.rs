//! `seamount stats`: counts and latencies of operations; on a terminal drawn again and again.

use super::Context;
use crate::args::StatsArgs;
use crate::control::protocol::Request;
use crate::error::{CliError, Result};
use crate::output::{Lean, Table};
use crate::progress::Unit;
use crate::reach::{Person, interrupted, perform};
use crate::store::{StoreName, StoreUrl};
use crate::target::{Target, mounts};
use crate::units;
use crate::work::{OpReport, StatsReport};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The shortest time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Shows.
pub fn run(args: &StatsArgs, context: &Context) -> Result<()> {
    let (stores, only) = stores(args, context)?;
    let look = || -> Result<Vec<StatsReport>> {
        let mut reports = Vec::new();
        for store in &stores {
            let person = Person::new("looking", Unit::Things, true).without_signals();
            let mut report: StatsReport =
                perform(store, context.settings.memory, false, &Request::Stats, &person)?;
            if let Some(only) = &only {
                report.volumes.retain(|volume| volume.volume == *only);
            }
            reports.push(report);
        }
        Ok(reports)
    };
    let first = look()?;
    if first.iter().all(|report| report.volumes.is_empty()) {
        return Err(CliError::not_found("it is not mounted, so there is nothing to count")
            .hint("mount it first: counts are those of a mount, from its beginning"));
    }
    if args.once || !context.output.is_watched() {
        return context.output.print(&first, |reports| words(reports, None));
    }
    let mut before = (Instant::now(), first);
    context.output.write(&screen(&words(&before.1, None)))?;
    let interrupted = interrupted()?;
    loop {
        let due = before.0 + args.interval.max(INTERVAL_MIN);
        while Instant::now() < due {
            std::thread::sleep(due.saturating_duration_since(Instant::now()).min(INTERVAL_MIN));
            if interrupted.load(Ordering::Acquire) {
                return Ok(());
            }
        }
        let now = (Instant::now(), look()?);
        if now.1.iter().all(|report| report.volumes.is_empty()) {
            context.output.note("unmounted");
            return Ok(());
        }
        context.output.write(&screen(&words(&now.1, Some((now.0 - before.0, &before.1)))))?;
        before = now;
    }
}

fn stores(args: &StatsArgs, context: &Context) -> Result<(BTreeSet<StoreUrl>, Option<String>)> {
    if let Some(word) = &args.target {
        let target = Target::find(Some(word), None, &context.settings)?;
        return Ok((BTreeSet::from([target.store]), target.named));
    }
    let stores: BTreeSet<StoreUrl> = mounts()?
        .iter()
        .filter(|entry| !fuse::is_stale(&entry.mountpoint))
        .filter_map(|entry| Some(StoreName::of_source(&entry.source).ok()?.store))
        .collect();
    if stores.is_empty() {
        return Err(CliError::not_found("nothing is mounted, so there is nothing to count"));
    }
    Ok((stores, None))
}

/// From the top of the screen, with the rest of it cleared.
fn screen(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{line}\x1b[K\n")).collect();
    format!("\x1b[H{}\x1b[J", lines.concat())
}

fn words(reports: &[StatsReport], before: Option<(Duration, &[StatsReport])>) -> String {
    let old: BTreeMap<(&str, &str, &str), &OpReport> = before
        .iter()
        .flat_map(|(_, reports)| reports.iter())
        .flat_map(|report| report.volumes.iter().map(move |volume| (report, volume)))
        .flat_map(|(report, volume)| {
            let key = (report.store.as_str(), volume.volume.as_str());
            volume.operations.iter().map(move |op| ((key.0, key.1, op.name.as_str()), op))
        })
        .collect();
    let mut text = String::new();
    for report in reports {
        for volume in &report.volumes {
            text.push_str(&format!(
                "{} (volume \"{}\" of {}), {} under way\n",
                volume.mountpoint, volume.volume, report.store, volume.requests_in_flight
            ));
            let mut table = Table::new(&[
                ("operation", Lean::Left),
                ("count", Lean::Right),
                ("per s", Lean::Right),
                ("errors", Lean::Right),
                ("mean", Lean::Right),
                ("half below", Lean::Right),
                ("99% below", Lean::Right),
                ("longest", Lean::Right),
                ("data", Lean::Right),
                ("data per s", Lean::Right),
            ]);
            let mut operations: Vec<&OpReport> = volume.operations.iter().collect();
            operations.sort_by_key(|op| std::cmp::Reverse(op.count));
            for op in operations {
                let was =
                    old.get(&(report.store.as_str(), volume.volume.as_str(), op.name.as_str()));
                table.row(row(op, before.map(|(time, _)| (time, was.copied()))));
            }
            text.push_str(&table.to_string());
        }
    }
    text
}

fn row(op: &OpReport, before: Option<(Duration, Option<&OpReport>)>) -> Vec<String> {
    let rate = |now: u64, was: fn(&OpReport) -> u64| {
        let (time, old) = before?;
        let more = now.saturating_sub(old.map_or(0, was));
        Some(more as f64 / time.as_secs_f64().max(1e-3))
    };
    let per_second = rate(op.count, |op| op.count);
    let bytes_per_second = rate(op.bytes, |op| op.bytes);
    let mean = Duration::from_nanos(op.total_ns.checked_div(op.count).unwrap_or(0));
    let bytes = |bytes: u64| if bytes == 0 { String::new() } else { units::size(bytes) };
    vec![
        op.name.clone(),
        units::count(op.count),
        per_second.map_or(String::new(), |rate| units::count(rate.round() as u64)),
        if op.errors == 0 { String::new() } else { units::count(op.errors) },
        units::time(mean),
        below(op, 0.5),
        below(op, 0.99),
        units::time(Duration::from_nanos(op.max_ns)),
        bytes(op.bytes),
        bytes_per_second.map_or(String::new(), |rate| bytes(rate.round() as u64)),
    ]
}

/// The latency below which that part of the requests is, as well as the classes tell.
fn below(op: &OpReport, part: f64) -> String {
    let wanted = (op.count as f64 * part).ceil() as u64;
    let mut seen = 0;
    for (class, count) in op.buckets.iter().enumerate() {
        seen += count;
        if seen >= wanted && wanted > 0 {
            return units::time(Duration::from_micros(1 << class.min(40)));
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(count: u64, buckets: &[u64]) -> OpReport {
        OpReport {
            name: "read".into(),
            count,
            errors: 0,
            bytes: count * 4096,
            total_ns: count * 1000,
            max_ns: 9000,
            buckets: buckets.to_vec(),
        }
    }

    #[test]
    fn latencies_come_from_classes() {
        let op = op(100, &[0, 50, 40, 10]);
        assert_eq!(below(&op, 0.5), "2.0 µs");
        assert_eq!(below(&op, 0.9), "4.0 µs");
        assert_eq!(below(&op, 0.99), "8.0 µs");
    }

    #[test]
    fn rates_are_those_since_the_last_look() {
        let (old, new) = (op(100, &[100]), op(300, &[300]));
        let row = row(&new, Some((Duration::from_secs(2), Some(&old))));
        assert_eq!(row[2], "100");
        assert_eq!(row[9], "400.0 KiB");
    }
}
