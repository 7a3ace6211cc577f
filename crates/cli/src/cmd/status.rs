//! `seamount status`: what is mounted, and what stores hold.

use super::Context;
use crate::args::StatusArgs;
use crate::control::protocol::Request;
use crate::error::{CliError, Failure, Result};
use crate::output::{Lean, Table, pairs, shown};
use crate::progress::Unit;
use crate::reach::{Person, perform};
use crate::store::{Found, StoreName, StoreUrl};
use crate::target::{Target, mounts};
use crate::units;
use crate::work::{StatusReport, VolumeReport};
use serde::Serialize;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

#[derive(Debug, Serialize)]
struct Answer {
    mounts: Vec<MountLine>,
    stores: Vec<StatusReport>,
    unreachable: Vec<Unreachable>,
}

#[derive(Debug, Serialize)]
struct MountLine {
    mountpoint: String,
    source: String,
    stale: bool,
}

#[derive(Debug, Serialize)]
struct Unreachable {
    store: String,
    kind: &'static str,
    message: String,
}

/// Shows.
pub fn run(args: &StatusArgs, context: &Context) -> Result<()> {
    let mut entries = mounts()?;
    let mut stores = BTreeSet::new();
    match &args.target {
        Some(word) => {
            let target = Target::find(Some(word), None, &context.settings)?;
            entries
                .retain(|entry| store_of(&entry.source).is_some_and(|store| store == target.store));
            stores.insert(target.store);
        }
        None => {
            stores.extend(entries.iter().filter_map(|entry| store_of(&entry.source)));
            let usual = Target::of_store(None, None, &context.settings)?.store;
            if usual.inspect().is_ok_and(|found| found == Found::Store) {
                stores.insert(usual);
            }
        }
    }
    let mut answer = Answer { mounts: Vec::new(), stores: Vec::new(), unreachable: Vec::new() };
    for entry in &entries {
        answer.mounts.push(MountLine {
            mountpoint: shown(entry.mountpoint.as_os_str().as_bytes()),
            source: entry.source.clone(),
            stale: fuse::is_stale(&entry.mountpoint),
        });
    }
    for store in &stores {
        match status(store, context) {
            Ok(report) => answer.stores.push(report),
            // One that was asked for must be there; of many, the others are still of interest.
            Err(error) if args.target.is_some() => return Err(error),
            Err(error) => answer.unreachable.push(Unreachable {
                store: store.to_string(),
                kind: error.kind.name(),
                message: error.message,
            }),
        }
    }
    context.output.print(&answer, |answer| words(answer, &context.program))
}

fn store_of(source: &str) -> Option<StoreUrl> {
    Some(StoreName::of_source(source).ok()?.store)
}

fn status(store: &StoreUrl, context: &Context) -> Result<StatusReport> {
    let person = Person::new("looking", Unit::Things, context.output.json).ready()?;
    perform(store, context.settings.memory, false, &Request::Status, &person).map_err(
        |error: CliError| match error.kind {
            Failure::InUse => error.hint("another command is at work there: try again"),
            _ => error,
        },
    )
}

fn words(answer: &Answer, program: &str) -> String {
    let mut text = String::new();
    for store in &answer.stores {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&store_words(store));
    }
    for store in &answer.unreachable {
        text.push_str(&format!("\n{}: {}\n", store.store, store.message));
    }
    for mount in answer.mounts.iter().filter(|mount| store_of(&mount.source).is_none()) {
        text.push_str(&format!(
            "\n{} was mounted by another program, from {}\n",
            mount.mountpoint, mount.source
        ));
    }
    for mount in answer.mounts.iter().filter(|mount| mount.stale) {
        let place = &mount.mountpoint;
        text.push_str(&format!(
            "\n{place} is a dead mount: mount it again, or `{program} umount {place}`\n"
        ));
    }
    if answer.stores.is_empty() && answer.unreachable.is_empty() && answer.mounts.is_empty() {
        text.push_str(&format!("nothing is mounted, and there is no default store: begin with `{program} mount ~/sea`\n"));
    }
    text
}

fn store_words(report: &StatusReport) -> String {
    let engine = &report.engine;
    let daemon = match report.daemon_pid {
        Some(pid) => format!("process {pid}, version {}", report.version),
        None => "none".to_owned(),
    };
    let mut text = pairs(&[
        ("store", report.store.clone()),
        ("daemon", daemon),
        (
            "engine",
            format!(
                "{}: {} in {} tables, {} in the log",
                engine.name,
                units::size(engine.table_bytes),
                units::count(engine.tables),
                units::size(engine.log_bytes)
            ),
        ),
    ]);
    if report.volumes.is_empty() {
        text.push_str("no volumes\n");
        return text;
    }
    let mut table = Table::new(&[
        ("volume", Lean::Left),
        ("used", Lean::Right),
        ("of", Lean::Right),
        ("inodes", Lean::Right),
        ("open", Lean::Right),
        ("requests", Lean::Right),
        ("mounted at", Lean::Left),
    ]);
    for volume in &report.volumes {
        table.row(row(volume));
    }
    text.push_str(&table.to_string());
    text
}

fn row(volume: &VolumeReport) -> Vec<String> {
    if let Some(trouble) = &volume.trouble {
        let dashes = std::iter::repeat_n("-".to_owned(), 5);
        return std::iter::once(volume.name.clone())
            .chain(dashes)
            .chain([trouble.clone()])
            .collect();
    }
    let of = match volume.capacity_bytes {
        0 => "no bound".to_owned(),
        bytes => units::size(bytes),
    };
    let (open, requests, place) = match &volume.mount {
        None => ("-".to_owned(), "-".to_owned(), "not mounted".to_owned()),
        Some(mount) => {
            let how = match (mount.read_only, mount.supervised) {
                (true, true) => ", read-only, supervised",
                (true, false) => ", read-only",
                (false, true) => ", supervised",
                (false, false) => "",
            };
            let by = if mount.transport == "uring" { " over io_uring" } else { "" };
            (
                units::count(mount.open_handles),
                units::count(mount.requests),
                format!("{} ({}{by}{how})", mount.mountpoint, mount.data_path),
            )
        }
    };
    vec![
        volume.name.clone(),
        units::size(volume.used_bytes),
        of,
        units::count(volume.inodes),
        open,
        requests,
        place,
    ]
}
