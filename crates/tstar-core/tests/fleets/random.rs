//! Seeded random numbers, the same on every host.

use std::ops::RangeInclusive;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Seeded random numbers.
pub struct Random(ChaCha8Rng);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub fn between(&mut self, range: RangeInclusive<i64>) -> i64 {
        let width = range.end().abs_diff(*range.start()) + 1;
        range.start() + (self.0.next_u64() % width).cast_signed()
    }

    pub fn is_one_in(&mut self, count: i64) -> bool {
        self.between(1..=count) == 1
    }

    /// A value that differs from `value` by at most 10 %.
    pub fn jitter(&mut self, value: i64) -> i64 {
        value * self.between(900..=1100) / 1000
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.0.next_u64() % (last as u64 + 1));
            items.swap(last, other.expect("it is at most the index"));
        }
    }
}
