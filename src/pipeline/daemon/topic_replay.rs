//! A topic once more: spans of it, under the epochs that they were read by.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use super::{DaemonError, OnEvent, Options, PartitionStores, Report, run};
use crate::kafka::client::Brokers;
use crate::kafka::consumer::{Assignment, ConsumerConfig, DrainResult};
use crate::kafka::control::Authority;
use crate::kafka::record::RecordReader;
use crate::kafka::topic::OffsetRange;
use crate::model::control::ControlKeys;
use crate::model::epoch::{Epoch, Versions};
use crate::pipeline::processor::{ProcessorConfig, SampleCounts};
use crate::source::{Decoder, MapError};

/// The group of those who read again. It has no members, and no offset of it is kept.
const GROUP: &str = "tstar-reread";

/// Who reads again has as long to end as it takes.
const NO_HURRY: Duration = Duration::from_secs(86_400);

/// A topic with the epochs that it was read by, and which of its records to read.
#[derive(Clone)]
pub struct TopicReplay {
    /// How brokers are reached.
    pub brokers: Brokers,
    /// Every epoch of the log, oldest first.
    pub epochs: Vec<Epoch>,
    /// The offsets to read, by partition.
    pub spans: Vec<Range<i64>>,
    /// Of these records those of one device alone.
    pub device_id: Option<String>,
    /// The control keys that count.
    pub keys: ControlKeys,
}

impl TopicReplay {
    /// The versions of the records up to the ends of the spans, by partition; of one that is empty
    /// the version before its first.
    #[must_use]
    pub fn last_versions(&self) -> BTreeMap<i32, i64> {
        let ends: Vec<i64> = self.spans.iter().map(|span| span.end).collect();
        versions_before(&self.epochs, &ends)
    }

    /// Reads the spans, epoch by epoch, each by its own rules: devices may have moved between
    /// partitions from one to the next.
    ///
    /// # Errors
    /// Records are gone, brokers or the store fail, a partition cannot go on.
    pub async fn run<O: PartitionStores>(
        &self,
        owners: impl Fn() -> O,
        (pace, notify): (ProcessorConfig, OnEvent),
        stop: impl Future<Output = ()>,
    ) -> Result<Report, DaemonError> {
        let mut counts = SampleCounts::default();
        tokio::pin!(stop);
        for (nth, spans) in by_epoch(&self.epochs, &self.spans) {
            let epoch = &self.epochs[nth];
            let plan = ConsumerConfig {
                brokers: self.brokers.clone(),
                topic: epoch.topic.clone(),
                group: GROUP.to_owned(),
                instance_id: None,
                assignment: Assignment::Spans(spans),
                epoch: epoch.clone(),
                revoke_timeout: NO_HURRY,
                drain_timeout: NO_HURRY,
                memory: pace.memory / 4,
            };
            let epochs = self.epochs[..=nth].to_vec();
            let notify = notify.clone();
            // The keys were asked for after the ends of the spans, so none that counts is missing.
            let options = Options { plan, epochs, pace, notify, ask_keys: None };
            let reader = self.reader(epoch)?;
            let report = run(owners(), options, reader, &mut stop).await;
            let report = report.map_err(|error| after(counts.delivered, error))?;
            counts.add(&report.counts);
            // A daemon goes on with the other partitions; what lacks one is not what was asked for.
            if let Some(error) = report.stood_still {
                return Err(error.into());
            }
            if report.drained != DrainResult::All || report.stopped {
                return Ok(Report { counts, ..report });
            }
        }
        Ok(Report { counts, drained: DrainResult::All, stopped: false, stood_still: None })
    }
}

impl TopicReplay {
    /// A reader of an epoch's records.
    pub(crate) fn reader(&self, epoch: &Epoch) -> Result<RecordReader, DaemonError> {
        let reader = reader(epoch, &self.keys)?;
        Ok(match &self.device_id {
            Some(device_id) => reader.of_device(device_id),
            None => reader,
        })
    }
}

/// An error of a part, before which so many samples were read.
fn after(before: u64, error: DaemonError) -> DaemonError {
    match error {
        DaemonError::BrokeOff { delivered, away } => {
            DaemonError::BrokeOff { delivered: before + delivered, away }
        }
        error => error,
    }
}

/// A reader of an epoch's records.
///
/// # Errors
/// Its rules cannot be used.
pub fn reader(epoch: &Epoch, keys: &ControlKeys) -> Result<RecordReader, DaemonError> {
    let decoder = Decoder::new(&epoch.rules).map_err(|error: MapError| {
        DaemonError::Precondition(format!(
            "the rules of epoch {} cannot be used: {error}",
            epoch.epoch
        ))
    })?;
    let authority = Authority {
        topic: epoch.topic.clone(),
        keys: keys.clone(),
        max_future_ms: epoch.rules.max_future_ms,
    };
    Ok(RecordReader::new(decoder, epoch.rules.key == "device_id").allowing(authority))
}

/// The version of the last record before each of these offsets, by partition.
#[must_use]
pub fn versions_before(epochs: &[Epoch], offsets: &[i64]) -> BTreeMap<i32, i64> {
    let version = |(partition, &offset): (i32, &i64)| {
        (partition, Versions::of_partition(epochs, partition).version_at(offset) - 2)
    };
    (0..).zip(offsets).map(version).collect()
}

