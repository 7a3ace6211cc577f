//! Random operations with a home, compared with the reference model. `SEAMOUNT_SEEDS=from..to` says which.

use crate::world::*;
use base::{Random, SeededRandom, SimClock};
use fs::model::{Mix, compare};
use fs::{Atime, FormatOptions, SessionOptions};

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("SEAMOUNT_SEEDS").ok();
    let range = given.as_deref().and_then(|seeds| seeds.split_once(".."));
    range.map_or(0..40, |(from, to)| from.parse().unwrap()..to.parse().unwrap())
}

#[test]
fn random_operations_answer_as_the_model_does() {
    let mut failed = Vec::new();
    for seed in seeds() {
        let random = SeededRandom::new(seed);
        let clock = SimClock::new();
        let inline = [512, 4096, 0][random.below(3) as usize];
        let format = FormatOptions { inline_bytes_max: Some(inline), ..format() };
        let atime = [Atime::Strict, Atime::Relative, Atime::Off][random.below(3) as usize];
        let of = clock.clone();
        let bench = run(&clock, async move {
            let mut bench = Bench::new(of, &format).await;
            bench.session = begin(&bench.volume, SessionOptions { atime, ..options() }).await;
            bench
        });
        let steps = 40 + random.below(150) as usize;
        let plan = compare::Plan::of(&bench.session, steps, Mix::draw(&random));
        let (told, outcome) = compare::simulate(&bench.session, &clock, random.next_u64(), &plan);
        if let Err(error) = outcome {
            let tail: Vec<&str> = told.lines().rev().take(25).collect();
            for line in tail.iter().rev() {
                println!("{}", line.chars().take(300).collect::<String>());
            }
            println!("seed {seed}: {error}");
            failed.push(seed);
        }
        let end = bench.clone();
        run(&clock, async move { end.audit().await });
    }
    assert!(failed.is_empty(), "seeds {failed:?}");
}
