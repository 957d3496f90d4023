//! Epochs: the generations of a log, which give its records their versions.
//!
//! `version = base(epoch) + 2 * offset`. An epoch is one topic with a fixed number of partitions,
//! read under one set of rules. Its base is the time of its creation, so that its versions are
//! above those of all earlier epochs, and above every timestamp that a wall clock assigned before.
//! A record keeps the version that its first epoch gave it, in replays too.

mod spans;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::partitioner::Partitioner;
use crate::model::rules::Rules;
use crate::model::scalar::{Offset, Version};

pub(crate) use spans::{by_epoch, first_offsets, of_current_topic, recreated_in, versions_before};

pub use spans::gone;

/// Kind of the log that a store was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Files: records have no keys.
    Files,
    /// A topic.
    Topic,
}

impl LogKind {
    /// Name in a store file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Topic => "topic",
        }
    }
}

/// A generation of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Number of the epoch, from 1.
    pub epoch: i32,
    /// Name of the topic.
    pub topic: String,
    /// Number of partitions of the topic.
    pub partitions: i32,
    /// First offset of this epoch in each partition.
    pub start_offsets: BTreeMap<i32, i64>,
    /// Version of offset 0, microseconds since 1970.
    pub base: Version,
    /// The rules under which the topic is read.
    pub rules: Rules,
    /// How the partition of a device is decided.
    pub partitioner: Partitioner,
    /// Id of the topic, as Kafka's tools show it. `None`: the brokers give topics no ids.
    pub topic_id: Option<String>,
    /// Whether positions are kept with the rows since the epoch began: a partition without one was
    /// not read. False for an epoch that was imported.
    pub keeps_positions: bool,
}

/// A topic has the name of an epoch's, but is another one: it was deleted and created again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("was recreated: its id is {found}, and was {expected} in epoch {epoch}")]
pub(crate) struct TopicRecreated {
    /// Id of the topic now.
    found: String,
    /// Id of the topic of the epoch.
    expected: String,
    /// Number of the epoch.
    epoch: i32,
}

/// A topic does not have the partition count of an epoch: devices may have moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}, and had {expected} in epoch {epoch}", partition_count(*.found))]
pub(crate) struct PartitionCountMismatch {
    /// Number of partitions that the topic has now; `None`: the topic does not exist.
    found: Option<i32>,
    /// Number of partitions in the epoch.
    expected: i32,
    /// Number of the epoch.
    epoch: i32,
}

fn partition_count(found: Option<i32>) -> String {
    found.map_or_else(|| "does not exist".to_owned(), |count| format!("has {count} partitions"))
}

/// The first epoch that has another partition count. `None`: no device ever moved to another
/// partition, if the topic was not recreated.
#[must_use]
pub(crate) fn with_other_partition_count(epochs: &[Epoch], count: i32) -> Option<&Epoch> {
    epochs.iter().find(|epoch| epoch.check_partition_count(count).is_err())
}

impl Epoch {
    /// First offset of the epoch in a partition; 0 in one that was added since.
    #[must_use]
    pub(crate) fn start_of(&self, partition: i32) -> i64 {
        self.start_offsets.get(&partition).copied().unwrap_or(0)
    }

    /// How far a partition was read, by the position that is kept of it with the rows; `None` if
    /// that is unknown.
    #[must_use]
    pub fn position(&self, partition: i32, kept: Option<i64>) -> Option<Offset> {
        let start = self.keeps_positions.then(|| self.start_of(partition));
        kept.or(start).map(Offset)
    }

    /// The version of the record at an offset of any of its partitions.
    #[must_use]
    pub fn version_at(&self, offset: Offset) -> Version {
        self.base + 2 * offset.get()
    }

    /// Checks the number of partitions that the topic has now, `None` if it does not exist.
    ///
    /// # Errors
    /// The epoch has another number.
    pub(crate) fn check_partition_count(
        &self,
        found: impl Into<Option<i32>>,
    ) -> Result<(), PartitionCountMismatch> {
        let (found, expected) = (found.into(), self.partitions);
        if found == Some(expected) {
            return Ok(());
        }
        Err(PartitionCountMismatch { found, expected, epoch: self.epoch })
    }

