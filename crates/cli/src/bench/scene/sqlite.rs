//! sqlite3: one row and one commit at a time, with each kind of journal.

use super::{Scene, program};
use crate::bench::error::Error;
use crate::bench::stage::{Stage, Step};
use crate::bench::work::Work;
use std::path::Path;
use std::process::Command;

pub(super) const SCENE: Scene =
    Scene { name: "sqlite", works: &[Work::SqliteCommit, Work::SqliteCommitWal], play };

/// Commits of one run of the program: enough that its start does not count.
const COMMITS_A_RUN: u64 = 100;

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    for (work, journal) in [(Work::SqliteCommit, "delete"), (Work::SqliteCommitWal, "wal")] {
        if stage.wants(work) {
            commit(stage, work, journal)?;
        }
    }
    Ok(())
}

fn commit(stage: &mut Stage<'_>, work: Work, journal: &str) -> Result<(), Error> {
    let base = stage.dir.join(format!("{journal}.db"));
    let set = format!("PRAGMA journal_mode={journal};\nPRAGMA synchronous=FULL;\n");
    stage.untimed("making a database", |step| {
        sqlite(
            step,
            &base,
            &format!("{set}CREATE TABLE row(number INTEGER PRIMARY KEY, text TEXT);\n"),
        )
    })?;
    let insert =
        "INSERT INTO row(text) VALUES(hex(randomblob(50)));\n".repeat(COMMITS_A_RUN as usize);
    let script = set + &insert;
    let rows = stage.timed(work, |step| {
        Ok(step.repeat(|_| sqlite(step, &base, &script).map(drop))? * COMMITS_A_RUN)
    })?;
    stage.untimed("checking the database", |step| {
        let said = sqlite(step, &base, "PRAGMA integrity_check;\nSELECT count(*) FROM row;\n")?;
        if said.split_whitespace().eq(["ok", rows.to_string().as_str()]) {
            return Ok(());
        }
        Err(Error::wrong(
            &base,
            format!("{rows} rows were committed, sqlite3 says: {}", said.trim()),
        ))
    })
}

fn sqlite(step: &Step<'_>, base: &Path, script: &str) -> Result<String, Error> {
    program::run(
        step,
        Command::new("sqlite3").args(["-init", "/dev/null", "-batch", "-bail"]).arg(base),
        script,
    )
}
