//! The command line, in words and as values.

/// How to call it.
pub const USAGE: &str = "\
usage: sim <scenario> [--seeds N] [--start N]    run N seeds (1000), the first one --start (1)
       sim <scenario> --seed N                   run one seed and print its trace and digest
       sim crash [--rounds N] [--seed N]         kill the daemon of a real mount N times (100)
       sim outlive [--rounds N] [--seed N]       the same where another daemon takes over each time
       sim soak [--minutes N] [--seconds N] [--seed N]
                                                 mixed load on a real mount for so long (10 minutes)
       sim load [--files N] [--open N] [--writers N]
                                                 so many files, open files, writers on real mounts
       sim help

scenarios:
  kv    the store contract: random transactions under faults, checked for strict serializability,
        and waiting for a counter by watches
  fs    the core: random operations compared with the reference model
  cuts  a life of a volume on a simulated disk, power cut at every operation (6 seeds)
  faults  the same with the disk full, failing and read-only at every operation (3 seeds)
  rot   the same with every file of the store damaged in every way (3 seeds)";

/// Seeds of a run when nothing else was said.
pub const SEEDS_DEFAULT: u64 = 1_000;
/// Minutes of a soak when nothing else was said.
const MINUTES_DEFAULT: u64 = 10;
/// Rounds of a run on a real mount when nothing else was said.
const ROUNDS_DEFAULT: u64 = 100;

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Say how to call it.
    Help,
    /// Replay one seed.
    One {
        /// Of which scenario.
        scenario: String,
        /// Which.
        seed: u64,
    },
    /// Kill the daemon of a real mount again and again.
    Crash {
        /// How often.
        rounds: u64,
        /// What decides the calls; one that nobody knows when absent.
        seed: Option<u64>,
        /// The mount outlives its daemons.
        supervised: bool,
    },
    /// Mixed load on a real mount.
    Soak {
        /// For how long.
        seconds: u64,
        /// What decides the calls; one that nobody knows when absent.
        seed: Option<u64>,
    },
    /// Much at once on real mounts; those that have a number.
    Load {
        /// Files.
        files: Option<u64>,
        /// Open files.
        open: Option<u64>,
        /// Writers.
        writers: Option<u64>,
    },
    /// Run many seeds.
    Many {
        /// Of which scenario.
        scenario: String,
        /// The first.
        start: u64,
        /// How many.
        seeds: u64,
    },
}

/// Reads the arguments after the program's name. The error is for people.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let scenario = match args.next() {
        None => return Err("which scenario?".to_owned()),
        Some(word) if ["help", "--help", "-h"].contains(&&*word) => return Ok(Command::Help),
        Some(word) if word.starts_with('-') => {
            return Err(format!("the scenario comes first, before {word}"));
        }
        Some(word) if word == "crash" || word == "outlive" => {
            let [rounds, seed] = numbers(args, ["--rounds", "--seed"])?;
            let (rounds, supervised) = (rounds.unwrap_or(ROUNDS_DEFAULT), word == "outlive");
            return Ok(Command::Crash { rounds, seed, supervised });
        }
        Some(word) if word == "soak" => {
            let [minutes, seconds, seed] = numbers(args, ["--minutes", "--seconds", "--seed"])?;
            let seconds = match (minutes, seconds) {
                (None, None) => MINUTES_DEFAULT * 60,
                (minutes, seconds) => {
                    minutes.unwrap_or(0).saturating_mul(60).saturating_add(seconds.unwrap_or(0))
                }
            };
            return Ok(Command::Soak { seconds, seed });
        }
        Some(word) if word == "load" => {
            return match numbers(args, ["--files", "--open", "--writers"])? {
                [None, None, None] => Err("of what: --files, --open or --writers?".to_owned()),
                [files, open, writers] => Ok(Command::Load { files, open, writers }),
            };
        }
        Some(word) => word,
    };
    let (mut seeds, mut start, mut seed) = (None, None, None);
    while let Some(option) = args.next() {
        let place = match &*option {
            "--seeds" => &mut seeds,
            "--start" => &mut start,
            "--seed" => &mut seed,
            "--help" | "-h" => return Ok(Command::Help),
            other => return Err(format!("there is no option {other}")),
        };
        let text = args.next().ok_or(format!("{option} needs a number"))?;
        let number: u64 =
            text.parse().map_err(|_| format!("{option} needs a number, and {text} is none"))?;
        if place.replace(number).is_some() {
            return Err(format!("{option} is there twice"));
        }
    }
    match (seed, seeds.or(start)) {
        (Some(_), Some(_)) => Err("--seed runs one: it goes with no other option".to_owned()),
        (Some(seed), None) => Ok(Command::One { scenario, seed }),
        (None, _) => {
            let (start, seeds) = (start.unwrap_or(1), seeds.unwrap_or(SEEDS_DEFAULT));
            if start.checked_add(seeds).is_none() {
                return Err("--start and --seeds are over the last seed".to_owned());
            }
            Ok(Command::Many { scenario, start, seeds })
        }
    }
}

/// Reads options that take a number each.
fn numbers<const N: usize>(
    mut args: impl Iterator<Item = String>,
    names: [&str; N],
) -> Result<[Option<u64>; N], String> {
    let mut found = [None; N];
    while let Some(option) = args.next() {
        let place = names.iter().zip(&mut found).find(|(name, _)| **name == option);
        let Some((_, place)) = place else { return Err(format!("there is no option {option}")) };
        let text = args.next().ok_or(format!("{option} needs a number"))?;
        let number: u64 =
            text.parse().map_err(|_| format!("{option} needs a number, and {text} is none"))?;
        if place.replace(number).is_some() {
            return Err(format!("{option} is there twice"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn good_lines_are_understood() {
        let many = |start, seeds| {
            let scenario = "kv".to_owned();
            Ok(Command::Many { scenario, start, seeds })
        };
        assert_eq!(parsed("kv"), many(1, SEEDS_DEFAULT));
        assert_eq!(parsed("kv --seeds 7"), many(1, 7));
        assert_eq!(parsed("kv --start 9 --seeds 7"), many(9, 7));
        let scenario = "kv".to_owned();
        assert_eq!(parsed("kv --seed 3"), Ok(Command::One { scenario, seed: 3 }));
        let crash = Command::Crash { rounds: 7, seed: None, supervised: false };
        assert_eq!(parsed("crash --rounds 7"), Ok(crash));
        let soak = Command::Soak { seconds: 90, seed: Some(3) };
        assert_eq!(parsed("soak --minutes 1 --seconds 30 --seed 3"), Ok(soak));
        let load = Command::Load { files: None, open: Some(5), writers: None };
        assert_eq!(parsed("load --open 5"), Ok(load));
        for line in ["help", "--help", "-h", "kv --help"] {
            assert_eq!(parsed(line), Ok(Command::Help));
        }
    }

    #[test]
    fn bad_lines_are_told() {
        for (line, told) in [
            ("", "which scenario"),
            ("--seeds 7", "scenario comes first"),
            ("kv --seeds", "needs a number"),
            ("kv --seeds many", "many is none"),
            ("kv --seeds -1", "-1 is none"),
            ("kv --seeds 1 --seeds 2", "twice"),
            ("kv --sedes 1", "no option --sedes"),
            ("kv 7", "no option 7"),
            ("crash --seeds 7", "no option --seeds"),
            ("soak --minutes", "needs a number"),
            ("load", "of what"),
            ("kv --seed 1 --seeds 2", "no other option"),
            ("kv --start 18446744073709551615 --seeds 2", "over the last"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}
