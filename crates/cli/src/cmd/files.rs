//! `seamount info` and `seamount summary`: files and directories, by their paths.

use super::Context;
use crate::args::FilesArgs;
use crate::control::protocol::Request;
use crate::error::{CliError, Result};
use crate::output::{Lean, Table, pairs, shown};
use crate::progress::Unit;
use crate::reach::{Person, perform};
use crate::target::file;
use crate::units;
use crate::work::{InfoReport, SummaryReport};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Extents that are shown to people.
const EXTENTS_SHOWN: usize = 8;

#[derive(Debug, Serialize)]
struct Of<T> {
    path: String,
    #[serde(flatten)]
    report: T,
}

/// Shows how files are kept.
pub fn info(args: &FilesArgs, context: &Context) -> Result<()> {
    let mut reports: Vec<Of<InfoReport>> = Vec::new();
    for path in &args.paths {
        let (target, file) =
            file(path, args.store.as_ref(), args.volume.as_deref(), &context.settings)?;
        let person = Person::new("looking", Unit::Things, context.output.json).ready()?;
        let request = Request::Info { volume: target.volume().to_owned(), file };
        let report = perform(&target.store, context.settings.memory, false, &request, &person)?;
        reports.push(Of { path: name(path), report });
    }
    context.output.print(&reports, |reports| {
        let texts: Vec<String> = reports.iter().map(info_words).collect();
        texts.join("\n")
    })
}

fn name(path: &Path) -> String {
    shown(path.as_os_str().as_bytes())
}

fn info_words(of: &Of<InfoReport>) -> String {
    let report = &of.report;
    let mut rows = vec![
        ("path", of.path.clone()),
        ("inode", format!("{} of volume \"{}\"", report.inode, report.volume)),
        ("kind", format!("{}, mode {}", report.kind, report.mode)),
        (
            "owner",
            format!(
                "{}:{}, {} {}",
                report.uid,
                report.gid,
                report.links,
                if report.links == 1 { "name" } else { "names" }
            ),
        ),
        (
            "size",
            format!(
                "{} ({} bytes), takes {}",
                units::size(report.bytes),
                report.bytes,
                units::size(report.taken_bytes)
            ),
        ),
    ];
    if let Some(target) = &report.target {
        rows.push(("target", target.clone()));
    }
    if report.kind == "file" {
        let form = match report.form.as_str() {
            "mapped" => format!(
                "mapped: {} chunks, {} blocks, {} stored",
                units::count(report.chunks),
                units::count(report.blocks),
                units::size(report.stored_bytes)
            ),
            form => form.to_owned(),
        };
        rows.push(("form", form));
        rows.push(("home", report.home.clone()));
        if let Some(blob) = report.blob {
            rows.push(("blob", blob.to_string()));
        }
        for extent in report.extents.iter().take(EXTENTS_SHOWN) {
            rows.push((
                "extent",
                format!(
                    "{}..{}, {} stored",
                    extent.start,
                    extent.end,
                    units::size(extent.stored_bytes)
                ),
            ));
        }
        if report.extents.len() > EXTENTS_SHOWN || report.extents_cut {
            rows.push(("", "and more: see --json".to_owned()));
        }
    }
    for xattr in &report.xattrs {
        rows.push(("xattr", format!("{}, {} bytes", xattr.name, xattr.bytes)));
    }
    for lease in &report.leases {
        rows.push((
            "open in",
            format!("session {:x} (process {} on {})", lease.session, lease.pid, lease.host),
        ));
    }
    if report.locks > 0 {
        rows.push(("locks", report.locks.to_string()));
    }
    rows.push(("modified", report.modified.clone()));
    rows.push(("changed", report.changed.clone()));
    rows.push(("accessed", report.accessed.clone()));
    rows.push(("created", report.created.clone()));
    pairs(&rows)
}

/// Counts what is in directories.
pub fn summary(args: &FilesArgs, context: &Context) -> Result<()> {
    let mut reports: Vec<Of<SummaryReport>> = Vec::new();
    for path in &args.paths {
        if args.store.is_none() && std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_dir())
        {
            let words = format!("{} is not a directory", path.display());
            return Err(CliError::usage(words).hint("`seamount info` tells of files"));
        }
        let (target, file) =
            file(path, args.store.as_ref(), args.volume.as_deref(), &context.settings)?;
        let person = Person::new("counting", Unit::Things, context.output.json).ready()?;
        let request = Request::Summary { volume: target.volume().to_owned(), file };
        let report = perform(&target.store, context.settings.memory, false, &request, &person)?;
        reports.push(Of { path: name(path), report });
    }
    context.output.print(&reports, |reports| {
        let mut table = Table::new(&[
            ("files", Lean::Right),
            ("directories", Lean::Right),
            ("links", Lean::Right),
            ("others", Lean::Right),
            ("size", Lean::Right),
            ("takes", Lean::Right),
            ("path", Lean::Left),
        ]);
        for of in reports {
            let sum = &of.report;
            table.row([
                units::count(sum.files),
                units::count(sum.directories),
                units::count(sum.symlinks),
                units::count(sum.others),
                units::size(sum.bytes),
                units::size(sum.taken_bytes),
                of.path.clone(),
            ]);
        }
        table.to_string()
    })
}
