//! Keeps the latest records of a topic in memory for its clients: one thread reads, however many
//! clients there are.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka_extra::LoggedIn;
use serde_json::value::RawValue;

use super::client::Brokers;
use super::rights::Right;
use super::topics::Topics;
use super::{KafkaError, client_error, offset_list};
use crate::telemetry;

/// Maximum wait of one poll.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// Delay before reading of the topic is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Interval at which the partition count is checked.
const PARTITION_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Limits of the records in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// Maximum number of records.
    pub records: usize,
    /// Maximum size of their values, bytes.
    pub bytes: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { records: 10_000, bytes: 16 << 20 }
    }
}

/// A position in the topic: the offset of the next record, by partition.
pub(crate) type Offsets = Vec<i64>;

/// The latest records of a topic. Dropping it stops the reading thread.
pub(crate) struct Tail {
    shared: Arc<Mutex<Ring>>,
    topic: String,
}

/// The positions that reading can start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TailSpan {
    /// First position from which every record is in memory.
    pub first: Offsets,
    /// Position after the latest record.
    pub next: Offsets,
}

#[derive(Debug)]
struct StoredEvent {
    partition: usize,
    offset: i64,
    value: Arc<str>,
}

#[derive(Debug)]
struct Ring {
    keep: Keep,
    span: TailSpan,
    /// By partition, whether every record that existed at the start was read.
    caught_up: Vec<bool>,
    records: VecDeque<StoredEvent>,
    bytes: usize,
    /// Why the topic is not available, if it never was.
    unavailable: String,
}

impl Ring {
    fn init_partitions(&mut self, starts: &[i64], caught_up: Vec<bool>) {
        self.span = TailSpan { first: starts.to_vec(), next: starts.to_vec() };
        self.caught_up = caught_up;
        self.records.clear();
        self.bytes = 0;
    }

    fn is_caught_up(&self) -> bool {
        !self.caught_up.is_empty() && self.caught_up.iter().all(|it| *it)
    }

    /// Adds a record; without a value only the position moves.
    fn add(&mut self, partition: usize, offset: i64, value: Option<&str>) {
        if offset < self.span.next[partition] {
            // The topic was recreated: earlier positions in the partition are invalid.
            self.span.first[partition] = offset;
            self.records.retain(|kept| kept.partition != partition);
            self.bytes = self.records.iter().map(|kept| kept.value.len()).sum();
        }
        self.span.next[partition] = offset + 1;
        let Some(value) = value else { return };
        self.bytes += value.len();
        self.records.push_back(StoredEvent { partition, offset, value: value.into() });
        while self.records.len() > self.keep.records || self.bytes > self.keep.bytes {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes -= oldest.value.len();
            self.span.first[oldest.partition] = oldest.offset + 1;
        }
    }

    /// Records after a position, each with the position after it, in arrival order.
    fn after(&self, from: &[i64], limit: usize) -> Vec<(Offsets, Arc<str>)> {
        let mut at: Offsets = from.to_vec();
        at.resize(self.span.next.len(), 0);
        if at == self.span.next {
            return Vec::new();
        }
        let new = self.records.iter().filter(|kept| kept.offset >= at[kept.partition]);
        let new: Vec<_> = new.take(limit).collect();
        let events = new.into_iter().map(|kept| {
            at[kept.partition] = kept.offset + 1;
            (at.clone(), Arc::clone(&kept.value))
        });
        events.collect()
    }
}

impl Tail {
    /// Starts to read a topic at its latest records; the topic may be created later.
    ///
    /// # Errors
    /// The client or the thread cannot be created.
    pub(crate) fn start(brokers: &Brokers, topic: &str, keep: Keep) -> Result<Self, KafkaError> {
        let span = TailSpan { first: Vec::new(), next: Vec::new() };
        let ring = Ring {
            keep,
            span,
            caught_up: Vec::new(),
            records: VecDeque::new(),
            bytes: 0,
            unavailable: format!("topic `{topic}` is not read yet"),
        };
        let shared = Arc::new(Mutex::new(ring));
        let reader = TailReader::new(brokers, topic, keep, Arc::downgrade(&shared))?;
        let thread = std::thread::Builder::new().name("tstar-tail".into());
        let problem = |error: std::io::Error| KafkaError::Options { problem: error.to_string() };
        thread.spawn(move || reader.run()).map_err(problem)?;
        Ok(Self { shared, topic: topic.to_owned() })
    }

