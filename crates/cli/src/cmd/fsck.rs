//! `seamount fsck` and `seamount gc`.

use super::Context;
use crate::args::TargetArgs;
use crate::control::protocol::Request;
use crate::error::{CliError, Failure, Result};
use crate::output::{Lean, Table};
use crate::progress::Unit;
use crate::reach::{Person, perform};
use crate::target::Target;
use crate::units;
use crate::work::{FsckReport, GcReport};

/// Checks a volume. Findings are an error of their own, after the report.
pub fn fsck(args: &TargetArgs, context: &Context) -> Result<()> {
    let target = Target::find(args.target.as_deref(), args.volume.as_deref(), &context.settings)?;
    let person = Person::new("checking", Unit::Things, context.output.json).ready()?;
    let request = Request::Fsck { volume: target.volume().to_owned() };
    let report: FsckReport =
        perform(&target.store, context.settings.memory, false, &request, &person)?;
    drop(person);
    context.output.print(&report, words)?;
    if report.findings_total == 0 {
        return Ok(());
    }
    let words = format!(
        "volume \"{}\" of {} has {} findings",
        report.volume,
        target.store.dir().display(),
        units::count(report.findings_total)
    );
    Err(CliError::new(Failure::Damaged, words)
        .hint("save what can be read, and load it into a new volume, or restore a dump"))
}

fn words(report: &FsckReport) -> String {
    let mut text = format!(
        "checked volume \"{}\": {} inodes, {} names, {} blocks with {}, {} keys: {}\n",
        report.volume,
        units::count(report.inodes),
        units::count(report.entries),
        units::count(report.blocks),
        units::size(report.bytes),
        units::count(report.keys),
        match report.findings_total {
            0 => "all is well".to_owned(),
            count => format!("{} findings", units::count(count)),
        }
    );
    if !report.findings.is_empty() {
        let mut table = Table::new(&[("kind", Lean::Left), ("what", Lean::Left)]);
        for finding in &report.findings {
            table.row([finding.kind.clone(), finding.what.clone()]);
        }
        text.push_str(&table.to_string());
        let left = report.findings_total - report.findings.len() as u64;
        if left > 0 {
            text.push_str(&format!("and {} more\n", units::count(left)));
        }
    }
    text
}

/// Collects garbage.
pub fn gc(args: &TargetArgs, context: &Context) -> Result<()> {
    let target = Target::find(args.target.as_deref(), args.volume.as_deref(), &context.settings)?;
    let person = Person::new("collecting", Unit::Things, context.output.json).ready()?;
    let request = Request::Gc { volume: target.volume().to_owned() };
    let report: GcReport =
        perform(&target.store, context.settings.memory, false, &request, &person)?;
    drop(person);
    context.output.print(&report, |report| {
        let mut text = format!(
            "collected in volume \"{}\": {} inodes, {} steps of jobs, {} dead sessions, {} came free",
            report.volume,
            units::count(report.inodes),
            units::count(report.job_steps),
            units::count(report.sessions),
            units::size(report.bytes)
        );
        if report.jobs_left > 0 {
            text.push_str(&format!("; {} jobs are left, of work under way", report.jobs_left));
        }
        text
    })
}
