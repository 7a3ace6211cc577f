//! What commands print: tables for people, one JSON document for programs.

use crate::error::{CliError, Result};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// How a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// One JSON document instead of words.
    pub json: bool,
}

impl Output {
    /// Prints the document, or else the words.
    pub fn print<T: Serialize>(self, value: &T, words: impl FnOnce(&T) -> String) -> Result<()> {
        let mut text = if self.json {
            serde_json::to_string_pretty(value)
                .map_err(|error| CliError::new(crate::error::Failure::Failed, error.to_string()))?
        } else {
            words(value)
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        self.write(&text)
    }

    /// Writes to standard output. A reader that has gone away is no error.
    pub fn write(self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(CliError::io("cannot write to standard output", &error))
            }
            _ => Ok(()),
        }
    }

    /// Something for people that is not the answer: to standard error, and only for people.
    pub fn note(self, text: &str) {
        if !self.json {
            let _ = writeln!(io::stderr().lock(), "seamount: {text}");
        }
    }

    /// Whether somebody watches standard output.
    pub fn is_watched(self) -> bool {
        !self.json && io::stdout().is_terminal()
    }
}

/// Prints an error, in the form that was asked for.
pub fn print_error(error: &CliError, json: bool) {
    let mut out = io::stderr().lock();
    let _ = if json {
        let value = serde_json::json!({ "error": {
            "kind": error.kind.name(),
            "code": error.code(),
            "message": error.message,
            "hint": error.hint,
        }});
        writeln!(out, "{value}")
    } else {
        writeln!(out, "seamount: {error}")
    };
}

/// Which way a column leans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lean {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under headings.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(&'static str, Lean)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[(&'static str, Lean)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width_of = |index: usize, heading: &str| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(heading.chars().count())
        };
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| width_of(index, column.0))
            .collect();
        let headings: Vec<String> = self.columns.iter().map(|column| column.0.to_owned()).collect();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), (_, lean)) in row.iter().zip(&widths).zip(&self.columns) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                match lean {
                    Lean::Left => line.push_str(&format!("{cell:<width$}")),
                    Lean::Right => line.push_str(&format!("{cell:>width$}")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Lines of `name  value`, with the values below each other.
pub fn pairs(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in rows {
        text.push_str(&format!("{name:<width$}  {}\n", value.replace('\n', " ")));
    }
    text
}

/// A path or a name for a terminal: control characters and broken UTF-8 cannot change its state.
pub fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let mut table = Table::new(&[("name", Lean::Left), ("size", Lean::Right)]);
        table.row(["a", "10"]);
        table.row(["long name", "5"]);
        assert_eq!(table.to_string(), "name       size\na            10\nlong name     5\n");
        assert_eq!(pairs(&[("a", "1".into()), ("bcd", "2\n3".into())]), "a    1\nbcd  2 3\n");
    }

    #[test]
    fn names_cannot_speak_to_the_terminal() {
        assert_eq!(shown(b"a\x1b[2Jb\n\xff"), "a\\u{1b}[2Jb\\n\u{fffd}");
    }
}
