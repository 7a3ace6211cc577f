//! sqlite3 with several writing processes at once: nothing lost, nothing broken, by either journal.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::ground::Ground;
use crate::tool::{find, has, run};

const WRITERS: u64 = 4;
const ROWS: u64 = 100;

fn sqlite(base: &Path, lines: &str) -> String {
    let script = base.with_extension("sql");
    fs::write(&script, format!(".bail on\n.timeout 120000\n{lines}")).unwrap();
    run(Command::new("sqlite3").arg(base).arg(format!(".read '{}'", script.display()))).text()
}

fn concurrent_writers(proof: &str, journal: &str) {
    let Some(mut ground) = Ground::new(proof) else { return };
    if !has(proof, &["sqlite3"]) {
        return;
    }
    let base = ground.at("base.db");
    let mode = sqlite(
        &base,
        &format!(
            "pragma journal_mode={journal}; create table rows(writer, number, text, unique(writer, number));
             create table total(n); insert into total values(0);"
        ),
    );
    assert_eq!(mode.trim(), journal);
    let writers = (0..WRITERS).map(|writer| {
        let script = ground.at(format!("writer-{writer}.sql"));
        let mut lines = String::from(".bail on\n.timeout 120000\n");
        for number in 0..ROWS {
            let text = format!("{writer}-{number} ").repeat(1 + (number % 50) as usize);
            lines += &format!(
                "begin immediate; insert into rows values({writer},{number},'{text}'); update total set n=n+1; commit;\n"
            );
        }
        fs::write(&script, lines).unwrap();
        let mut command = Command::new(find("sqlite3").unwrap());
        command.arg(&base).arg(format!(".read '{}'", script.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    let writers: Vec<_> = writers.collect();
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let check = "pragma integrity_check; select n from total; select count(*), count(distinct writer) from rows;
        select sum(length(text)) from rows;";
    let bytes: u64 = (0..WRITERS)
        .map(|writer| {
            (0..ROWS)
                .map(|number| (format!("{writer}-{number} ").len() as u64) * (1 + number % 50))
                .sum::<u64>()
        })
        .sum();
    let want = format!("ok\n{0}\n{0}|{WRITERS}\n{bytes}\n", WRITERS * ROWS);
    assert_eq!(sqlite(&base, check), want);
    ground.remount();
    assert_eq!(sqlite(&base, check), want);
    // The same file on the native filesystem has the same rows.
    let ordered = "select * from rows order by writer, number;";
    let native = ground.beside().join("native.db");
    fs::copy(&base, &native).unwrap();
    assert_eq!(sqlite(&base, ordered), sqlite(&native, ordered));
    assert_eq!(sqlite(&base, "vacuum; pragma integrity_check;"), "ok\n");
}

#[test]
fn a_write_ahead_log_under_concurrent_writers() {
    concurrent_writers("sqlite3 with a write-ahead log", "wal");
}

#[test]
fn a_rollback_journal_under_concurrent_writers() {
    concurrent_writers("sqlite3 with a rollback journal", "delete");
}

#[test]
fn a_killed_writer_leaves_a_whole_database() {
    let proof = "sqlite3 killed";
    let Some(ground) = Ground::new(proof) else { return };
    if !has(proof, &["sqlite3"]) {
        return;
    }
    for journal in ["wal", "delete"] {
        let base = ground.at(format!("{journal}.db"));
        sqlite(&base, &format!("pragma journal_mode={journal}; create table rows(a, b);"));
        let script = ground.at("endless.sql");
        let row = "begin; insert into rows values(1, randomblob(3000)); insert into rows values(2, 0); commit;\n";
        fs::write(&script, format!(".bail on\n.timeout 120000\n{}", row.repeat(20_000))).unwrap();
        let mut command = Command::new(find("sqlite3").unwrap());
        command.arg(&base).arg(format!(".read '{}'", script.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut writer = command.spawn().unwrap();
        crate::ground::wait("some rows are there", || {
            sqlite(&base, "select count(*) > 20 from rows;").trim() == "1"
        });
        writer.kill().unwrap();
        writer.wait().unwrap();
        let found =
            sqlite(&base, "pragma integrity_check; select sum(a = 1) - sum(a = 2) from rows;");
        assert_eq!(found, "ok\n0\n", "both rows of a transaction or none");
    }
}
