//! Position, lag and committed offset of the assigned partitions. The metrics are computed on
//! scrape, so that they cost the consumer next to nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::{
    COMMITTED_OFFSET, CONSUMER_LAG, CONSUMER_LAG_SECONDS, PARTITION_STOPPED, clock_ms, handle,
    seconds, text,
};
use crate::model::scalar::{LogTime, Offset};

/// Marks a value that is not known yet.
const UNKNOWN: i64 = i64::MIN;

/// Progress of an assigned partition.
#[derive(Debug)]
pub struct Progress {
    /// Offset after the last record that was processed.
    next: AtomicI64,
    /// Log timestamp of that record, ms since 1970.
    log_time_ms: AtomicI64,
    /// End offset of the partition.
    end: AtomicI64,
    /// Offset before which everything is durable.
    acknowledged: AtomicI64,
    /// Offset committed to the brokers.
    committed: AtomicI64,
    /// Whether the partition failed and is not read any more.
    stopped: AtomicBool,
}

impl Progress {
    /// Progress of a partition that is read from offset `from`.
    #[must_use]
    pub fn new(from: i64) -> Self {
        Self {
            next: AtomicI64::new(from),
            log_time_ms: AtomicI64::new(UNKNOWN),
            end: AtomicI64::new(UNKNOWN),
            acknowledged: AtomicI64::new(from),
            committed: AtomicI64::new(from),
            stopped: AtomicBool::new(false),
        }
    }

    /// Records that everything before offset `next` is processed. `log_time_ms` is the log
    /// timestamp of the last record, if it has one.
    pub fn processed(&self, next: Offset, log_time_ms: Option<LogTime>) {
        self.next.store(next.get(), Ordering::Relaxed);
        if let Some(log_time_ms) = log_time_ms {
            self.log_time_ms.store(log_time_ms.ms(), Ordering::Relaxed);
        }
    }

    /// Sets the end offset of the partition.
    pub(crate) fn ends_at(&self, end: i64) {
        self.end.store(end, Ordering::Relaxed);
    }

    /// Records that everything before offset `next` is durable.
    pub fn acknowledged(&self, next: Offset) {
        self.acknowledged.store(next.get(), Ordering::Relaxed);
    }

    /// Records the offset committed to the brokers.
    pub fn committed(&self, next: i64) {
        self.committed.store(next, Ordering::Relaxed);
    }

    /// Marks the partition as stopped: it failed and is not read any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Offset after the last record that was processed.
    #[must_use]
    #[cfg(feature = "internals")]
    pub fn next(&self) -> i64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Number of offsets that are not processed yet; `None` while the end offset is not known.
    fn lag(&self) -> Option<i64> {
        let end = self.end.load(Ordering::Relaxed);
        (end != UNKNOWN).then(|| (end - self.next.load(Ordering::Relaxed)).max(0))
    }
}

/// State of the log that a process reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LogStatus {
    /// Number of samples delivered since the start.
    pub samples: u64,
    /// Number of assigned partitions.
    pub partitions: usize,
    /// Number of those that failed and are not read any more.
    pub stopped: usize,
    /// Number of offsets that are not processed yet; `None` while an end offset is not known.
    pub lag: Option<i64>,
    /// How long the partition that is furthest behind is behind, s.
    pub lag_s: f64,
}

/// Where the committed offset of a partition is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetStorage {
    /// In the brokers, for the consumer group.
    ByBrokers,
    /// In the store, together with the trips.
    ByStore,
}

/// A partition in the metrics.
#[derive(Debug)]
struct Partition {
    progress: Arc<Progress>,
    storage: OffsetStorage,
    since_ms: i64,
}

/// The partitions in the metrics, by topic and number.
#[derive(Debug, Default)]
pub(super) struct Partitions(BTreeMap<(String, i32), Partition>);

/// Keeps a partition in the metrics until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct PartitionGauge {
    key: (String, i32),
    progress: Arc<Progress>,
}

/// Adds a partition to the metrics until the returned gauge is dropped; `None` if metrics are off.
pub fn show(
    topic: &str,
    partition: i32,
    progress: &Arc<Progress>,
    storage: OffsetStorage,
) -> Option<PartitionGauge> {
    let key = (topic.to_owned(), partition);
    let shown = Partition { progress: Arc::clone(progress), storage, since_ms: clock_ms() };
    handle()?.partitions().0.insert(key.clone(), shown);
    Some(PartitionGauge { key, progress: Arc::clone(progress) })
}

impl Drop for PartitionGauge {
    fn drop(&mut self) {
        let Some(handle) = handle() else { return };
        let mut partitions = handle.partitions();
        // The partition may have been assigned again in the meantime.
        let is_same = |shown: &Partition| Arc::ptr_eq(&shown.progress, &self.progress);
        if partitions.0.get(&self.key).is_some_and(is_same) {
            partitions.0.remove(&self.key);
        }
    }
}

impl Partition {
    fn lag_seconds(&self, now_ms: i64) -> Option<f64> {
        let behind = self.progress.lag()? > 0;
        let processed_ms = match self.progress.log_time_ms.load(Ordering::Relaxed) {
            UNKNOWN => self.since_ms,
            log_time_ms => log_time_ms,
        };
        Some(if behind { seconds((now_ms - processed_ms).max(0)) } else { 0.0 })
    }

    fn is_stopped(&self) -> bool {
        self.progress.stopped.load(Ordering::Relaxed)
    }

    fn committed(&self) -> i64 {
        match self.storage {
            OffsetStorage::ByBrokers => self.progress.committed.load(Ordering::Relaxed),
            OffsetStorage::ByStore => self.progress.acknowledged.load(Ordering::Relaxed),
        }
    }
}

