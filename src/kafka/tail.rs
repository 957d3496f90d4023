//! The latest records of a topic, kept in memory for those who follow it: one thread reads, however
//! many ask.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::Offset;
use serde_json::value::RawValue;

use super::client::Brokers;
use super::topic::Topics;
use super::{KafkaError, client_error};
use crate::telemetry;

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(100);

/// How long to wait before the topic is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How long between two looks at how many partitions there are.
const COUNT_AGAIN: Duration = Duration::from_secs(60);

/// How much is kept: records, and bytes of them.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// The most records.
    pub records: usize,
    /// The most bytes of their values.
    pub bytes: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { records: 10_000, bytes: 16 << 20 }
    }
}

/// A place in the topic: by partition the offset of the next record.
pub type Offsets = Vec<i64>;

/// The latest records of a topic. Reading ends with this value.
pub struct Tail {
    shared: Arc<Mutex<Ring>>,
    topic: String,
}

/// Which places in the topic records can be told from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first place from which every record is kept.
    pub first: Offsets,
    /// The place after the latest record.
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
    span: Span,
    /// By partition, whether what was there at the start has come.
    caught_up: Vec<bool>,
    records: VecDeque<StoredEvent>,
    bytes: usize,
    /// Why the topic is not read, as long as it never was.
    why: String,
}

impl Ring {
    fn init_partitions(&mut self, starts: &[i64], caught_up: Vec<bool>) {
        self.span = Span { first: starts.to_vec(), next: starts.to_vec() };
        self.caught_up = caught_up;
        self.records.clear();
        self.bytes = 0;
    }

    fn is_whole(&self) -> bool {
        !self.caught_up.is_empty() && self.caught_up.iter().all(|it| *it)
    }

