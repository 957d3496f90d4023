//! Partitioners: how a producer computes the partition of a key.

use serde::{Deserialize, Serialize};

/// How the partition of a device follows from its id, if the key is the device id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partitioner {
    /// The default of Kafka's Java client; librdkafka's `murmur2` and `murmur2_random`.
    Murmur2,
    /// librdkafka's default, `consistent_random`, and its `consistent`.
    Crc32,
    /// Unknown: the first record of a device claims its partition.
    None,
}

impl Partitioner {
    /// The partitioners that compute a partition from the key.
    pub(crate) const COMPUTED: [Self; 2] = [Self::Murmur2, Self::Crc32];

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

    /// The partitioner with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|partitioner| partitioner.name() == name)
    }

    /// The partitioner in a column of a store.
    ///
    /// # Errors
    /// This version does not know the partitioner.
    pub(crate) fn from_column(name: &str) -> Result<Self, String> {
        Self::from_name(name)
            .ok_or_else(|| format!("partitioner `{name}` is unknown: use a newer tstar"))
    }

    /// The partition of a key among `partitions` (at least 1); `None` if it is not computed.
    #[must_use]
    pub fn partition(self, key: &[u8], partitions: i32) -> Option<i32> {
        let hash = match self {
            // Java's `toPositive`: the sign bit is cleared, the value is not negated.
            Self::Murmur2 => murmur2(key) & 0x7fff_ffff,
            Self::Crc32 => crc32fast::hash(key),
            Self::None => return None,
        };
        let count = partitions.unsigned_abs().max(1);
        i32::try_from(hash % count).ok()
    }
}

/// The hash of Kafka's Java client: 32-bit `MurmurHash2` with Kafka's seed.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    // Keys longer than Kafka's limit wrap, as in the Java client.
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

/// Minimum evidence that keys did not match a partitioner by chance, in bits.
const SURE_BITS: f64 = 30.0;

/// From this number of devices on, some may deviate.
const MIN_DEVICES: usize = 200;

/// Then one of this number may: 1 %.
const MAX_DEVIATING: usize = 100;

/// Infers the partitioner that the producers of a topic use from the records of the topic.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    partitions: i32,
    devices: std::collections::HashMap<Box<[u8]>, KeyRecords, foldhash::fast::RandomState>,
}

/// The records of a device.
#[derive(Debug, Default)]
struct KeyRecords {
    records: u32,
    /// In the partition that each of [`Partitioner::COMPUTED`] computes.
    matching: [u32; 2],
}

/// How many devices a partitioner places where most of their records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The partitioner.
    pub partitioner: Partitioner,
    /// Devices of which most records are where it places them.
    pub following: usize,
    /// All devices.
    pub devices: usize,
}

impl Share {
    /// Whether nearly all devices follow the partitioner: all, or 99 % of many.
    fn is_nearly_all(&self) -> bool {
        let may_deviate = if self.devices < MIN_DEVICES { 0 } else { self.devices / MAX_DEVIATING };
        self.devices - self.following <= may_deviate
    }

    /// Whether at least 99 % of the devices follow the partitioner, however few there are.
    #[must_use]
    pub fn is_high(&self) -> bool {
        (self.devices - self.following) * MAX_DEVIATING <= self.devices
    }
}

/// A sentence without its full stop, after the name of the partitioner that is used.
impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { partitioner, following, devices } = *self;
        // Rounded down: all are 100 %, and no others.
        let hundredths = following * 10_000 / devices.max(1);
        write!(
            f,
            "of {devices} devices in the oldest records, {following} follow {} ({}.{:02} %)",
            partitioner.name(),
            hundredths / 100,
            hundredths % 100
        )
    }
}

impl Finder {
    /// For a topic with this number of partitions.
    #[must_use]
    pub(crate) fn new(partitions: i32) -> Self {
        Self { partitions, ..Self::default() }
    }

    /// Records the key and partition of a record.
    pub(crate) fn see(&mut self, key: &[u8], partition: i32) {
        if !self.devices.contains_key(key) {
            self.devices.insert(key.into(), KeyRecords::default());
        }
        let Some(seen) = self.devices.get_mut(key) else { return };
        seen.records += 1;
        for (matching, computed) in seen.matching.iter_mut().zip(Partitioner::COMPUTED) {
            *matching += u32::from(computed.partition(key, self.partitions) == Some(partition));
        }
    }

