//! Epochs: which version a record of the log has.
//!
//! `version = base(epoch) + 2 * offset`. An epoch is made once for each life of the log: a topic of
//! so many partitions, read under one set of rules. Its base is the time at which it was made, so
//! that every version of it is above those of the epochs before, and above whatever a wall clock
//! stamped by then. A record keeps the version of the epoch that first held it, replays included.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules::Rules;

/// A life of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// From 1 on.
    pub epoch: i32,
    /// Name of the topic.
    pub topic: String,
    /// How many partitions it has.
    pub partitions: i32,
    /// The first offset of each partition that is of this epoch.
    pub start_offsets: BTreeMap<i32, i64>,
    /// Version of offset 0, microseconds since 1970.
    pub base: i64,
    /// The rules it is read by.
    pub rules: Rules,
}

/// The versions of one partition's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// (first offset, base) of each epoch, in the order of the epochs.
    spans: Vec<(i64, i64)>,
}

impl Versions {
    /// Those of a log of files: base 0.
    #[must_use]
    pub fn of_files() -> Self {
        Self { spans: vec![(0, 0)] }
    }

    /// Those of a partition under these epochs, oldest first; at least one.
    #[must_use]
    pub fn of_partition(epochs: &[Epoch], partition: i32) -> Self {
        let start = |epoch: &Epoch| epoch.start_offsets.get(&partition).copied().unwrap_or(0);
        Self { spans: epochs.iter().map(|epoch| (start(epoch), epoch.base)).collect() }
    }

    /// The version of the record at an offset.
    #[must_use]
    pub fn of(&self, offset: i64) -> i64 {
        let newest = self.spans.iter().rev().find(|(first, _)| *first <= offset);
        // Older than every epoch: nobody has read it, so the oldest will do.
        let (_, base) = newest.or(self.spans.first()).expect("there is an epoch");
        base + 2 * offset
    }

    /// The offset of the record that has a version.
    #[must_use]
    pub fn offset_of(&self, version: i64) -> i64 {
        let newest = self.spans.iter().rev().find(|(first, base)| base + 2 * first <= version);
        let (_, base) = newest.or(self.spans.first()).expect("there is an epoch");
        (version - base) / 2
    }

    /// The first version of the newest epoch.
    #[must_use]
    pub fn newest_base(&self) -> i64 {
        self.spans.last().expect("there is an epoch").1
    }
}

/// Which log a processor reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Partition of the topic; 0 for files.
    pub partition: i32,
    /// The versions of its records.
    pub versions: Versions,
}

impl Log {
    /// A log of files.
    #[must_use]
    pub fn of_files() -> Self {
        Self { partition: 0, versions: Versions::of_files() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(epoch: i32, base: i64, starts: &[(i32, i64)]) -> Epoch {
        let start_offsets = starts.iter().copied().collect();
        let (topic, rules) = ("samples".into(), Rules::default());
        Epoch { epoch, topic, partitions: 2, start_offsets, base, rules }
    }

    #[test]
    fn a_record_keeps_the_version_of_the_epoch_that_first_held_it() {
        let epochs = [epoch(1, 1000, &[(0, 5)]), epoch(2, 9000, &[(0, 100), (1, 0)])];
        let of = |partition| Versions::of_partition(&epochs, partition);
        for (partition, offset, version) in [
            (0, 5, 1010),
            (0, 99, 1198),
            (0, 100, 9200),
            (0, 101, 9202),
            (1, 0, 9000),
            (0, 3, 1006),
        ] {
            assert_eq!(of(partition).of(offset), version);
            assert_eq!(of(partition).offset_of(version), offset);
        }
        assert_eq!(of(0).newest_base(), 9000);
    }

    #[test]
    fn a_topic_that_was_made_anew_has_versions_above_all_before() {
        let epochs = [epoch(1, 1000, &[(0, 5)]), epoch(2, 9000, &[(0, 0)])];
        assert_eq!(Versions::of_partition(&epochs, 0).of(3), 9006);
        assert_eq!(Versions::of_files().of(7), 14);
    }
}
