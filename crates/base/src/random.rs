//! Randomness, injected: a seed replays a run.

use crate::sync::Mutex;
use std::fmt::Debug;

/// A source of random numbers.
pub trait Random: Send + Sync + Debug {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;

    /// A number below `bound`; 0 when `bound` is 0.
    fn below(&self, bound: u64) -> u64 {
        // The product's high half; the bias is below 2^-32 for the bounds used here.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` times on average; never when `n` is 0.
    fn one_in(&self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }
}

/// A generator that is a pure function of its seed (SplitMix64).
#[derive(Debug)]
pub struct SeededRandom {
    state: Mutex<u64>,
}

impl SeededRandom {
    /// Starts the sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: Mutex::new(seed) }
    }

    /// A generator for one part of a run, independent of how often others are asked.
    pub fn fork(&self) -> Self {
        Self::new(self.next_u64())
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        let mut state = self.state.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The system's entropy: seeds a [`SeededRandom`] once, from the hasher keys that the standard
/// library draws from the kernel.
#[derive(Debug)]
pub struct OsRandom(SeededRandom);

impl OsRandom {
    /// A generator that nobody can replay.
    pub fn new() -> Self {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u64(std::process::id().into());
        Self(SeededRandom::new(hasher.finish()))
    }
}

impl Default for OsRandom {
    fn default() -> Self {
        Self::new()
    }
}

impl Random for OsRandom {
    fn next_u64(&self) -> u64 {
        self.0.next_u64()
    }
}
