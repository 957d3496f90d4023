//! Partitioners: which partition a producer puts a key into.

use serde::{Deserialize, Serialize};

/// How the partition of a device follows from its id, where the key is the device id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partitioner {
    /// That of Kafka's Java client, and librdkafka's `murmur2` and `murmur2_random`.
    Murmur2,
    /// librdkafka's default, `consistent_random`, and its `consistent`.
    Crc32,
    /// None that is known: the first record of a device claims its partition.
    None,
}

impl Partitioner {
    /// Those that compute a partition.
    pub const COMPUTED: [Self; 2] = [Self::Murmur2, Self::Crc32];

    /// Every one of them.
    const ALL: [Self; 3] = [Self::Murmur2, Self::Crc32, Self::None];

    /// The name in settings and epochs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Murmur2 => "murmur2",
            Self::Crc32 => "crc32",
            Self::None => "none",
        }
    }

    /// The partitioner of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|partitioner| partitioner.name() == name)
    }

    /// The partitioner that a column of a store holds; none in the epochs of earlier versions.
    ///
    /// # Errors
    /// It is none that this version knows.
    pub(crate) fn from_column(name: Option<String>) -> Result<Option<Self>, String> {
        let known = |name: String| {
            Self::from_name(&name)
                .ok_or_else(|| format!("partitioner `{name}` is not known: use a newer tstar"))
        };
        name.map(known).transpose()
    }

    /// The partition of a key, out of `partitions`, at least 1; `None` where it is not computed.
    #[must_use]
    pub fn partition(self, key: &[u8], partitions: i32) -> Option<i32> {
        let hash = match self {
            // What Java calls `toPositive`: the sign is masked, not taken away.
            Self::Murmur2 => murmur2(key) & 0x7fff_ffff,
            Self::Crc32 => crc32fast::hash(key),
            Self::None => return None,
        };
        let count = partitions.unsigned_abs().max(1);
        i32::try_from(hash % count).ok()
    }
}

/// The hash of Kafka's Java client: `MurmurHash2`, 32 bits, with a seed of its own.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    // Longer keys than Kafka takes wrap, as they do there.
    #[expect(clippy::cast_possible_truncation, reason = "the length of a key is an i32")]
    let mut hash = SEED ^ key.len() as u32;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (byte, shift) in rest.iter().zip([0, 8, 16]) {
            hash ^= u32::from(*byte) << shift;
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// How sure it has to be that keys did not land where they are by chance, in bits.
const SURE_BITS: f64 = 30.0;

/// Finds the partitioner that the producers of a topic use, from records that it holds.
#[derive(Debug, Default)]
pub struct Finder {
    partitions: i32,
    keys: std::collections::HashSet<Box<[u8]>, foldhash::fast::RandomState>,
    /// Those of [`Partitioner::COMPUTED`] that a record did not agree with.
    wrong: [bool; 2],
}

impl Finder {
    /// For a topic of so many partitions.
    #[must_use]
    pub fn new(partitions: i32) -> Self {
        Self { partitions, ..Self::default() }
    }

    /// Looks at the key of a record in a partition. Returns whether there is anything left to find.
    pub fn see(&mut self, key: &[u8], partition: i32) -> bool {
        for (wrong, computed) in self.wrong.iter_mut().zip(Partitioner::COMPUTED) {
            *wrong |= computed.partition(key, self.partitions) != Some(partition);
        }
        if !self.keys.contains(key) {
            self.keys.insert(key.into());
        }
        self.wrong != [true; 2]
    }

    /// The one that every record agreed with, where they were enough to tell.
    #[must_use]
    pub fn found(&self) -> Partitioner {
        #[expect(clippy::cast_precision_loss, reason = "some thousand keys")]
        let bits = self.keys.len() as f64 * f64::from(self.partitions.max(1)).log2();
        match self.wrong {
            [false, true] if bits >= SURE_BITS => Partitioner::Murmur2,
            [true, false] if bits >= SURE_BITS => Partitioner::Crc32,
            _ => Partitioner::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known vectors: those of the tests of Kafka's own client, and of CRC-32 (ISO-HDLC).
    #[test]
    fn hashes_are_those_of_the_clients() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
        assert_eq!(Partitioner::Crc32.partition(b"123456789", 10), Some(2));
        assert_eq!(Partitioner::Murmur2.partition(b"21", 1000), Some(340));
        assert_eq!(Partitioner::None.partition(b"21", 1000), None);
        for partitioner in Partitioner::ALL {
            assert_eq!(Partitioner::from_name(partitioner.name()), Some(partitioner));
            assert!(partitioner.partition(b"any", 1).is_none_or(|partition| partition == 0));
        }
    }

    fn found(partitions: i32, keys: usize, place: impl Fn(&[u8], usize) -> i32) -> Partitioner {
        let mut finder = Finder::new(partitions);
        for nth in 0..keys {
            let key = format!("truck-{nth}").into_bytes();
            if !finder.see(&key, place(&key, nth)) {
                break;
            }
            finder.see(&key, place(&key, nth));
        }
        finder.found()
    }

    #[test]
    fn a_partitioner_is_found_where_enough_keys_agree_with_it_alone() {
        for of in Partitioner::COMPUTED {
            let place = |key: &[u8], _| of.partition(key, 4).unwrap();
            assert_eq!(found(4, 15, place), of);
            assert_eq!(found(4, 14, place), Partitioner::None, "too few keys");
            let [first, second] = Partitioner::COMPUTED;
            let other = if of == first { second } else { first };
            let mixed = |key: &[u8], nth: usize| {
                let by = if nth < 300 { of } else { other };
                by.partition(key, 4).unwrap()
            };
            assert_eq!(found(4, 400, mixed), Partitioner::None, "two at work");
        }
        assert_eq!(found(1, 400, |_, _| 0), Partitioner::None, "both agree");
        assert_eq!(found(4, 400, |_, nth| nth as i32 % 4), Partitioner::None);
    }
}