/// Where each partition of the log begins: at the oldest epoch whose records are of the topic as it
/// is now.
#[must_use]
pub fn first_offsets(epochs: &[Epoch]) -> Vec<i64> {
    let newest = epochs.last().expect("there is an epoch");
    let lives = &epochs[first_of_topic(epochs)..];
    let start = |partition: i32| {
        let mut starts = lives.iter().filter_map(|epoch| epoch.start_offsets.get(&partition));
        starts.next().copied().unwrap_or(0)
    };
    (0..newest.partitions).map(start).collect()
}

/// The first epoch of the topic as it is now: one that begins before the one before it ends was
/// made for a topic that was made anew.
fn first_of_topic(epochs: &[Epoch]) -> usize {
    let is_anew = |pair: &[Epoch]| {
        pair[1].partitions < pair[0].partitions
            || pair[0].start_offsets.iter().any(|(partition, start)| {
                pair[1].start_offsets.get(partition).is_some_and(|next| next < start)
            })
    };
    epochs.windows(2).rposition(is_anew).map_or(0, |nth| nth + 1)
}

/// The number of an epoch that was, or may have been, made for a topic that was made anew: no
/// record of the epoch before it is there to be read.
#[must_use]
pub fn recreated_in(epochs: &[Epoch]) -> Option<i32> {
    let first = first_of_topic(epochs);
    let held_nothing = |pair: &&[Epoch]| {
        let same = |(partition, start): (&i32, &i64)| {
            pair[1].start_offsets.get(partition).is_none_or(|next| next <= start)
        };
        pair[0].start_offsets.iter().all(same)
    };
    let anew = epochs.windows(2).rfind(held_nothing).map(|pair| pair[1].epoch);
    anew.or_else(|| (first > 0).then(|| epochs[first].epoch))
}

/// The part of each span that is of each epoch, oldest first.
pub(crate) fn by_epoch(epochs: &[Epoch], spans: &[Range<i64>]) -> Vec<(usize, Vec<Range<i64>>)> {
    let first = first_of_topic(epochs);
    let start = |nth: usize, partition: i32| {
        let epoch = epochs.get(nth)?;
        Some(epoch.start_offsets.get(&partition).copied().unwrap_or(0))
    };
    let of = |nth: usize| {
        let part = |(partition, span): (i32, &Range<i64>)| {
            let begins = start(nth, partition).unwrap_or(0);
            // What is older than every epoch was read by none.
            let ends = start(nth + 1, partition).unwrap_or(i64::MAX);
            let from = span.start.max(begins);
            from..span.end.min(ends).max(from)
        };
        (nth, (0..).zip(spans).map(part).collect::<Vec<_>>())
    };
    let parts = (first..epochs.len()).map(of);
    parts.filter(|(_, spans)| spans.iter().any(|span| !span.is_empty())).collect()
}

/// The first records that are to be read and gone already, by partition: (first, oldest there is).
#[must_use]
pub fn gone(spans: &[Range<i64>], extents: &[OffsetRange]) -> Option<(i32, Range<i64>)> {
    let pairs = (0..).zip(spans.iter().zip(extents));
    let mut gone =
        pairs.filter(|(_, (span, extent))| !span.is_empty() && span.start < extent.first);
    gone.next().map(|(partition, (span, extent))| (partition, span.start..extent.first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rules::Rules;

    fn epoch(epoch: i32, partitions: i32, starts: &[(i32, i64)]) -> Epoch {
        let start_offsets = starts.iter().copied().collect();
        let (topic, rules, base) = ("samples".into(), Rules::default(), i64::from(epoch) * 1000);
        Epoch { epoch, topic, partitions, start_offsets, base, rules, partitioner: None }
    }

    #[test]
    fn each_record_is_read_under_the_epoch_that_first_held_it() {
        let epochs = [epoch(1, 1, &[(0, 5)]), epoch(2, 2, &[(0, 100), (1, 0)])];
        assert_eq!((first_offsets(&epochs), recreated_in(&epochs)), (vec![5, 0], None));
        let parts = by_epoch(&epochs, &[5..120, 0..7]);
        assert_eq!(parts, [(0, vec![5..100, 0..0]), (1, vec![100..120, 0..7])]);
        assert_eq!(by_epoch(&epochs, &[100..100, 3..7]), [(1, vec![100..100, 3..7])]);
    }

    #[test]
    fn a_topic_that_was_made_anew_begins_with_its_own_epoch() {
        let epochs = [epoch(1, 2, &[(0, 50), (1, 9)]), epoch(2, 2, &[(0, 0), (1, 0)])];
        assert_eq!((first_offsets(&epochs), recreated_in(&epochs)), (vec![0, 0], Some(2)));
        assert_eq!(by_epoch(&epochs, &[0..60, 0..3]), [(1, vec![0..60, 0..3])]);
    }

    #[test]
    fn records_that_expired_are_told() {
        let extents = [OffsetRange { first: 3, next: 9 }, OffsetRange { first: 0, next: 2 }];
        assert_eq!(gone(&[0..9, 0..2], &extents), Some((0, 0..3)));
        assert_eq!(gone(&[3..9, 0..2], &extents), None);
        assert_eq!(gone(&[0..0, 0..2], &extents), None);
    }
}
