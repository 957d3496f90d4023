//! Seeded choices: the same for the same seed and index.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The random stream of one record.
pub struct Draw(ChaCha8Rng);

impl Draw {
    /// Each record has a stream of its own, so that one can be made without those before it.
    pub fn new(seed: u64, index: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(index);
        Self(random)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A length of at most `most` bytes: mostly short, and sometimes the maximum.
    pub fn size(&mut self, most: usize) -> usize {
        let upto = match self.below(400) {
            0 => return most,
            1 | 2 => most,
            3..12 => 64 << 10,
            _ => 1 << 10,
        };
        self.below(upto.min(most) as u64 + 1) as usize
    }
}