    /// How many devices follow each of [`Partitioner::COMPUTED`].
    #[must_use]
    pub(crate) fn shares(&self) -> [Share; 2] {
        [0, 1].map(|nth| {
            let follows = |seen: &&KeyRecords| seen.matching[nth] * 2 > seen.records;
            Share {
                partitioner: Partitioner::COMPUTED[nth],
                following: self.devices.values().filter(follows).count(),
                devices: self.devices.len(),
            }
        })
    }

    /// The partitioner that nearly all devices follow, if it is the only one and they are enough
    /// evidence.
    #[must_use]
    pub(crate) fn found(&self) -> Partitioner {
        #[expect(clippy::cast_precision_loss, reason = "some thousand keys")]
        let bits =
            |share: &Share| share.following as f64 * f64::from(self.partitions.max(1)).log2();
        let is_sure = |share: &&Share| share.is_nearly_all() && bits(share) >= SURE_BITS;
        match self.shares().iter().filter(is_sure).collect::<Vec<_>>()[..] {
            [only] => only.partitioner,
            _ => Partitioner::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of Kafka's Java client and of CRC-32 (ISO-HDLC).
    #[test]
    fn hashes_match_the_clients() {
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

    fn found(
        partitions: i32,
        keys: usize,
        partition_of: impl Fn(&[u8], usize) -> i32,
    ) -> Partitioner {
        let mut finder = Finder::new(partitions);
        for nth in 0..keys {
            let key = format!("truck-{nth}").into_bytes();
            finder.see(&key, partition_of(&key, nth));
        }
        finder.found()
    }

    #[test]
    fn a_partitioner_is_inferred_if_enough_keys_match_only_it() {
        for used in Partitioner::COMPUTED {
            let partition_of = |key: &[u8], _| used.partition(key, 4).unwrap();
            assert_eq!(found(4, 15, partition_of), used);
            assert_eq!(found(4, 14, partition_of), Partitioner::None, "too few keys");
            let [first, second] = Partitioner::COMPUTED;
            let other = if used == first { second } else { first };
            let mixed = |key: &[u8], nth: usize| {
                let by = if nth < 300 { used } else { other };
                by.partition(key, 4).unwrap()
            };
            assert_eq!(found(4, 400, mixed), Partitioner::None, "two partitioners in use");
        }
        assert_eq!(found(1, 400, |_, _| 0), Partitioner::None, "both match");
        assert_eq!(found(4, 400, |_, nth| nth as i32 % 4), Partitioner::None);
    }

    #[test]
    fn few_strays_among_many_devices_do_not_hide_the_partitioner() {
        let used = Partitioner::Murmur2;
        let with_strays = |keys: usize, strays: usize| {
            found(4, keys, move |key, nth| {
                let home = used.partition(key, 4).unwrap();
                if nth < strays { (home + 1) % 4 } else { home }
            })
        };
        assert_eq!(with_strays(6000, 1), used);
        assert_eq!(with_strays(6000, 60), used);
        assert_eq!(with_strays(6000, 61), Partitioner::None);
        assert_eq!(with_strays(200, 2), used);
        assert_eq!(with_strays(199, 1), Partitioner::None, "of few, all follow it");
    }

    #[test]
    fn a_device_follows_what_most_of_its_records_do() {
        let used = Partitioner::Crc32;
        let mut finder = Finder::new(4);
        for nth in 0..20 {
            let key = format!("truck-{nth}").into_bytes();
            let home = used.partition(&key, 4).unwrap();
            // Its first record is a stray.
            finder.see(&key, (home + 1) % 4);
            assert_eq!(finder.found(), Partitioner::None);
            (0..2).for_each(|_| finder.see(&key, home));
        }
        assert_eq!(finder.found(), used);
        let share = finder.shares()[1];
        assert_eq!(
            share.to_string(),
            "of 20 devices in the oldest records, 20 follow crc32 (100.00 %)"
        );
        let nearly = Share { following: 5999, devices: 6000, ..share };
        assert!(nearly.to_string().ends_with("5999 follow crc32 (99.98 %)"), "{nearly}");
        assert!(nearly.is_high() && !Share { following: 98, devices: 100, ..share }.is_high());
        assert!(Share { following: 0, devices: 0, ..share }.is_high(), "nothing was read");
    }
}