    /// Checks the id that the topic has now. Passes if either id is unknown.
    ///
    /// # Errors
    /// The topic was recreated.
    pub(crate) fn check_topic_id(&self, found: Option<&str>) -> Result<(), TopicRecreated> {
        match (found, &self.topic_id) {
            (Some(found), Some(expected)) if found != expected => {
                let (found, expected) = (found.to_owned(), expected.clone());
                Err(TopicRecreated { found, expected, epoch: self.epoch })
            }
            _ => Ok(()),
        }
    }

    /// How devices are assigned to the partitions of the epoch.
    #[must_use]
    pub fn division(&self) -> Division {
        let is_keyed = self.rules.is_keyed_by_device();
        // With another key rule, the key does not determine the device.
        let partitioner = if is_keyed { self.partitioner } else { Partitioner::None };
        let versions = (self.base, Version::MAX);
        Division { epoch: self.epoch, partitions: self.partitions, partitioner, versions }
    }
}

/// How the devices of an epoch are assigned to its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Number of the epoch.
    pub epoch: i32,
    partitions: i32,
    partitioner: Partitioner,
    /// First version of this epoch, and of the next one.
    versions: (Version, Version),
}

impl Division {
    /// The partition of a device, if it follows from the device id. `None`: the claim decides.
    #[must_use]
    pub fn computed(&self, device_id: &str) -> Option<i32> {
        if self.partitions == 1 {
            return Some(0);
        }
        self.partitioner.partition(device_id.as_bytes(), self.partitions)
    }

    /// The partitioner, if the partition follows from the device id.
    #[must_use]
    pub fn partitioner(&self) -> Partitioner {
        self.partitioner
    }

    /// Whether a version belongs to this epoch.
    #[must_use]
    pub fn holds(&self, version: Version) -> bool {
        (self.versions.0..self.versions.1).contains(&version)
    }
}

/// The division of each of these epochs, oldest first.
#[must_use]
pub(crate) fn divisions(epochs: &[Epoch]) -> Vec<Division> {
    let mut divisions: Vec<_> = epochs.iter().map(Epoch::division).collect();
    for (division, next) in divisions.iter_mut().zip(epochs.iter().skip(1)) {
        division.versions.1 = next.base;
    }
    divisions
}

/// Converts between the offsets and versions of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// (first offset, base) of each epoch, in the order of the epochs.
    spans: Vec<(Offset, Version)>,
    /// The division of each epoch; empty for a log of files.
    divisions: Vec<Division>,
}

impl Versions {
    /// For a log of files: base 0.
    #[must_use]
    pub fn of_files() -> Self {
        Self { spans: vec![(Offset(0), Version(0))], divisions: Vec::new() }
    }

    /// For a partition under these epochs, oldest first; at least one.
    #[must_use]
    pub fn of_partition(epochs: &[Epoch], partition: i32) -> Self {
        let span = |epoch: &Epoch| (Offset(epoch.start_of(partition)), epoch.base);
        let spans = epochs.iter().map(span).collect();
        Self { spans, divisions: divisions(epochs) }
    }

    /// The version of the record at an offset.
    #[must_use]
    pub fn version_at(&self, offset: Offset) -> Version {
        let newest = self.spans.iter().rev().find(|(first, _)| *first <= offset);
        // A record before the first epoch was never read, so the oldest base is as good as any.
        let &(_, base) = newest.or(self.spans.first()).expect("there is an epoch");
        base + 2 * offset.get()
    }

    /// The offset of the record with a version.
    #[must_use]
    pub fn offset_of(&self, version: Version) -> Offset {
        let newest =
            self.spans.iter().rev().find(|&&(first, base)| base + 2 * first.get() <= version);
        let &(_, base) = newest.or(self.spans.first()).expect("there is an epoch");
        Offset((version - base) / 2)
    }

    /// The division of the epoch of the record at an offset; `None` for a log of files.
    #[must_use]
    pub fn division_of(&self, offset: Offset) -> Option<Division> {
        let nth = self.spans.iter().rposition(|(first, _)| *first <= offset);
        self.divisions.get(nth.unwrap_or(0)).copied()
    }

