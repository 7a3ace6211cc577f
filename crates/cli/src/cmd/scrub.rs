//! `seamount scrub`: reads and verifies every byte of a volume.

use super::Context;
use crate::args::ScrubArgs;
use crate::control::protocol::{Request, ScrubAction};
use crate::error::{CliError, Failure, Result};
use crate::output::{Lean, Table};
use crate::progress::Unit;
use crate::reach::{Person, perform};
use crate::target::Target;
use crate::units;
use crate::work::ScrubReport;

/// Starts a scrub, stops it, or tells how far it is. Damage is an error of its own, after the report.
pub fn run(args: &ScrubArgs, context: &Context) -> Result<()> {
    let words = &args.target;
    let target = Target::find(words.target.as_deref(), words.volume.as_deref(), &context.settings)?;
    let action = match (args.status, args.stop) {
        (true, _) => ScrubAction::Status,
        (_, true) => ScrubAction::Stop,
        _ => ScrubAction::Start {
            rate_bytes: args.rate,
            restart: args.restart,
            background: args.background,
        },
    };
    let person = Person::new("scrubbing", Unit::Bytes, context.output.json).ready()?;
    let request = Request::Scrub { volume: target.volume().to_owned(), action };
    let report: ScrubReport =
        perform(&target.store, context.settings.memory, false, &request, &person)?;
    drop(person);
    context.output.print(&report, words_of)?;
    let volume = format!("volume \"{}\" of {}", report.volume, target.store.dir().display());
    if report.damaged > 0 {
        let words = format!("{volume} has {} damaged places", units::count(report.damaged));
        return Err(CliError::new(Failure::Damaged, words).hint(
            "restore the files from a copy or a dump; see what a repair would do with \
             `seamount fsck --repair --dry-run`",
        ));
    }
    let waited = matches!(action, ScrubAction::Start { background: false, .. });
    if waited && report.state != "done" {
        return Err(CliError::new(Failure::Failed, format!("{volume}: stopped before its end"))
            .hint("the next `seamount scrub` goes on from here"));
    }
    Ok(())
}

fn words_of(report: &ScrubReport) -> String {
    let volume = &report.volume;
    if report.state == "never" {
        return format!("volume \"{volume}\" was never scrubbed\n");
    }
    let (began, saved) = (report.began.as_deref(), report.saved.as_deref());
    let (began, saved) = (began.unwrap_or_default(), saved.unwrap_or_default());
    let state = match report.state.as_str() {
        "done" => format!("done, from {began} to {saved}"),
        "running" => format!("under way since {began}, last heard of at {saved}"),
        state => format!("{state} at {saved}"),
    };
    let mut text = format!(
        "scrub of volume \"{volume}\": {state}\n{} read, {} keys, {} blocks; {} damaged, {} repaired\n",
        units::size(report.bytes),
        units::count(report.keys),
        units::count(report.blocks),
        units::count(report.damaged),
        units::count(report.repaired),
    );
    if !report.findings.is_empty() {
        let heads = [("kind", Lean::Left), ("path", Lean::Left), ("what", Lean::Left)];
        let mut table = Table::new(&heads);
        for finding in &report.findings {
            let path = match (finding.path.as_str(), finding.inode) {
                ("", 0) => "-".to_owned(),
                ("", inode) => format!("inode {inode}"),
                (path, _) => path.to_owned(),
            };
            table.row([finding.kind.clone(), path, finding.what.clone()]);
        }
        text.push_str(&table.to_string());
        let left = report.damaged.saturating_sub(report.findings.len() as u64);
        if left > 0 {
            text.push_str(&format!("and {} more\n", units::count(left)));
        }
    }
    text
}
