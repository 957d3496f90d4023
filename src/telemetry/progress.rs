//! How far the partitions that are held are read: looked at when somebody asks, so that reading
//! costs no more than it did.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::{
    COMMITTED_OFFSET, CONSUMER_LAG, CONSUMER_LAG_SECONDS, PARTITION_STOPPED, handle, now_ms,
    seconds, text,
};

/// What is not known yet.
const UNKNOWN: i64 = i64::MIN;

/// How far a partition is read, while it is held.
#[derive(Debug)]
pub struct Progress {
    /// Offset after the last record that was processed.
    next: AtomicI64,
    /// The log's timestamp of that record, ms since 1970.
    log_time_ms: AtomicI64,
    /// Offset after the last record that is there to be read.
    end: AtomicI64,
    /// Offset before which everything is durable.
    acknowledged: AtomicI64,
    /// The offset that the brokers keep.
    committed: AtomicI64,
    /// Nothing more is read of it.
    stopped: AtomicBool,
}

impl Progress {
    /// Of a partition that is read from an offset on.
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

    /// Everything before an offset is processed; the last record that has a timestamp has this one.
    pub fn processed(&self, next: i64, log_time_ms: Option<i64>) {
        self.next.store(next, Ordering::Relaxed);
        if let Some(log_time_ms) = log_time_ms {
            self.log_time_ms.store(log_time_ms, Ordering::Relaxed);
        }
    }

    /// There is no record at or past an offset now.
    pub fn ends_at(&self, end: i64) {
        self.end.store(end, Ordering::Relaxed);
    }

    /// Everything before an offset is durable.
    pub fn acknowledged(&self, next: i64) {
        self.acknowledged.store(next, Ordering::Relaxed);
    }

    /// The brokers keep an offset.
    pub fn committed(&self, next: i64) {
        self.committed.store(next, Ordering::Relaxed);
    }

    /// The partition has failed: nothing more is read of it.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Offsets that are not processed yet; `None` while the end is not known.
    fn lag(&self) -> Option<i64> {
        let end = self.end.load(Ordering::Relaxed);
        (end != UNKNOWN).then(|| (end - self.next.load(Ordering::Relaxed)).max(0))
    }
}

/// Who keeps the offsets of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetStorage {
    /// The brokers, for the group.
    ByBrokers,
    /// The store, with what it holds.
    ByStore,
}

/// A partition that is shown.
#[derive(Debug)]
struct Partition {
    progress: Arc<Progress>,
    kept: OffsetStorage,
    since_ms: i64,
}

/// Those that are shown, by topic and number.
#[derive(Debug, Default)]
pub(super) struct Partitions(BTreeMap<(String, i32), Partition>);

/// Shows a partition until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct PartitionGauge {
    key: (String, i32),
    progress: Arc<Progress>,
}

/// Shows how far a partition is read, until the answer is dropped. Nothing where nothing is
/// recorded.
pub fn show(
    topic: &str,
    partition: i32,
    progress: &Arc<Progress>,
    kept: OffsetStorage,
) -> Option<PartitionGauge> {
    let key = (topic.to_owned(), partition);
    let shown = Partition { progress: Arc::clone(progress), kept, since_ms: now_ms() };
    handle()?.partitions().0.insert(key.clone(), shown);
    Some(PartitionGauge { key, progress: Arc::clone(progress) })
}

impl Drop for PartitionGauge {
    fn drop(&mut self) {
        let Some(handle) = handle() else { return };
        let mut partitions = handle.partitions();
        // It may be held anew already.
        let is_this = |shown: &Partition| Arc::ptr_eq(&shown.progress, &self.progress);
        if partitions.0.get(&self.key).is_some_and(is_this) {
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

    fn committed(&self) -> i64 {
        match self.kept {
            OffsetStorage::ByBrokers => self.progress.committed.load(Ordering::Relaxed),
            OffsetStorage::ByStore => self.progress.acknowledged.load(Ordering::Relaxed),
        }
    }
}

impl Partitions {
    pub(super) fn write(&self, out: &mut String, now_ms: i64) {
        self.family(out, CONSUMER_LAG, |it| it.progress.lag().map(number));
        self.family(out, CONSUMER_LAG_SECONDS, |it| it.lag_seconds(now_ms));
        self.family(out, COMMITTED_OFFSET, |it| Some(number(it.committed())));
        let stopped = |it: &Partition| it.progress.stopped.load(Ordering::Relaxed);
        self.family(out, PARTITION_STOPPED, |it| Some(f64::from(u8::from(stopped(it)))));
    }

    fn family(&self, out: &mut String, name: &str, of: impl Fn(&Partition) -> Option<f64>) {
        let values = self.0.iter().filter_map(|((topic, partition), shown)| {
            of(shown).map(|value| (topic, partition.to_string(), value))
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
        let Partition { progress, kept, since_ms } = partition;
        let partition =
            Partition { progress: Arc::clone(progress), kept: *kept, since_ms: *since_ms };
        let partitions = Partitions(BTreeMap::from([(("a\"b".to_owned(), 3), partition)]));
        let mut text = String::new();
        partitions.write(&mut text, now_ms);
        text
    }

    #[test]
    fn lag_is_told_once_the_end_is_known_and_its_time_where_there_is_lag() {
        let progress = Arc::new(Progress::new(70));
        let mut shown = Partition { progress, kept: OffsetStorage::ByBrokers, since_ms: 1_000 };
        let text = text_of(&shown, 5_000);
        assert!(!text.contains(CONSUMER_LAG), "{text}");
        assert!(text.contains("committed_offset{topic=\"a\\\"b\",partition=\"3\"} 70\n"), "{text}");

        shown.progress.ends_at(90);
        let text = text_of(&shown, 5_000);
        assert!(text.contains("lag{topic=\"a\\\"b\",partition=\"3\"} 20\n"), "{text}");
        assert!(text.contains("lag_seconds{topic=\"a\\\"b\",partition=\"3\"} 4\n"), "{text}");

        shown.progress.processed(80, Some(2_500));
        // A record that has no sample has no timestamp here.
        shown.progress.processed(81, None);
        shown.progress.acknowledged(75);
        shown.progress.committed(72);
        let text = text_of(&shown, 5_000);
        assert!(text.contains("lag{topic=\"a\\\"b\",partition=\"3\"} 9\n"), "{text}");
        assert!(text.contains("lag_seconds{topic=\"a\\\"b\",partition=\"3\"} 2.5\n"), "{text}");
        assert!(text.contains("offset{topic=\"a\\\"b\",partition=\"3\"} 72\n"), "{text}");

        assert!(text.contains("stopped{topic=\"a\\\"b\",partition=\"3\"} 0\n"), "{text}");
        shown.progress.stop();
        let text = text_of(&shown, 5_000);
        assert!(text.contains("stopped{topic=\"a\\\"b\",partition=\"3\"} 1\n"), "{text}");

        // What the client knows of the end may be older than what was processed since.
        shown.progress.processed(95, Some(4_000));
        shown.kept = OffsetStorage::ByStore;
        let text = text_of(&shown, 5_000);
        assert!(text.contains("lag{topic=\"a\\\"b\",partition=\"3\"} 0\n"), "{text}");
        assert!(text.contains("lag_seconds{topic=\"a\\\"b\",partition=\"3\"} 0\n"), "{text}");
        assert!(text.contains("offset{topic=\"a\\\"b\",partition=\"3\"} 75\n"), "{text}");
    }
}
