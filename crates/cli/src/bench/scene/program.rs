//! Other people's programs as workloads: found, run, and their failures told.

use crate::bench::error::Error;
use crate::bench::stage::Step;
use std::io::Write;
use std::process::{Command, Stdio};

/// Whether this program is there.
pub(crate) fn exists(name: &str) -> bool {
    let found = Command::new(name).arg("--version").stdin(Stdio::null()).output();
    found.is_ok_and(|output| output.status.success())
}

/// Runs it with this input; gives what it printed.
pub(super) fn run(step: &Step<'_>, command: &mut Command, input: &str) -> Result<String, Error> {
    let output = run_bytes(step, command, input.as_bytes())?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The same with bytes. What it prints must fit into a pipe as long as it reads its input.
pub(super) fn run_bytes(
    step: &Step<'_>,
    command: &mut Command,
    input: &[u8],
) -> Result<Vec<u8>, Error> {
    let words = |command: &Command| {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    let failed = |command: &Command, said: &dyn std::fmt::Display| Error::Program {
        command: words(command),
        said: said.to_string(),
    };
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|error| failed(command, &error))?;
    // A program that ends early closes its input; why it did is in its status.
    let fed = child.stdin.take().map(|mut stdin| stdin.write_all(input));
    let output = child.wait_with_output().map_err(|error| failed(command, &error))?;
    // Ctrl-C reaches the program too: then its failure is not the news.
    step.check()?;
    if !output.status.success() || !matches!(fed, None | Some(Ok(()))) {
        let said = String::from_utf8_lossy(&output.stderr);
        let said =
            if said.trim().is_empty() { output.status.to_string() } else { said.trim().to_owned() };
        return Err(failed(command, &said));
    }
    Ok(output.stdout)
}