impl Partitions {
    /// State of all partitions together, after this number of samples.
    pub(super) fn status(&self, samples: u64, now_ms: i64) -> LogStatus {
        let all = || self.0.values();
        LogStatus {
            samples,
            partitions: self.0.len(),
            stopped: all().filter(|it| it.is_stopped()).count(),
            lag: all().map(|it| it.progress.lag()).sum(),
            lag_s: all().filter_map(|it| it.lag_seconds(now_ms)).fold(0.0, f64::max),
        }
    }

    pub(super) fn write(&self, out: &mut String, now_ms: i64) {
        self.family(out, CONSUMER_LAG, |it| it.progress.lag().map(number));
        self.family(out, CONSUMER_LAG_SECONDS, |it| it.lag_seconds(now_ms));
        self.family(out, COMMITTED_OFFSET, |it| Some(number(it.committed())));
        self.family(out, PARTITION_STOPPED, |it| Some(f64::from(u8::from(it.is_stopped()))));
    }

    fn family(&self, out: &mut String, name: &str, metric: impl Fn(&Partition) -> Option<f64>) {
        let values = self.0.iter().filter_map(|((topic, partition), shown)| {
            metric(shown).map(|value| (topic, partition.to_string(), value))
        });
        let values: Vec<_> = values.collect();
        let labelled = values.iter().map(|(topic, partition, value)| {
            ([("topic", topic.as_str()), ("partition", partition.as_str())], *value)
        });
        text::family(out, name, labelled);
    }
}

#[expect(clippy::cast_precision_loss, reason = "offsets stay far below 2^53")]
fn number(offset: i64) -> f64 {
    offset as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(partition: &Partition, now_ms: i64) -> String {
        let Partition { progress, storage, since_ms } = partition;
        let partition =
            Partition { progress: Arc::clone(progress), storage: *storage, since_ms: *since_ms };
        let partitions = Partitions(BTreeMap::from([(("a\"b".to_owned(), 3), partition)]));
        let mut text = String::new();
        partitions.write(&mut text, now_ms);
        text
    }

    #[test]
    fn the_lag_of_all_partitions_needs_each_of_their_ends() {
        let of = |from| {
            let progress = Arc::new(Progress::new(from));
            Partition { progress, storage: OffsetStorage::ByStore, since_ms: 1_000 }
        };
        let mut partitions = Partitions::default();
        assert_eq!(partitions.status(0, 5_000), LogStatus { lag: Some(0), ..LogStatus::default() });
        let (one, other) = (of(70), of(10));
        one.progress.ends_at(75);
        let progress = Arc::clone(&other.progress);
        partitions.0.insert(("samples".to_owned(), 0), one);
        partitions.0.insert(("samples".to_owned(), 1), other);
        let status = LogStatus { samples: 7, partitions: 2, lag_s: 4.0, ..LogStatus::default() };
        assert_eq!(partitions.status(7, 5_000), status);
        progress.ends_at(30);
        progress.stop();
        let status = LogStatus { lag: Some(25), stopped: 1, ..status };
        assert_eq!(partitions.status(7, 5_000), status);
    }

    #[test]
    fn lag_needs_the_end_offset_and_lag_seconds_are_zero_without_lag() {
        let progress = Arc::new(Progress::new(70));
        let mut shown = Partition { progress, storage: OffsetStorage::ByBrokers, since_ms: 1_000 };
        let text = text_of(&shown, 5_000);
        assert!(!text.contains(CONSUMER_LAG), "{text}");
        assert!(text.contains("committed_offset{topic=\"a\\\"b\",partition=\"3\"} 70\n"), "{text}");

        shown.progress.ends_at(90);
        let text = text_of(&shown, 5_000);
        assert!(text.contains("lag{topic=\"a\\\"b\",partition=\"3\"} 20\n"), "{text}");
        assert!(text.contains("lag_seconds{topic=\"a\\\"b\",partition=\"3\"} 4\n"), "{text}");

        shown.progress.processed(Offset(80), Some(LogTime(2_500)));
        // A record without samples has no log timestamp here.
        shown.progress.processed(Offset(81), None);
        shown.progress.acknowledged(Offset(75));
        shown.progress.committed(72);
        let text = text_of(&shown, 5_000);
        assert!(text.contains("lag{topic=\"a\\\"b\",partition=\"3\"} 9\n"), "{text}");
        assert!(text.contains("lag_seconds{topic=\"a\\\"b\",partition=\"3\"} 2.5\n"), "{text}");
        assert!(text.contains("offset{topic=\"a\\\"b\",partition=\"3\"} 72\n"), "{text}");

        assert!(text.contains("stopped{topic=\"a\\\"b\",partition=\"3\"} 0\n"), "{text}");
        shown.progress.stop();
        let text = text_of(&shown, 5_000);
        assert!(text.contains("stopped{topic=\"a\\\"b\",partition=\"3\"} 1\n"), "{text}");

        // The end offset in the client's statistics may be older than the position.
        shown.progress.processed(Offset(95), Some(LogTime(4_000)));
        shown.storage = OffsetStorage::ByStore;
        let text = text_of(&shown, 5_000);
        assert!(text.contains("lag{topic=\"a\\\"b\",partition=\"3\"} 0\n"), "{text}");
        assert!(text.contains("lag_seconds{topic=\"a\\\"b\",partition=\"3\"} 0\n"), "{text}");
        assert!(text.contains("offset{topic=\"a\\\"b\",partition=\"3\"} 75\n"), "{text}");
    }
}
