//! `seamount completion`, `seamount man` and `seamount version`.

use super::Context;
use crate::args::{Cli, CompletionArgs, ManArgs};
use crate::error::{CliError, Failure, Result};
use crate::output::pairs;
use clap::CommandFactory;
use serde::Serialize;
use std::path::Path;

/// Prints a completion script.
pub fn completion(args: &CompletionArgs, context: &Context) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "seamount", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let answer = serde_json::json!({ "shell": args.shell.to_string(), "script": script });
    context.output.print(&answer, |_| script)
}

/// Prints the manual, or writes its pages.
pub fn man(args: &ManArgs, context: &Context) -> Result<()> {
    let Some(dir) = &args.to else {
        let page = page(Cli::command())?;
        return context.output.print(&serde_json::json!({ "seamount.1": page }), |_| page.clone());
    };
    let pages = pages()?;
    std::fs::create_dir_all(dir)
        .map_err(|error| CliError::io(format!("cannot make {}", dir.display()), &error))?;
    for (name, page) in &pages {
        write(&dir.join(name), page)?;
    }
    let names: Vec<&String> = pages.iter().map(|(name, _)| name).collect();
    let answer = serde_json::json!({ "directory": dir.to_string_lossy(), "pages": names });
    context.output.print(&answer, |_| {
        format!(
            "wrote {} pages to {}: read one with `man -l {}/seamount.1`",
            names.len(),
            dir.display(),
            dir.display()
        )
    })
}

fn write(path: &Path, page: &str) -> Result<()> {
    std::fs::write(path, page)
        .map_err(|error| CliError::io(format!("cannot write {}", path.display()), &error))
}

/// The pages: one for the program, one for each verb.
fn pages() -> Result<Vec<(String, String)>> {
    let mut whole = Cli::command();
    whole.build();
    let mut pages = vec![("seamount.1".to_owned(), page(Cli::command())?)];
    for verb in whole.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        if verb.get_name() == "help" {
            continue;
        }
        let name = format!("seamount-{}", verb.get_name());
        let verb = verb.clone().display_name(&name).bin_name(name.replacen('-', " ", 1));
        pages.push((format!("{name}.1"), page(verb)?));
    }
    Ok(pages)
}

fn page(command: clap::Command) -> Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .manual("Seamount")
        .render(&mut page)
        .map_err(|error| CliError::io("cannot make the manual", &error))?;
    String::from_utf8(page).map_err(|error| CliError::new(Failure::Failed, error.to_string()))
}

#[derive(Debug, Serialize)]
struct Versions {
    seamount: &'static str,
    volume_format: u64,
    stores: [&'static str; 1],
}

/// Prints versions.
pub fn version(context: &Context) -> Result<()> {
    let versions = Versions {
        seamount: env!("CARGO_PKG_VERSION"),
        volume_format: fs::schema::FORMAT,
        stores: ["local"],
    };
    context.output.print(&versions, |versions| {
        pairs(&[
            ("seamount", versions.seamount.to_owned()),
            ("volume format", versions.volume_format.to_string()),
            ("stores", versions.stores.join(", ")),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_that_is_offered_has_a_page() {
        let pages = pages().unwrap();
        for verb in ["", "-mount", "-umount", "-dump", "-config", "-stats"] {
            let name = format!("seamount{verb}.1");
            let (_, page) = pages.iter().find(|page| page.0 == name).expect(&name);
            assert!(page.contains(".TH"), "{name}");
        }
        assert!(!pages.iter().any(|page| page.0.contains("supervisor")));
    }
}
