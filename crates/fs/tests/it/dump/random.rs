//! Volumes made by random operations, which the model agrees with: they come back, whatever engine and
//! sizes they are from and go to.

use super::*;
use crate::audit::audit;
use base::{Random, SeededRandom, block_on};
use fs::blob::block::Codec;
use fs::model::{Mix, compare};

const SEEDS: u64 = 20;

fn engine(random: &SeededRandom) -> Bench {
    if random.one_in(2) { Bench::mem() } else { local() }
}

fn format(random: &SeededRandom) -> FormatOptions {
    let block_bytes = 1024 << random.below(8);
    FormatOptions {
        chunk_bytes: 1 << (20 + random.below(4)),
        block_bytes: Some(block_bytes),
        inline_bytes_max: Some(random.below(u64::from(block_bytes) + 1) as u32),
        codec: [Codec::None, Codec::Lz4, Codec::Zstd][random.below(3) as usize],
        parity_group: [0, 0, 3, 8][random.below(4) as usize],
        ..FormatOptions::default()
    }
}

#[test]
fn volumes_of_random_operations_come_back() {
    let only = std::env::var("DUMP_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in only.map_or(0..SEEDS, |seed: u64| seed..seed + 1) {
        let random = SeededRandom::new(seed);
        let (from, to, format) = (engine(&random), engine(&random), format(&random));
        println!("seed {seed} (DUMP_SEED={seed} for this one alone): {format:?}");
        let session = block_on(async { private_session(&from.volume_with(&format).await).await });
        let plan = compare::Plan::of(&session, 150, Mix::draw(&random));
        let (trace, outcome) = compare::simulate(&session, &from.clock, seed, &plan);
        assert_eq!(outcome, Ok(()), "{trace}");
        block_on(async {
            settle(&session).await;
            let stream = dumped(&session).await;
            // The same sizes, then others.
            let same = LoadOptions {
                block_bytes: format.block_bytes,
                inline_bytes_max: format.inline_bytes_max,
            };
            let copy = loaded_with(&to.world, "same", &stream, &same).await;
            audit(copy.volume(), true).await;
            assert!(dumped(&copy).await == stream);
            let block_bytes = 1024 << random.below(10);
            let other = LoadOptions {
                block_bytes: Some(block_bytes),
                inline_bytes_max: Some(random.below(u64::from(block_bytes) + 1) as u32),
            };
            println!("  to {other:?}");
            let third = loaded_with(&from.world, "other", &stream, &other).await;
            audit(third.volume(), true).await;
            let wanted = plain_tree(&session).await;
            assert_same(&plain_tree(&copy).await, &wanted);
            assert_same(&plain_tree(&third).await, &wanted);
        });
    }
}