    /// Name of the topic.
    #[must_use]
    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    /// The positions that reading can start from.
    ///
    /// # Errors
    /// Why the topic is not available yet.
    pub(crate) fn span(&self) -> Result<TailSpan, String> {
        let ring = self.ring();
        if ring.is_caught_up() { Ok(ring.span.clone()) } else { Err(ring.unavailable.clone()) }
    }

    /// Records after a position, each with the position after it.
    #[must_use]
    pub(crate) fn after(&self, from: &[i64], limit: usize) -> Vec<(Offsets, Arc<str>)> {
        self.ring().after(from, limit)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.shared.lock().expect("no holder of the lock panics")
    }
}

/// The reading thread.
struct TailReader {
    consumer: LoggedIn<BaseConsumer>,
    topics: Topics,
    topic: String,
    keep: Keep,
    ring: Weak<Mutex<Ring>>,
    /// Whether it has logged a warning about records of another program.
    has_warned: Cell<bool>,
}

/// Parses the value of a record as an event: a JSON object.
fn event_of(value: &[u8]) -> Option<&str> {
    let event: &RawValue = serde_json::from_slice(value).ok()?;
    Some(event.get()).filter(|text| text.starts_with('{'))
}

/// The [`Tail`] was dropped.
struct TailClosed;

impl TailReader {
    fn new(
        brokers: &Brokers,
        topic: &str,
        keep: Keep,
        ring: Weak<Mutex<Ring>>,
    ) -> Result<Self, KafkaError> {
        let consumer = brokers.standalone_consumer(&[("queued.max.messages.kbytes", "4096")])?;
        let topics = Topics::new(brokers)?;
        let (topic, has_warned) = (topic.to_owned(), Cell::new(false));
        // Registers the metric.
        telemetry::ignored(0);
        Ok(Self { consumer, topics, topic, keep, ring, has_warned })
    }

    fn update<T>(&self, apply: impl FnOnce(&mut Ring) -> T) -> Result<T, TailClosed> {
        let ring = self.ring.upgrade().ok_or(TailClosed)?;
        let mut ring = ring.lock().expect("no holder of the lock panics");
        Ok(apply(&mut ring))
    }

