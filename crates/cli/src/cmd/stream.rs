//! `seamount dump` and `seamount load`: a whole volume as one file or stream. Nothing is ever written over.

use super::Context;
use crate::args::{DumpArgs, LoadArgs};
use crate::control::protocol::Request;
use crate::error::{CliError, Result};
use crate::output::shown;
use crate::progress::Unit;
use crate::reach::{NewFile, Person, perform};
use crate::target::Target;
use crate::units;
use crate::work::StreamReport;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Writes a volume.
pub fn dump(args: &DumpArgs, context: &Context) -> Result<()> {
    let words = &args.target;
    let target = Target::find(words.target.as_deref(), words.volume.as_deref(), &context.settings)?;
    target.store.must_exist()?;
    let to_stdout = args.to == Path::new("-");
    if to_stdout && std::io::stdout().is_terminal() {
        return Err(CliError::usage("a dump is not for a terminal")
            .hint("name a file with --to FILE, or send it into a pipe"));
    }
    if to_stdout && context.output.json {
        return Err(CliError::usage("standard output cannot be both the dump and JSON")
            .hint("name a file with --to FILE"));
    }
    let file = if to_stdout { None } else { Some(NewFile::create(&args.to)?) };
    let out: Box<dyn Write + Send> = match &file {
        Some(file) => Box::new(file.writer()?),
        None => Box::new(std::io::stdout()),
    };
    let person = Person::new("dumping", Unit::Bytes, context.output.json).writing(out).ready()?;
    let request = Request::Dump { volume: target.volume().to_owned() };
    let report: StreamReport =
        perform(&target.store, context.settings.memory, false, &request, &person)?;
    drop(person);
    match file {
        Some(file) => file.keep()?,
        None => {
            let flushed = std::io::stdout().flush();
            flushed.map_err(|error| CliError::io("cannot write to standard output", &error))?;
        }
    }
    let done = |report: &StreamReport| {
        format!(
            "dumped volume \"{}\" to {}: {}, {} inodes with {}",
            report.volume,
            if to_stdout {
                "standard output".into()
            } else {
                shown(args.to.as_os_str().as_bytes())
            },
            units::size(report.stream_bytes),
            units::count(report.inodes),
            units::size(report.data_bytes)
        )
    };
    if to_stdout {
        context.output.note(&done(&report));
        return Ok(());
    }
    context.output.print(&report, done)
}

/// Makes a volume.
pub fn load(args: &LoadArgs, context: &Context) -> Result<()> {
    let target =
        Target::of_store(args.store.as_deref(), args.volume.as_deref(), &context.settings)?;
    let from: Box<dyn Read + Send> = if args.from == Path::new("-") {
        if std::io::stdin().is_terminal() {
            return Err(CliError::usage("a dump is not typed at a terminal")
                .hint("name a file with --from FILE, or send it from a pipe"));
        }
        Box::new(std::io::stdin())
    } else {
        let file = File::open(&args.from).map_err(|error| {
            CliError::io(format!("cannot open {}", args.from.display()), &error)
        })?;
        Box::new(file)
    };
    let person = Person::new("loading", Unit::Bytes, context.output.json).reading(from).ready()?;
    let request = Request::Load { volume: target.volume().to_owned() };
    let report: StreamReport =
        perform(&target.store, context.settings.memory, true, &request, &person)?;
    drop(person);
    context.output.print(&report, |report| {
        format!(
            "loaded volume \"{}\" of {}: {} inodes with {}",
            report.volume,
            target.store.dir().display(),
            units::count(report.inodes),
            units::size(report.data_bytes)
        )
    })
}