    /// Takes a record; one without a value only moves the place.
    fn add(&mut self, partition: usize, offset: i64, value: Option<&str>) {
        if offset < self.span.next[partition] {
            // The topic was made anew: nothing before it is a place in it.
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

    /// Records after a place, each with the place after it, in the order in which they came.
    fn after(&self, from: &[i64], limit: usize) -> Vec<(Offsets, Arc<str>)> {
        let mut at: Offsets = from.to_vec();
        at.resize(self.span.next.len(), 0);
        if at == self.span.next {
            return Vec::new();
        }
        let new = self.records.iter().filter(|kept| kept.offset >= at[kept.partition]);
        let new: Vec<_> = new.take(limit).collect();
        let told = new.into_iter().map(|kept| {
            at[kept.partition] = kept.offset + 1;
            (at.clone(), Arc::clone(&kept.value))
        });
        told.collect()
    }
}

impl Tail {
    /// Reads a topic from its latest records on; the topic may come later.
    ///
    /// # Errors
    /// The client cannot be made.
    pub fn start(brokers: &Brokers, topic: &str, keep: Keep) -> Result<Self, KafkaError> {
        let span = Span { first: Vec::new(), next: Vec::new() };
        let ring = Ring {
            keep,
            span,
            caught_up: Vec::new(),
            records: VecDeque::new(),
            bytes: 0,
            why: format!("topic `{topic}` is not read yet"),
        };
        let shared = Arc::new(Mutex::new(ring));
        let reader = TailReader::new(brokers, topic, keep, Arc::downgrade(&shared))?;
        let thread = std::thread::Builder::new().name("tstar-tail".into());
        let problem = |error: std::io::Error| KafkaError::Options { problem: error.to_string() };
        thread.spawn(move || reader.run()).map_err(problem)?;
        Ok(Self { shared, topic: topic.to_owned() })
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Which places records can be told from.
    ///
    /// # Errors
    /// Why the topic is not read yet.
    pub fn span(&self) -> Result<Span, String> {
        let ring = self.ring();
        if ring.is_whole() { Ok(ring.span.clone()) } else { Err(ring.why.clone()) }
    }

    /// Records after a place, each with the place after it.
    #[must_use]
    pub fn after(&self, from: &[i64], limit: usize) -> Vec<(Offsets, Arc<str>)> {
        self.ring().after(from, limit)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.shared.lock().expect("no holder of the lock panics")
    }
}

/// The thread that reads.
struct TailReader {
    consumer: BaseConsumer,
    topics: Topics,
    topic: String,
    keep: Keep,
    ring: Weak<Mutex<Ring>>,
    /// It has said that there are records of somebody else.
    warned: Cell<bool>,
}

/// The event that a record is: what tstar sends are objects of JSON.
fn event_of(value: &[u8]) -> Option<&str> {
    let event: &RawValue = serde_json::from_slice(value).ok()?;
    Some(event.get()).filter(|text| text.starts_with('{'))
}

/// Nobody asks any more.
struct TailClosed;

impl TailReader {
    fn new(
        brokers: &Brokers,
        topic: &str,
        keep: Keep,
        ring: Weak<Mutex<Ring>>,
    ) -> Result<Self, KafkaError> {
        let consumer = brokers.onlooker(&[("queued.max.messages.kbytes", "4096")])?;
        let topics = Topics::new(brokers)?;
        let (topic, warned) = (topic.to_owned(), Cell::new(false));
        // It is shown from now on.
        telemetry::ignored(0);
        Ok(Self { consumer, topics, topic, keep, ring, warned })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Ring) -> T) -> Result<T, TailClosed> {
        let ring = self.ring.upgrade().ok_or(TailClosed)?;
        let mut ring = ring.lock().expect("no holder of the lock panics");
        Ok(change(&mut ring))
    }

    fn run(self) {
        loop {
            let read = match self.start() {
                Ok(partitions) => self.read(partitions),
                Err(error) => self.with(|ring| ring.why = error.to_string()).map(|()| {
                    tracing::debug!(%error, topic = self.topic, "no changes are told yet");
                }),
            };
            if read.is_err() {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Begins at so many records before the end, shared by the partitions.
    fn start(&self) -> Result<i32, KafkaError> {
        let Some(partitions) = self.topics.partitions(&self.topic)? else {
            return Err(KafkaError::NoChanges { topic: self.topic.clone() });
        };
        let extents = self.topics.extents(&self.topic, partitions)?;
        let each = self.keep.records / extents.len().max(1);
        let each = i64::try_from(each).unwrap_or(i64::MAX);
        let starts: Vec<_> = extents.iter().map(|it| it.first.max(it.next - each)).collect();
        let mut list = TopicPartitionList::new();
        for (partition, &start) in (0..).zip(&starts) {
            list.add_partition_offset(&self.topic, partition, Offset::Offset(start))
                .map_err(client_error("beginning to follow a topic"))?;
        }
        self.consumer.assign(&list).map_err(client_error("beginning to follow a topic"))?;
        let empty = extents.iter().map(|it| it.first >= it.next).collect();
        // Gone: the next change of the ring tells.
        self.with(|ring| ring.init_partitions(&starts, empty)).ok();
        Ok(partitions)
    }

    /// Reads until there are more partitions.
    fn read(&self, partitions: i32) -> Result<(), TailClosed> {
        let mut counted = Instant::now();
        loop {
            match self.consumer.poll(POLL) {
                Some(Ok(message)) => self.push_message(&message)?,
                Some(Err(ClientError::PartitionEOF(partition))) => {
                    self.with(|ring| ring.caught_up[partition as usize] = true)?;
                }
                Some(Err(error @ ClientError::MessageConsumptionFatal(_))) => {
                    tracing::warn!(%error, topic = self.topic, "begins to follow anew");
                    return Ok(());
                }
                // The client gets over it.
                _ => self.with(|_| ())?,
            }
            if counted.elapsed() > COUNT_AGAIN {
                counted = Instant::now();
                // Where no broker answers, the next look tells.
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
            if !self.warned.replace(true) {
                tracing::warn!(
                    topic = self.topic,
                    partition,
                    offset,
                    "a record is no event: somebody else writes to this topic; such records are \
                     passed over, and counted in {}",
                    telemetry::FEED_IGNORED
                );
            }
        }
        self.with(|ring| ring.add(partition as usize, offset, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(records: usize, starts: &[i64]) -> Ring {
        let span = Span { first: Vec::new(), next: Vec::new() };
        let keep = Keep { records, bytes: 100 };
        let (records, caught_up) = (VecDeque::new(), Vec::new());
        let mut ring = Ring { keep, span, caught_up, records, bytes: 0, why: String::new() };
        ring.init_partitions(starts, vec![true; starts.len()]);
        ring
    }

    fn events_after(ring: &Ring, from: &[i64], limit: usize) -> Vec<(Offsets, String)> {
        let told = ring.after(from, limit).into_iter();
        told.map(|(at, value)| (at, value.to_string())).collect()
    }

    #[test]
    fn a_client_goes_on_where_it_was_in_every_partition() {
        let mut ring = ring(10, &[5, 0]);
        for (partition, offset, value) in [(0, 5, "a"), (1, 0, "b"), (0, 7, "c"), (1, 1, "d")] {
            ring.add(partition, offset, Some(value));
        }
        let all = events_after(&ring, &[5, 0], 10);
        let expected = [([6, 0], "a"), ([6, 1], "b"), ([8, 1], "c"), ([8, 2], "d")];
        assert_eq!(all, expected.map(|(at, value)| (at.to_vec(), value.to_owned())));
        // However far it came in each.
        for (nth, (at, _)) in all.iter().enumerate() {
            assert_eq!(events_after(&ring, at, 10), all[nth + 1..]);
        }
        assert_eq!(events_after(&ring, &[8, 0], 1), [(vec![8, 1], "b".to_owned())]);
        // A topic that grew: nothing of the new partition was told.
        assert_eq!(events_after(&ring, &[8], 10).len(), 2);
    }

    #[test]
    fn what_does_not_fit_any_more_is_no_place_to_begin() {
        let mut ring = ring(2, &[0, 0]);
        for (partition, offset) in [(0, 0), (1, 0), (0, 1)] {
            ring.add(partition, offset, Some("x"));
        }
        assert_eq!(ring.span, Span { first: vec![1, 0], next: vec![2, 1] });
        ring.add(0, 2, Some(&"x".repeat(99)));
        assert_eq!((ring.span.first.clone(), ring.records.len()), (vec![1, 1], 2));
        ring.add(1, 1, Some(&"x".repeat(101)));
        assert_eq!((ring.records.len(), ring.bytes), (0, 0), "larger than all there is room for");
        // Made anew.
        ring.add(0, 0, Some("y"));
        assert_eq!(ring.span, Span { first: vec![0, 2], next: vec![1, 2] });
        assert_eq!(events_after(&ring, &[0, 2], 9), [(vec![1, 2], "y".to_owned())]);
    }

    #[test]
    fn records_that_are_no_events_are_passed_over() {
        assert_eq!(event_of(br#" {"type":"grown"} "#), Some(r#"{"type":"grown"}"#));
        for none in [&b""[..], b"\xff", b"{\"type\":\"\xff\"}", b"{", b"{}{}", b"[1]", b"7"] {
            assert_eq!(event_of(none), None, "{none:?}");
        }
        let mut ring = ring(2, &[0]);
        ring.add(0, 0, None);
        assert!(ring.after(&[0], 9).is_empty());
        assert_eq!(ring.span.next, [1]);
    }
}
