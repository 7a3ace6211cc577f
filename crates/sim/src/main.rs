//! The command: which seeds of which scenario to run. Ends with 0 when all passed, 1 when some
//! failed, 2 when it was not understood. Rounds on real mounts start this program again as `seamount`.

use base::{OsRandom, Random};
use sim::args::{self, Command};
use sim::real::{self, Role};
use sim::{crash, cuts, faults, load, rot, scenario, seeds, soak};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

// As in the program `seamount`, whose memory is measured here.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match real::role() {
        Role::Sim => simulate(),
        Role::Seamount => cli::run(std::env::args_os().collect()),
        Role::Mapper => match real::serve_mapper(io::stdin().lock(), io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Role::Holder => {
            let words: Vec<String> = std::env::args().skip(1).collect();
            match load::hold(&words, io::stdin().lock(), io::stdout().lock()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
    }
}

fn simulate() -> ExitCode {
    let command = args::parse(std::env::args().skip(1)).and_then(chosen);
    let run = match command {
        Ok(run) => run,
        Err(message) => {
            eprintln!("sim: {message}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    let stdout = io::stdout();
    match run(&mut stdout.lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("sim: cannot write the report: {error}");
            ExitCode::from(1)
        }
    }
}

/// One that nobody has tried, and short enough to be typed.
fn new_seed() -> u64 {
    OsRandom::new().below(1 << 32)
}

/// Says whether all that was run has passed.
type Run = Box<dyn FnOnce(&mut dyn Write) -> io::Result<bool>>;

fn chosen(command: Command) -> Result<Run, String> {
    Ok(match command {
        Command::Help => Box::new(|out| writeln!(out, "{}", args::USAGE).map(|()| true)),
        Command::Crash { rounds, seed, supervised } => {
            let options = crash::Options {
                rounds,
                seed: seed.unwrap_or_else(new_seed),
                dir: std::env::temp_dir(),
                supervised,
            };
            Box::new(move |out| crash::run(&options, out))
        }
        Command::Soak { seconds, seed } => {
            let options = soak::Options {
                time: Duration::from_secs(seconds),
                seed: seed.unwrap_or_else(new_seed),
                dir: std::env::temp_dir(),
            };
            Box::new(move |out| soak::run(&options, out))
        }
        Command::One { scenario, seed } if is_trial_of_disk(&scenario) => {
            Box::new(move |out| tried(&scenario, seed, 1, out))
        }
        Command::Many { scenario, start, seeds } if is_trial_of_disk(&scenario) => {
            let full = if seeds == args::SEEDS_DEFAULT { 0 } else { seeds };
            Box::new(move |out| tried(&scenario, start, full, out))
        }
        Command::Load { files, open, writers } => {
            let options = load::Options { files, open, writers, dir: std::env::temp_dir() };
            Box::new(move |out| load::run(&options, out))
        }
        Command::One { scenario, seed } => {
            let scenario = scenario::find(&scenario)?;
            Box::new(move |out| seeds::replay(scenario, seed, out))
        }
        Command::Many { scenario, start, seeds } => {
            let scenario = scenario::find(&scenario)?;
            Box::new(move |out| Ok(seeds::run(scenario, start, seeds, out)?.failed.is_empty()))
        }
    })
}

fn is_trial_of_disk(name: &str) -> bool {
    ["cuts", "faults", "rot"].contains(&name)
}

/// Runs a trial of the disk, from one seed on; as many as it takes when `seeds` is 0.
fn tried(name: &str, start: u64, seeds: u64, out: &mut dyn Write) -> io::Result<bool> {
    let count = |full: u64| if seeds == 0 { full } else { seeds };
    match name {
        "cuts" => {
            let full = cuts::Plan::FULL;
            cuts::run(&cuts::Plan { start, seeds: count(full.seeds), ..full }, out)
        }
        "faults" => {
            let full = faults::Plan::FULL;
            faults::run(&faults::Plan { start, seeds: count(full.seeds), ..full }, out)
        }
        _ => {
            let full = rot::Plan::FULL;
            rot::run(&rot::Plan { start, seeds: count(full.seeds), ..full }, out)
        }
    }
}