    /// Whether two versions belong to the same epoch.
    #[must_use]
    pub(crate) fn share_epoch(&self, one: Version, other: Version) -> bool {
        let epoch = |version| self.spans.iter().rposition(|(_, base)| *base <= version);
        epoch(one) == epoch(other)
    }
}

/// The part of a log that a processor reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPartition {
    /// Partition of the topic; 0 for files.
    pub partition: i32,
    /// The versions of its records.
    pub versions: Versions,
}

impl LogPartition {
    /// A log of files.
    #[must_use]
    pub fn of_files() -> Self {
        Self { partition: 0, versions: Versions::of_files() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(epoch: i32, base: Version, starts: &[(i32, i64)]) -> Epoch {
        let start_offsets = starts.iter().copied().collect();
        let (topic, rules) = ("samples".into(), Rules::default());
        Epoch {
            epoch,
            topic,
            partitions: 2,
            start_offsets,
            base,
            rules,
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: false,
        }
    }

    #[test]
    fn an_epoch_names_the_partition_counts_that_differ() {
        let newest = epoch(3, Version(9000), &[]);
        assert_eq!(newest.check_partition_count(2), Ok(()));
        let message = |found: Option<i32>| newest.check_partition_count(found).unwrap_err();
        assert_eq!(message(Some(4)).to_string(), "has 4 partitions, and had 2 in epoch 3");
        assert_eq!(message(None).to_string(), "does not exist, and had 2 in epoch 3");
        let epochs = [Epoch { partitions: 1, ..epoch(1, Version(0), &[]) }, newest];
        assert_eq!(with_other_partition_count(&epochs, 2).map(|it| it.epoch), Some(1));
        assert_eq!(with_other_partition_count(&epochs[1..], 2), None);
    }

    #[test]
    fn a_record_keeps_the_version_of_the_epoch_that_first_held_it() {
        let epochs =
            [epoch(1, Version(1000), &[(0, 5)]), epoch(2, Version(9000), &[(0, 100), (1, 0)])];
        let of = |partition| Versions::of_partition(&epochs, partition);
        for (partition, offset, version) in [
            (0, 5, 1010),
            (0, 99, 1198),
            (0, 100, 9200),
            (0, 101, 9202),
            (1, 0, 9000),
            (0, 3, 1006),
        ] {
            assert_eq!(of(partition).version_at(Offset(offset)), Version(version));
            assert_eq!(of(partition).offset_of(Version(version)), Offset(offset));
        }
        assert!(
            of(0).share_epoch(Version(1010), Version(1198))
                && of(0).share_epoch(Version(9000), Version(90_000))
        );
        assert!(!of(0).share_epoch(Version(1198), Version(9000)));
        for (partition, offset, epoch) in [(0, 3, 1), (0, 99, 1), (0, 100, 2), (1, 0, 2)] {
            assert_eq!(of(partition).division_of(Offset(offset)).unwrap().epoch, epoch);
        }
        assert_eq!(Versions::of_files().division_of(Offset(7)), None);
    }

    #[test]
    fn a_topic_that_was_made_anew_has_versions_above_all_before() {
        let epochs = [epoch(1, Version(1000), &[(0, 5)]), epoch(2, Version(9000), &[(0, 0)])];
        assert_eq!(Versions::of_partition(&epochs, 0).version_at(Offset(3)), Version(9006));
        assert_eq!(Versions::of_files().version_at(Offset(7)), Version(14));
    }

    #[test]
    fn the_partition_of_a_device_follows_from_its_id_where_that_is_the_key() {
        let with = |partitioner, key: &str| {
            let mut of = Epoch { partitioner, partitions: 1000, ..epoch(1, Version(1000), &[]) };
            of.rules.key = key.to_owned();
            of.division()
        };
        assert_eq!(with(Partitioner::Murmur2, "device_id").computed("21"), Some(340));
        assert_eq!(with(Partitioner::Murmur2, "any").computed("21"), None);
        assert_eq!(with(Partitioner::None, "device_id").computed("21"), None);
        let one = Epoch { partitions: 1, ..epoch(1, Version(1000), &[]) };
        assert_eq!(one.division().computed("21"), Some(0));
    }
}
