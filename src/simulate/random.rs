//! Reproducible random numbers: the same on every host.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A seeded random number generator.
#[derive(Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// A generator with this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `bound`; 0 if `bound` is 0. The bias is below 2^-40 for the bounds used here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `min` to `max`, both inclusive.
    pub(crate) fn between(&mut self, min: i64, max: i64) -> i64 {
        min + self.below(max.abs_diff(min) + 1).cast_signed()
    }

    /// An index into a list of length `len`.
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from 0 to below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An index drawn by weight; `None` if all weights are 0.
    pub(crate) fn weighted<const N: usize>(&mut self, weights: [f64; N]) -> Option<usize> {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        for (index, weight) in weights.into_iter().enumerate() {
            if left < weight {
                return Some(index);
            }
            left -= weight;
        }
        // Rounding may leave a remainder after the last weight.
        weights.iter().rposition(|&weight| weight > 0.0)
    }
}
