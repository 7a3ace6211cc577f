//! The program `seamount`: words on a command line become calls of the core.
//!
//! The rooms of this crate:
//!
//! * `args`: the words. `config`, `mount_words`: settings, and where they come from. `units`: sizes and
//!   times as people write them. `store`, `target`: what the names of stores, volumes and mounts mean.
//! * `cmd`: the verbs. `output`, `progress`, `logging`, `error`: what they say, and how they end.
//! * `work`: what verbs do to an open store (`opened`), written once. `reach`: in this process, or through
//!   the daemon by `control`.
//! * `bench`: workloads, and how they are measured.
//! * `daemon`, `background`, `supervisor`: what stays when a volume is mounted.

pub mod args;
pub mod background;
pub mod bench;
pub mod cmd;
pub mod config;
pub mod control;
pub mod daemon;
pub mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod logging;
pub mod mount_words;
pub mod opened;
pub mod output;
pub mod progress;
pub mod reach;
pub mod store;
pub mod supervisor;
pub mod target;
pub mod units;
pub mod work;

use args::{Cli, Verb};
use clap::Parser;
use cmd::Context;
use cmd::mount_helper::{self, Called};
use config::Settings;
use error::{CliError, Result};
use output::Output;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Runs a command line, the program's name first.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let (words, by_mount) = match mount_helper::is_call(&words) {
        None => (words, false),
        Some(call) => match mount_helper::translate(call) {
            Ok(Called::Nothing) => return ExitCode::SUCCESS,
            Ok(Called::Words(call)) => {
                (std::iter::once("seamount".into()).chain(call).collect(), true)
            }
            Err(error) => {
                output::print_error(&error, false);
                return ExitCode::from(mount_helper::exit_code(&error));
            }
        },
    };
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match obey(&cli, &words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if cli.global.daemon_child {
                background::say_failed(&error);
            } else {
                output::print_error(&error, cli.global.json);
            }
            ExitCode::from(if by_mount { mount_helper::exit_code(&error) } else { error.code() })
        }
    }
}

fn obey(cli: &Cli, words: &[OsString]) -> Result<()> {
    match cli.verb {
        Verb::Supervisor { .. } => return supervisor::watch(),
        Verb::TakeOver { .. } => return cmd::take_over::run(),
        _ => {}
    }
    let mut flags = Settings::default();
    let mut config = cli.global.config.clone();
    let mut warnings = Vec::new();
    if let Verb::Mount(args) = &cli.verb {
        let (settings, named, skipped) = cmd::mount::words(args)?;
        flags = settings;
        config = config.or(named);
        warnings.extend(skipped.iter().map(|word| format!("-o {word}: unknown, and passed over")));
    }
    flags.overlay(cli.global.settings()?);
    let (settings, strangers) = Settings::gather(config.as_deref(), flags)?;
    warnings.extend(strangers);
    // Somebody who watches sees where things are, and wants to hear of trouble only.
    let is_daemon = matches!(cli.verb, Verb::Mount(_))
        && (cli.global.daemon_child || !std::io::stderr().is_terminal());
    let level = if is_daemon { tracing::Level::INFO } else { tracing::Level::WARN };
    logging::start(&settings, level)?;
    let output = Output { json: cli.global.json };
    if !cli.global.daemon_child {
        for warning in &warnings {
            output.note(warning);
        }
    }
    let program = words.first().map(|word| word.to_string_lossy().into_owned());
    let program = program.filter(|program| !program.is_empty() && !program.starts_with("/proc/"));
    let context =
        Context { settings, output, program: program.unwrap_or_else(|| "seamount".to_owned()) };
    let behind = words.get(1..).unwrap_or_default();
    match &cli.verb {
        Verb::Mount(args) => cmd::mount::run(args, &context, cli.global.daemon_child, behind),
        Verb::Umount(args) => cmd::umount::run(args, &context),
        Verb::Format(args) => cmd::volume::format(args, &context),
        Verb::Status(args) => cmd::status::run(args, &context),
        Verb::Info(args) => cmd::files::info(args, &context),
        Verb::Summary(args) => cmd::files::summary(args, &context),
        Verb::Config(args) => cmd::config::run(args, &context),
        Verb::Fsck(args) => cmd::fsck::fsck(args, &context),
        Verb::Scrub(args) => cmd::scrub::run(args, &context),
        Verb::Gc(args) => cmd::fsck::gc(args, &context),
        Verb::Dump(args) => cmd::stream::dump(args, &context),
        Verb::Load(args) => cmd::stream::load(args, &context),
        Verb::Destroy(args) => cmd::volume::destroy(args, &context),
        Verb::Stats(args) => cmd::stats::run(args, &context),
        Verb::Bench(args) => cmd::bench::run(args, &context),
        Verb::Completion(args) => cmd::shell::completion(args, &context),
        Verb::Man(args) => cmd::shell::man(args, &context),
        Verb::Version => cmd::shell::version(&context),
        Verb::Supervisor { .. } | Verb::TakeOver { .. } => Err(CliError::usage("not for people")),
    }
}
