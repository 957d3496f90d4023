//! Reads a range of a topic once, from start to end. All calls block.

use std::ops::Range;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_extra::LoggedIn;

use super::client::Brokers;
use super::rights::Right;
use super::topic::OffsetRange;
use super::unreadable::{self, UnreadableBatch};
use super::{KafkaError, client_error, offset_list};
use crate::model::time::format_duration;

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
        Ok(Self { consumer, brokers, timeout, topic, pending, current: None })
    }

    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    /// No broker responds, or the client failed.
    pub fn next_message(&mut self) -> Result<Option<OwnedMessage>, KafkaError> {
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
                    let message = message.detach();
                    remaining.start = message.offset() + 1;
                    let is_in_range = message.offset() < remaining.end;
                    if remaining.is_empty() {
                        self.current = None;
                    }
                    if is_in_range {
                        return Ok(Some(message));
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
    pub fn end_partition(&mut self) {
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
