//! `seamount config`: a volume's options, and those of them that can be changed.

use super::Context;
use crate::args::{ConfigArgs, ConfigVerb, TargetArgs};
use crate::control::protocol::Request;
use crate::error::{CliError, Failure, Result, nearest};
use crate::output::{Lean, Table};
use crate::progress::Unit;
use crate::reach::{Person, perform};
use crate::target::Target;
use crate::units;
use crate::work::{OptionsReport, parse_codec};

/// The options: name, whether it can be changed, and what it is.
const OPTIONS: [(&str, bool, &str); 7] = [
    ("capacity", true, "bytes that data may take; 0 for no bound"),
    ("inodes", true, "inodes that there may be; 0 for no bound"),
    ("codec", true, "how new blocks are compressed: none, lz4 or zstd"),
    ("chunk", false, "size of a chunk"),
    ("block", false, "size of a block"),
    ("inline", false, "the largest file that is kept in its inode"),
    ("parity", false, "blocks that share a block of parity"),
];

/// Shows or changes.
pub fn run(args: &ConfigArgs, context: &Context) -> Result<()> {
    match &args.verb {
        ConfigVerb::List { target } => {
            let report = get(target, context)?;
            context.output.print(&report, list_words)
        }
        ConfigVerb::Get { key, target } => {
            known(key)?;
            let report = get(target, context)?;
            let value = value_of(&report, key);
            let json = serde_json::json!({ key: json_of(&report, key) });
            context.output.print(&json, |_| value)
        }
        ConfigVerb::Set { changes, of, volume } => {
            let request = changes_of(changes)?;
            let target = Target::find(of.as_deref(), volume.as_deref(), &context.settings)?;
            let request = request.into_request(target.volume());
            let report: OptionsReport = ask(&target, &request, context)?;
            context.output.print(&report, |report| {
                let later = if report.mounted {
                    "it is mounted: the change counts from its next mount on\n"
                } else {
                    ""
                };
                format!("{}{later}", list_words(report))
            })
        }
    }
}

fn get(target: &TargetArgs, context: &Context) -> Result<OptionsReport> {
    let target =
        Target::find(target.target.as_deref(), target.volume.as_deref(), &context.settings)?;
    ask(&target, &Request::Options { volume: target.volume().to_owned() }, context)
}

fn ask(target: &Target, request: &Request, context: &Context) -> Result<OptionsReport> {
    let person = Person::new("looking", Unit::Things, context.output.json).ready()?;
    perform(&target.store, context.settings.memory, false, request, &person)
}

/// Options to be changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    capacity: Option<u64>,
    inodes: Option<u64>,
    codec: Option<String>,
}

impl Changes {
    fn into_request(self, volume: &str) -> Request {
        Request::SetOptions {
            volume: volume.to_owned(),
            capacity_bytes: self.capacity,
            inodes_max: self.inodes,
            codec: self.codec,
        }
    }
}

fn known(key: &str) -> Result<bool> {
    if let Some((_, changes, _)) = OPTIONS.iter().find(|row| row.0 == key) {
        return Ok(*changes);
    }
    let made = CliError::usage(format!("a volume has no option \"{key}\""));
    Err(match nearest(key, OPTIONS.iter().map(|row| row.0)) {
        Some(near) => made.hint(format!("is \"{near}\" meant?")),
        None => {
            let names: Vec<&str> = OPTIONS.iter().map(|row| row.0).collect();
            made.hint(format!("there are {}", names.join(", ")))
        }
    })
}

fn changes_of(words: &[String]) -> Result<Changes> {
    let mut changes = Changes::default();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(CliError::usage(format!("\"{word}\" is not KEY=VALUE")));
        };
        if !known(key)? {
            let names: Vec<&str> = OPTIONS.iter().filter(|row| row.1).map(|row| row.0).collect();
            let words = format!("{key} was fixed when the volume was made, and cannot be changed");
            return Err(CliError::new(Failure::Unsupported, words).hint(format!(
                "{} can be; for another {key}, dump the volume and load it into a new one",
                names.join(", ")
            )));
        }
        match key {
            "capacity" => {
                changes.capacity = Some(units::parse_size(value).map_err(CliError::usage)?)
            }
            "inodes" => {
                let count = value.parse().map_err(|_| {
                    CliError::usage(format!("inodes={value}: inodes takes a number"))
                })?;
                changes.inodes = Some(count);
            }
            _ => {
                parse_codec(value)?;
                changes.codec = Some(value.to_owned());
            }
        }
    }
    Ok(changes)
}

fn value_of(report: &OptionsReport, key: &str) -> String {
    match key {
        "capacity" => units::exact_size(report.capacity),
        "inodes" => report.inodes.to_string(),
        "codec" => report.codec.clone(),
        "chunk" => units::exact_size(report.chunk.into()),
        "block" => units::exact_size(report.block.into()),
        "inline" => units::exact_size(report.inline.into()),
        _ => report.parity.to_string(),
    }
}

fn json_of(report: &OptionsReport, key: &str) -> serde_json::Value {
    let all = serde_json::to_value(report).unwrap_or_default();
    all.get(key).cloned().unwrap_or_default()
}

fn list_words(report: &OptionsReport) -> String {
    let mut table = Table::new(&[("option", Lean::Left), ("value", Lean::Left), ("", Lean::Left)]);
    for (key, changes, what) in OPTIONS {
        let fixed = if changes { "" } else { " (fixed)" };
        table.row([key.to_owned(), value_of(report, key), format!("{what}{fixed}")]);
    }
    format!(
        "volume \"{}\" of {}, made {}, uuid {}\n{table}",
        report.volume, report.store, report.created, report.uuid
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Result<Changes> {
        changes_of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn changes_are_read_in_peoples_units() {
        let changes = words(&["capacity=10G", "inodes=5", "codec=zstd"]).unwrap();
        assert_eq!(
            changes,
            Changes { capacity: Some(10 << 30), inodes: Some(5), codec: Some("zstd".into()) }
        );
    }

    #[test]
    fn what_cannot_be_changed_is_refused_and_says_what_can() {
        let error = words(&["chunk=8MiB"]).unwrap_err();
        assert_eq!(error.kind, Failure::Unsupported);
        assert!(error.to_string().contains("capacity, inodes, codec can be"), "{error}");
        let error = words(&["capcity=1G"]).unwrap_err();
        assert!(error.to_string().contains("is \"capacity\" meant?"), "{error}");
        for word in ["capacity", "capacity=much", "codec=zip", "inodes=-1"] {
            assert_eq!(words(&[word]).unwrap_err().kind, Failure::Usage, "{word}");
        }
    }
}
