//! Reads a range of a topic once, from start to end. All calls block.

use std::ops::Range;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::Message as _;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_extra::{LoggedIn, QueuedMessage};

use super::client::Brokers;
use super::headers::{MAX_HEADERS, MAX_LETTER_HEADERS, read_headers};
use super::record::Record;
use super::rights::Right;
use super::topics::OffsetRange;
use super::unreadable::{self, UnreadableBatch};
use super::{KafkaError, client_error, offset_list};
use crate::model::scalar::{LogTime, Offset};
use crate::model::time::format_duration;
use crate::source::Headers;

/// Maximum wait of one poll.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// Time without progress before giving up, if [`Brokers`] sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the records of some partitions of a topic, partition by partition, oldest first. Only
/// committed records; transaction markers are skipped.
pub struct Scan {
    consumer: LoggedIn<BaseConsumer>,
    brokers: Brokers,
    timeout: Duration,
    topic: String,
    /// Partitions still to be read, the next one last.
    pending: Vec<(i32, OffsetRange)>,
    /// Current partition, and the offsets of it that remain.
    current: Option<(i32, Range<i64>)>,
    /// Maximum number of headers read of a record.
    max_headers: usize,
}

/// A record that was read.
#[derive(Debug)]
pub struct ScannedRecord {
    /// Partition number, from 0.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: Offset,
    /// Key; `None` if the record has none.
    pub key: Option<Vec<u8>>,
    /// Value; `None` for a tombstone.
    pub value: Option<Vec<u8>>,
    log_time_ms: LogTime,
    pub(super) headers: Headers,
}

impl ScannedRecord {
    fn new(message: &QueuedMessage<'_>, max_headers: usize) -> Self {
        Self {
            partition: message.partition(),
            offset: Offset(message.offset()),
            key: message.key().map(<[u8]>::to_vec),
            value: message.value().map(<[u8]>::to_vec),
            log_time_ms: LogTime(message.timestamp_ms().unwrap_or(0)),
            headers: read_headers(message, max_headers),
        }
    }

    /// The record as any other of a log.
    #[must_use]
    pub fn record(&self) -> Record<'_> {
        Record {
            partition: self.partition,
            offset: self.offset,
            log_time_ms: self.log_time_ms,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: self.headers.clone(),
            oversize: None,
        }
    }
}

impl Scan {
    /// Creates a scan of these offset ranges.
    ///
    /// # Errors
    /// The client cannot be created.
    pub fn new(
        brokers: &Brokers,
        topic: &str,
        mut pending: Vec<(i32, OffsetRange)>,
    ) -> Result<Self, KafkaError> {
        let consumer = brokers.standalone_consumer(&[
            ("queued.max.messages.kbytes", "16384"),
            ("fetch.wait.max.ms", "10"),
            ("fetch.queue.backoff.ms", "10"),
        ])?;
        pending.reverse();
        let (brokers, topic) = (brokers.clone(), topic.to_owned());
        let timeout = brokers.timeout_or(DEFAULT_TIMEOUT);
        let max_headers = MAX_HEADERS;
        Ok(Self { consumer, brokers, timeout, topic, pending, current: None, max_headers })
    }

    /// Reads as many headers as a dead letter may have.
    pub(super) fn of_letters(self) -> Self {
        Self { max_headers: MAX_LETTER_HEADERS, ..self }
    }

    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    /// No broker responds, or the client failed.
    pub fn next_record(&mut self) -> Result<Option<ScannedRecord>, KafkaError> {
        let mut last_progress = Instant::now();
        loop {
            let Some((partition, remaining)) = &mut self.current else {
                if !self.next_partition()? {
                    return Ok(None);
                }
                last_progress = Instant::now();
                continue;
            };
            let partition = *partition;
            match self.consumer.poll(POLL_TIMEOUT) {
                Some(Ok(message)) if message.partition() == partition => {
                    remaining.start = message.offset() + 1;
                    let is_in_range = message.offset() < remaining.end;
                    if remaining.is_empty() {
                        self.current = None;
                    }
                    if is_in_range {
                        let message = QueuedMessage::from_borrowed(&message);
                        return Ok(Some(ScannedRecord::new(&message, self.max_headers)));
                    }
                }
                Some(Err(ClientError::PartitionEOF(ended))) if ended == partition => {
                    self.current = None
                }
                Some(Err(error))
                    if unreadable::is_unreadable(&error)
                        && last_progress.elapsed() <= self.timeout =>
                {
                    self.skip_unreadable(&mut last_progress)?;
                }
                Some(Err(error @ ClientError::MessageConsumptionFatal(_))) => {
                    return Err(client_error("reading a topic")(error));
                }
                // The client needs no right on its group.
                Some(Err(
                    error @ ClientError::MessageConsumption(Code::TopicAuthorizationFailed),
                )) => {
                    let rights = [Right::topic("Read", &self.topic)];
                    return Err(self.brokers.failed("reading a topic", &rights, error));
                }
                // The client recovers by itself, or stays silent.
                _ if last_progress.elapsed() > self.timeout => {
                    let timeout_ms = i64::try_from(self.timeout.as_millis()).unwrap_or(i64::MAX);
                    let problem = format!(
                        "no response for partition {partition} of `{}` for {}",
                        self.topic,
                        format_duration(timeout_ms)
                    );
                    let brokers = self.brokers.addresses().to_owned();
                    return Err(KafkaError::Unreachable { brokers, problem });
                }
                _ => (),
            }
        }
    }

    /// Reads no more of the partition of the last record.
    pub(crate) fn end_partition(&mut self) {
        self.current = None;
    }

    /// Skips a batch that the client cannot unpack: the daemon turns it into a dead letter. Resets
    /// `last_progress` if one was found.
    fn skip_unreadable(&mut self, last_progress: &mut Instant) -> Result<(), KafkaError> {
        let Some((partition, remaining)) = &self.current else { return Ok(()) };
        let (partition, end) = (*partition, remaining.end);
        let batch = unreadable::find(&self.brokers, &self.topic, partition, remaining.start)?;
        let Some(UnreadableBatch { first, last, problem }) = batch else { return Ok(()) };
        *last_progress = Instant::now();
        tracing::warn!(
            topic = self.topic,
            partition,
            first,
            last,
            problem,
            "skipped a batch that cannot be unpacked"
        );
        self.current = None;
        if last + 1 < end {
            self.start_partition(partition, last + 1..end)?;
        }
        Ok(())
    }

    /// Starts the next partition that is not empty; returns false if there is none.
    fn next_partition(&mut self) -> Result<bool, KafkaError> {
        while let Some((partition, extent)) = self.pending.pop() {
            if extent.first < extent.next {
                self.start_partition(partition, extent.first..extent.next)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn start_partition(&mut self, partition: i32, remaining: Range<i64>) -> Result<(), KafkaError> {
        offset_list(&self.topic, [(partition, remaining.start)])
            .and_then(|list| self.consumer.assign(&list))
            .map_err(client_error("starting to read a topic"))?;
        self.current = Some((partition, remaining));
        Ok(())
    }
}
