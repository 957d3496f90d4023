//! A set of hashes as a Bloom filter that grows: it may contain hashes that were never inserted,
//! and never lacks one that was.

/// Capacity of the first layer; each further layer has twice the capacity of the one before.
const FIRST_CAPACITY: usize = 1024;

/// Bits per hash, which with [`PROBES`] makes one in a thousand answers of a layer wrong.
const BITS: usize = 16;

/// Bits that each hash sets.
const PROBES: u64 = 6;

#[derive(Debug)]
struct Layer {
    /// Their number is a power of two.
    words: Box<[u64]>,
    /// How many more hashes fit.
    left: usize,
}

impl Layer {
    fn new(capacity: usize) -> Self {
        Self { words: vec![0; capacity * BITS / 64].into(), left: capacity }
    }

    /// Words and bits of a hash.
    fn probes(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let bits = self.words.len() as u64 * 64;
        let step = hash.rotate_left(32) | 1;
        (0..PROBES).map(move |nth| {
            let bit = hash.wrapping_add(nth.wrapping_mul(step)) & (bits - 1);
            let word = usize::try_from(bit / 64).expect("it is the index of a word");
            (word, 1 << (bit % 64))
        })
    }

    fn contains(&self, hash: u64) -> bool {
        self.probes(hash).all(|(word, bit)| self.words[word] & bit != 0)
    }
}

/// The set.
#[derive(Debug, Default)]
pub(super) struct BloomFilter(Vec<Layer>);

impl BloomFilter {
    /// Whether a hash was inserted, or seems so.
    pub(super) fn contains(&self, hash: u64) -> bool {
        self.0.iter().any(|layer| layer.contains(hash))
    }

    pub(super) fn insert(&mut self, hash: u64) {
        if self.contains(hash) {
            return;
        }
        if self.0.last().is_none_or(|layer| layer.left == 0) {
            self.0.push(Layer::new(FIRST_CAPACITY << self.0.len()));
        }
        let Some(layer) = self.0.last_mut() else { return };
        layer.left -= 1;
        for (word, bit) in layer.probes(hash) {
            layer.words[word] |= bit;
        }
    }

    /// Memory, bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.iter().map(|layer| layer.words.len() * 8).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use super::*;

    #[test]
    fn it_lacks_nothing_and_seldom_contains_others() {
        let (hasher, mut filter) = (RandomState::new(), BloomFilter::default());
        let count = 100_000;
        assert!(!filter.contains(7) && filter.memory() == 0);
        (0..count).for_each(|nth| filter.insert(hasher.hash_one(nth)));
        assert!((0..count).all(|nth| filter.contains(hasher.hash_one(nth))));
        let wrong = (count..2 * count).filter(|nth| filter.contains(hasher.hash_one(nth))).count();
        assert!(wrong < count / 100, "{wrong} of {count}");
        assert!(filter.memory() < 5 * count, "{} bytes", filter.memory());
    }
}
