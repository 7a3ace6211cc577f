//! `seamount fsck` and `seamount gc`.

use super::Context;
use crate::args::{FsckArgs, TargetArgs};
use crate::control::protocol::{FsckMode, Request};
use crate::error::{CliError, Failure, Result};
use crate::output::{Lean, Table};
use crate::progress::Unit;
use crate::reach::{Person, perform};
use crate::target::Target;
use crate::units;
use crate::work::{FindingReport, FsckReport, GcReport};
use std::io::{BufRead, IsTerminal, Write};

/// Checks a volume, and repairs it if asked to. Findings are an error of their own, after the report.
pub fn fsck(args: &FsckArgs, context: &Context) -> Result<()> {
    let words = &args.target;
    let target = Target::find(words.target.as_deref(), words.volume.as_deref(), &context.settings)?;
    let mode = match (args.repair, args.dry_run) {
        (false, false) => FsckMode::Check,
        (_, true) => FsckMode::Plan,
        (true, false) => FsckMode::Repair,
    };
    if mode != FsckMode::Repair || args.yes {
        return tell(&ask(&target, mode, args.threads, context)?, &target, context);
    }
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage("a repair changes the volume, and nobody can be asked here")
            .hint("say --yes if you are sure, or --dry-run to see what it would do"));
    }
    let plan = ask(&target, FsckMode::Plan, args.threads, context)?;
    if plan.repaired_total == 0 {
        return tell(&plan, &target, context);
    }
    eprint!("{}", words_of(&plan));
    if !agrees()? {
        return Err(CliError::new(Failure::Damaged, "nothing was changed"));
    }
    tell(&ask(&target, FsckMode::Repair, args.threads, context)?, &target, context)
}

fn ask(
    target: &Target,
    mode: FsckMode,
    threads: Option<u16>,
    context: &Context,
) -> Result<FsckReport> {
    let title = if mode == FsckMode::Repair { "repairing" } else { "checking" };
    let person = Person::new(title, Unit::Things, context.output.json).ready()?;
    let request = Request::Fsck { volume: target.volume().to_owned(), mode, threads };
    perform(&target.store, context.settings.memory, false, &request, &person)
}

fn agrees() -> Result<bool> {
    let failed = |error| CliError::io("cannot ask", &error);
    eprint!("Repair it? Type yes to go on: ");
    std::io::stderr().flush().map_err(failed)?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(failed)?;
    Ok(line.trim() == "yes")
}

/// Prints the report. How much of what was found is left decides how the command ends.
fn tell(report: &FsckReport, target: &Target, context: &Context) -> Result<()> {
    context.output.print(report, words_of)?;
    let place = target.store.dir().display();
    let volume = format!("volume \"{}\" of {place}", report.volume);
    let count = units::count(report.findings_total);
    if report.findings_total > 0 && report.mode == FsckMode::Repair {
        let words = format!("{volume} has {count} findings that cannot be repaired");
        return Err(CliError::new(Failure::Damaged, words).hint(
            "what they name is lost or reads as an error: restore it from a copy or a dump",
        ));
    }
    if report.findings_total > 0 {
        let words = format!("{volume} has {count} findings");
        let hint = match report.mode {
            FsckMode::Plan => "repair it with `seamount fsck --repair`",
            _ => "see what a repair would do with `seamount fsck --repair --dry-run`",
        };
        return Err(CliError::new(Failure::Damaged, words).hint(hint));
    }
    if report.repaired_total > 0 {
        let words =
            format!("{volume} had {} findings: all repaired", units::count(report.found_total));
        return Err(CliError::new(Failure::Repaired, words));
    }
    Ok(())
}

fn words_of(report: &FsckReport) -> String {
    let mut text = format!(
        "checked volume \"{}\": {} inodes, {} names, {} blocks with {}, {} keys: {}\n",
        report.volume,
        units::count(report.inodes),
        units::count(report.entries),
        units::count(report.blocks),
        units::size(report.bytes),
        units::count(report.keys),
        match (report.findings_total, report.mode) {
            (0, _) => "all is well".to_owned(),
            (count, FsckMode::Repair) => {
                format!("{} findings cannot be repaired", units::count(count))
            }
            (count, _) => format!("{} findings", units::count(count)),
        }
    );
    list(&mut text, "kind", "what", &report.findings, report.findings_total);
    if report.repaired_total > 0 {
        let head = match report.mode {
            FsckMode::Repair => "repaired",
            _ => "would be repaired",
        };
        text.push_str(&format!("{head}: {}\n", units::count(report.repaired_total)));
        list(&mut text, "kind", "what is done", &report.repaired, report.repaired_total);
    }
    text
}

fn list(
    text: &mut String,
    kind: &'static str,
    what: &'static str,
    rows: &[FindingReport],
    total: u64,
) {
    if rows.is_empty() {
        return;
    }
    let mut table = Table::new(&[(kind, Lean::Left), (what, Lean::Left)]);
    for row in rows {
        table.row([row.kind.clone(), row.what.clone()]);
    }
    text.push_str(&table.to_string());
    let left = total - rows.len() as u64;
    if left > 0 {
        text.push_str(&format!("and {} more\n", units::count(left)));
    }
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