    fn run(self) {
        loop {
            let read = match self.start() {
                Ok(partitions) => self.read(partitions),
                Err(error) => self.update(|ring| ring.unavailable = error.to_string()).map(|()| {
                    tracing::debug!(%error, topic = self.topic, "change feed not available yet");
                }),
            };
            if read.is_err() {
                return;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Starts to read: the latest `keep.records` records, shared equally by the partitions. Returns
    /// the partition count.
    fn start(&self) -> Result<i32, KafkaError> {
        let Some(partitions) = self.topics.partitions(&self.topic)? else {
            let (topic, lack) = (self.topic.clone(), "there is no change feed");
            return Err(KafkaError::NoOutput { topic, lack });
        };
        let extents = self.topics.extents(&self.topic, partitions)?;
        let share = self.keep.records / extents.len().max(1);
        let share = i64::try_from(share).unwrap_or(i64::MAX);
        let starts: Vec<_> = extents.iter().map(|it| it.first.max(it.next - share)).collect();
        offset_list(&self.topic, (0..).zip(starts.iter().copied()))
            .and_then(|list| self.consumer.assign(&list))
            .map_err(client_error("starting to read the change feed"))?;
        let empty = extents.iter().map(|it| it.first >= it.next).collect();
        // If the `Tail` was dropped, the next update reports it.
        self.update(|ring| ring.init_partitions(&starts, empty)).ok();
        Ok(partitions)
    }

    /// Reads until the partition count grows or the client fails.
    fn read(&self, partitions: i32) -> Result<(), TailClosed> {
        let mut last_check = Instant::now();
        loop {
            match self.consumer.poll(POLL_TIMEOUT) {
                Some(Ok(message)) => self.push_message(&message)?,
                Some(Err(ClientError::PartitionEOF(partition))) => {
                    self.update(|ring| ring.caught_up[partition as usize] = true)?;
                }
                Some(Err(error @ ClientError::MessageConsumptionFatal(_))) => {
                    tracing::warn!(%error, topic = self.topic, "restarting the change feed reader");
                    return Ok(());
                }
                Some(Err(ClientError::MessageConsumption(code))) => {
                    let rights = [Right::topic("Read", &self.topic)];
                    let denied = self.topics.brokers().denied(&rights, code);
                    self.update(|ring| {
                        if let Some(denied) = denied {
                            ring.unavailable = denied.to_string();
                        }
                    })?;
                }
                // The client recovers by itself.
                _ => self.update(|_| ())?,
            }
            if last_check.elapsed() > PARTITION_CHECK_INTERVAL {
                last_check = Instant::now();
                // If no broker responds, check again at the next interval.
                if self.topics.partitions(&self.topic).ok().flatten() > Some(partitions) {
                    return Ok(());
                }
            }
        }
    }

    fn push_message(&self, message: &BorrowedMessage<'_>) -> Result<(), TailClosed> {
        let (partition, offset) = (message.partition(), message.offset());
        let event = event_of(message.payload().unwrap_or_default());
        if event.is_none() {
            telemetry::ignored(1);
            if !self.has_warned.replace(true) {
                tracing::warn!(
                    topic = self.topic,
                    partition,
                    offset,
                    "a record is not an event, so another program writes to this topic; such \
                     records are skipped, and counted in {}",
                    telemetry::FEED_IGNORED
                );
            }
        }
        self.update(|ring| ring.add(partition as usize, offset, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(records: usize, starts: &[i64]) -> Ring {
        let span = TailSpan { first: Vec::new(), next: Vec::new() };
        let keep = Keep { records, bytes: 100 };
        let (records, caught_up) = (VecDeque::new(), Vec::new());
        let mut ring =
            Ring { keep, span, caught_up, records, bytes: 0, unavailable: String::new() };
        ring.init_partitions(starts, vec![true; starts.len()]);
        ring
    }

    fn events_after(ring: &Ring, from: &[i64], limit: usize) -> Vec<(Offsets, String)> {
        let events = ring.after(from, limit).into_iter();
        events.map(|(at, value)| (at, value.to_string())).collect()
    }

    #[test]
    fn a_client_resumes_in_every_partition() {
        let mut ring = ring(10, &[5, 0]);
        for (partition, offset, value) in [(0, 5, "a"), (1, 0, "b"), (0, 7, "c"), (1, 1, "d")] {
            ring.add(partition, offset, Some(value));
        }
        let all = events_after(&ring, &[5, 0], 10);
        let expected = [([6, 0], "a"), ([6, 1], "b"), ([8, 1], "c"), ([8, 2], "d")];
        assert_eq!(all, expected.map(|(at, value)| (at.to_vec(), value.to_owned())));
        // From every intermediate position.
        for (nth, (at, _)) in all.iter().enumerate() {
            assert_eq!(events_after(&ring, at, 10), all[nth + 1..]);
        }
        assert_eq!(events_after(&ring, &[8, 0], 1), [(vec![8, 1], "b".to_owned())]);
        // The topic grew: the client has no position in the new partition.
        assert_eq!(events_after(&ring, &[8], 10).len(), 2);
    }

    #[test]
    fn evicted_records_move_the_first_position() {
        let mut ring = ring(2, &[0, 0]);
        for (partition, offset) in [(0, 0), (1, 0), (0, 1)] {
            ring.add(partition, offset, Some("x"));
        }
        assert_eq!(ring.span, TailSpan { first: vec![1, 0], next: vec![2, 1] });
        ring.add(0, 2, Some(&"x".repeat(99)));
        assert_eq!((ring.span.first.clone(), ring.records.len()), (vec![1, 1], 2));
        ring.add(1, 1, Some(&"x".repeat(101)));
        assert_eq!((ring.records.len(), ring.bytes), (0, 0), "larger than the whole limit");
        // The topic was recreated.
        ring.add(0, 0, Some("y"));
        assert_eq!(ring.span, TailSpan { first: vec![0, 2], next: vec![1, 2] });
        assert_eq!(events_after(&ring, &[0, 2], 9), [(vec![1, 2], "y".to_owned())]);
    }

    #[test]
    fn records_that_are_not_events_are_skipped() {
        assert_eq!(event_of(br#" {"type":"changed"} "#), Some(r#"{"type":"changed"}"#));
        for invalid in [&b""[..], b"\xff", b"{\"type\":\"\xff\"}", b"{", b"{}{}", b"[1]", b"7"] {
            assert_eq!(event_of(invalid), None, "{invalid:?}");
        }
        let mut ring = ring(2, &[0]);
        ring.add(0, 0, None);
        assert!(ring.after(&[0], 9).is_empty());
        assert_eq!(ring.span.next, [1]);
    }
}
